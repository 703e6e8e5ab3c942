//! Old answers: a peer that can answer instead of the producer has old packets with the producer's
//! signature.

use crate::common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use common::{believing, connect, key_of, name, unwatched};
use namely_files::{FileServer, GetError, GetOptions, Input, Put, PutOptions, ServeOptions, get};
use namely_security::{Signer, sign_data};
use namely_socket::Consumer;
use namely_testkit::{Need, skip, until};
use namely_transport::connection::Outbox;
use namely_transport::serve::Producer;
use namely_wire::rdr::{Metadata, metadata_name};
use namely_wire::{DataBuilder, InterestView, LpHeaders, NackReason, Name};

#[test]
fn an_older_version_needs_permission_to_replace() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("served")).unwrap();
    let set = |content: &str, age_s: u64| {
        fs::write(at("served/f"), content).unwrap();
        let file = fs::File::options().write(true).open(at("served/f")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    };
    if rustix::fs::setxattr(directory.path(), "user.namely.test", b"", rustix::fs::XattrFlags::empty())
        .is_err()
    {
        return skip(Need::Kernel, "this file system has no attributes");
    }
    let (signer, anchor) = key_of("/p");
    set("new", 10);
    // A peer that replays the state of a file does not know the versions after it.
    let fetch = |options| {
        let server = FileServer::new(&at("served"), ServeOptions::new(name("/p")), signer.clone()).unwrap();
        let consumer = connect(server, believing(anchor.clone()));
        get(&consumer, &name("/p/f"), &at("f"), options, &mut unwatched)
    };
    fetch(GetOptions::default()).unwrap();
    fetch(GetOptions::default()).unwrap();

    set("old", 1000);
    // As `umask` may leave it.
    fs::set_permissions(at("f"), fs::Permissions::from_mode(0o664)).unwrap();
    let error = fetch(GetOptions::default()).unwrap_err();
    assert!(matches!(error, GetError::Older { .. }), "{error}");
    assert_eq!(fs::read(at("f")).unwrap(), b"new");
    fetch(GetOptions { allow_older: true, ..GetOptions::default() }).unwrap();
    assert_eq!(fs::read(at("f")).unwrap(), b"old");
    // A file that another program put there has no version.
    fs::remove_file(at("f")).unwrap();
    fs::write(at("f"), "mine").unwrap();
    set("older", 2000);
    fetch(GetOptions::default()).unwrap();
    assert_eq!(fs::read(at("f")).unwrap(), b"older");
}

#[test]
fn stale_and_future_versions_are_refused() {
    let target = tempfile::tempdir().unwrap();
    let target = target.path().join("f");
    let now_ns = namely_host::clock::unix_ns();
    let now_ms = now_ns / 1_000_000;
    let hour_ms = 3_600_000;
    for (made_ms, age_max_s, is_taken) in [
        (now_ms, Some(600), true),
        (now_ms - hour_ms, Some(600), false),
        (now_ms - hour_ms, Some(7200), true),
        (now_ms - hour_ms, None, true),
        (now_ms + hour_ms, Some(600), false),
        (now_ms + hour_ms, None, true),
    ] {
        let (signer, anchor) = key_of("/p");
        let input = Input::read(&mut &b"content"[..], 100, &std::env::temp_dir()).unwrap();
        let put = Put::new(input, PutOptions::new(name("/p/o"), made_ms), signer).unwrap();
        let consumer = connect(put, believing(anchor));
        let as_of_min_ns = age_max_s.map(|age_s: u64| now_ns - age_s * 1_000_000_000);
        let options = GetOptions { as_of_min_ns, allow_older: true, ..GetOptions::default() };
        let got = get(&consumer, &name("/p/o"), &target, options, &mut unwatched);
        assert_eq!(got.is_ok(), is_taken, "{made_ms}, now {now_ms}: {got:?}");
        let Err(error) = got else { continue };
        assert!(matches!(error, GetError::TooOld { .. } | GetError::Future { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}

/// Answers with metadata of versions of a file, of which it has only one.
struct Replaying<F> {
    signer: Signer,
    /// The number of answers with metadata.
    answers: Arc<AtomicU64>,
    /// Returns the version of the answer of that number, and its time in ns.
    metadata: F,
    /// The version whose segment is there, and its content.
    there: (u64, &'static [u8]),
}

impl<F: FnMut(u64) -> (u64, u64)> Producer for Replaying<F> {
    fn prefixes(&self) -> Vec<Name> {
        Vec::new()
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        let file = name("/p/f");
        let (packet, content) = match interest.name.to_string().as_str() {
            "/p/f/32=metadata" => {
                let number = self.answers.fetch_add(1, Ordering::Relaxed) + 1;
                let (version, as_of_ns) = (self.metadata)(number);
                let metadata =
                    Metadata { last_segment: Some(0), ..Metadata::new(file.join_version(version)) };
                (metadata_name(file.as_name(), as_of_ns), metadata.to_vec())
            }
            segment if segment == file.join_version(self.there.0).join_segment(0).to_string() => {
                (interest.name.to_name(), self.there.1.to_vec())
            }
            _ => {
                let refused = LpHeaders { nack: Some(NackReason::NoRoute), ..*headers };
                return outbox.send(&refused, interest.wire);
            }
        };
        let last = Name::new().join_segment(0);
        let builder = DataBuilder::new(packet.as_name()).freshness_ms(1);
        let builder = builder.final_block_id(last.as_name().last().unwrap());
        outbox.send(headers, &sign_data(&builder, &content, &self.signer).unwrap());
    }
}

#[test]
fn an_earlier_answer_replaces_no_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let (signer, anchor) = key_of("/p");
    // The segments of version 2 are gone, and the next metadata is the earlier one of version 1.
    let metadata = |number| {
        let version = if number == 1 { 2 } else { 1 };
        (version, 1_700_000_000_000_000_000 + version)
    };
    let producer = Replaying { signer, answers: Arc::default(), metadata, there: (1, b"old") };
    let consumer = connect(producer, believing(anchor));
    let target = directory.path().join("f");
    let error = get(&consumer, &name("/p/f"), &target, GetOptions::default(), &mut unwatched).unwrap_err();
    assert!(matches!(error, GetError::Interrupted { .. }), "{error}");
    assert!(!target.exists());
}

/// A server of `directory/served`, and a socket to it.
fn served(directory: &Path, versions: Option<PathBuf>) -> Consumer {
    let (signer, anchor) = key_of("/p");
    let options = ServeOptions { segment_octets: 100, versions, ..ServeOptions::new(name("/p")) };
    let server = FileServer::new(&directory.join("served"), options, signer).unwrap();
    connect(server, believing(anchor))
}

/// Puts a file of this content at `path` by a rename. Its time is always the same.
fn put(path: &Path, content: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, content).unwrap();
    let file = fs::File::options().write(true).open(&beside).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    fs::rename(&beside, path).unwrap();
}

/// A listing or a file that changed a moment ago: caches have the answer from before the change.
#[test]
fn an_answer_of_a_cache_is_passed_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("f");
    // Answers from before the request, the age of these, whether an answer from after the request
    // is demanded, and the requests.
    for (cached, age_ms, is_demanded, requests) in
        [(3, 10, true, 4), (3, 10, false, 1), (u64::MAX, 10_000, true, 1)]
    {
        let (signer, anchor) = key_of("/p");
        let now_ns = namely_host::clock::unix_ns();
        let metadata = move |number| match number <= cached {
            true => (2, now_ns - age_ms * 1_000_000),
            false => (2, namely_host::clock::unix_ns()),
        };
        let answers = Arc::new(AtomicU64::new(0));
        let producer = Replaying { signer, answers: answers.clone(), metadata, there: (2, b"content") };
        let consumer = connect(producer, believing(anchor));
        let options = GetOptions { as_of_min_ns: is_demanded.then_some(now_ns), ..GetOptions::default() };
        let got = get(&consumer, &name("/p/f"), &target, options, &mut unwatched);
        assert_eq!(answers.load(Ordering::Relaxed), requests, "{got:?}");
        let is_refused = matches!(got, Err(GetError::TooOld { .. }));
        assert_eq!(is_refused, cached == u64::MAX, "{got:?}");
    }
}

#[test]
fn another_content_of_the_same_time_has_another_version() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("served")).unwrap();
    let mut versions = Vec::new();
    let mut fetch = |consumer: &Consumer, content: &str| {
        put(&at("served/f"), content);
        let got = get(consumer, &name("/p/f"), &at("got"), GetOptions::default(), &mut unwatched).unwrap();
        assert_eq!(fs::read_to_string(at("got")).unwrap(), content);
        assert!(!versions.contains(&got.object), "{} is repeated", got.object);
        versions.push(got.object);
    };
    // The second server knows the versions of the first.
    for (first, second) in [("one", "two"), ("six", "ten")] {
        let consumer = served(directory.path(), Some(at("versions")));
        fetch(&consumer, first);
        fetch(&consumer, second);
        drop(consumer);
        // The server ends with its connection, and frees the table.
        until("the end of the server", || {
            let mut paths = fs::read_dir(at("versions")).unwrap().map(|entry| entry.unwrap().path());
            let lock = paths.find(|path| path.extension().is_some_and(|of| of == "lock")).unwrap();
            let lock = fs::File::options().write(true).open(lock).unwrap();
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).ok()
        });
    }
    assert_eq!(versions[0].to_string(), "/p/f/v=1000000000000000000");
}

#[test]
fn a_switched_link_serves_the_new_directory() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for release in ["1", "2"] {
        fs::create_dir(at(release)).unwrap();
        put(&at(release).join("f"), release);
    }
    symlink("1", at("served")).unwrap();
    let consumer = served(directory.path(), None);
    let fetch = || {
        get(&consumer, &name("/p/f"), &at("got"), GetOptions::default(), &mut unwatched).unwrap();
        fs::read_to_string(at("got")).unwrap()
    };
    assert_eq!(fetch(), "1");
    symlink("2", at("next")).unwrap();
    fs::rename(at("next"), at("served")).unwrap();
    assert_eq!(fetch(), "2");
}
