//! A file server at the other end of a socket, keys, and files to serve.
#![allow(dead_code, reason = "each test program uses its part")]

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_files::get::PART_SUFFIX;
use namely_files::{GetOptions, ResumeSecret};
use namely_security::validity::ALWAYS;
use namely_security::{Certificate, KeyType, PrivateKey, Signer, TrustPolicy};
use namely_socket::{Consumer, ConsumerOptions, Flow, Trust};
use namely_transport::connection::{Connection, Incoming, Outbox, Packet};
use namely_transport::object::Progress;
use namely_transport::serve::Producer;
use namely_wire::Name;

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A key for `identity` and its certificate, which is a trust anchor.
pub(crate) fn key_of(identity: &str) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name(identity).join_generic("KEY").join_generic("k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    (Signer::new(key_name, key), certificate)
}

/// Options that trust `anchor`. The time limits exceed the time for which the threads of a busy
/// machine stall, or for which a server reads the metadata of tens of thousands of files.
pub(crate) fn believing(anchor: Certificate) -> ConsumerOptions {
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    let mut options = ConsumerOptions { trust: Trust::Policy(policy.into()), ..ConsumerOptions::default() };
    options.read.lifetime_ms = 20_000;
    options.read.attempts = 2;
    options
}

/// Options that resume an earlier fetch of this user.
pub(crate) fn resuming() -> GetOptions {
    GetOptions { resume: true, secret: Some(ResumeSecret::new([7; 32])), ..GetOptions::default() }
}

/// Octets that differ by position and by `seed`.
pub(crate) fn content(octets: usize, seed: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 31 + i / 257 + seed * 7) as u8).collect()
}

/// Answers Interests that come over `stream` until it is closed.
pub(crate) fn answer_all(stream: UnixStream, producer: &mut dyn Producer) {
    let Ok(mut connection) = Connection::from_stream(stream) else { return };
    let mut answer = |incoming: Incoming<'_>, outbox: &mut Outbox| {
        if let Packet::Interest(interest) = incoming.packet {
            producer.answer(&interest, &incoming.answer_headers(), outbox);
        }
    };
    while connection.turn(u64::MAX, &mut answer).is_ok() {}
}

/// A connection to `producer`, which runs in a thread of its own.
pub(crate) fn connection_to(mut producer: impl Producer + Send + 'static) -> Connection {
    let (near, far) = UnixStream::pair().unwrap();
    std::thread::spawn(move || answer_all(far, &mut producer));
    Connection::from_stream(near).unwrap()
}

/// A consumer of the answers of `producer`, which runs in a thread of its own.
pub(crate) fn connect(producer: impl Producer + Send + 'static, options: ConsumerOptions) -> Consumer {
    Consumer::over(connection_to(producer), Name::new(), options).unwrap()
}

/// A watcher that never stops a fetch.
pub(crate) fn unwatched(_: &Progress) -> Flow {
    Flow::Continue
}

/// The partial file of a fetch to `path`.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}{PART_SUFFIX}", path.display()))
}

/// The journal of that partial file.
pub(crate) fn journal_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.journal", part_of(path).display()))
}

/// The names in `directory`.
pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
