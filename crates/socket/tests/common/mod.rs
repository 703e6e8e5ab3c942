//! A router of the test's own, with keys, and sockets on it.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use namely_daemon::Router;
use namely_daemon::config::{Config, KeyRule};
use namely_security::validity::ALWAYS;
use namely_security::{KeyChain, KeyType, NewKey, Signer};
use namely_socket::{Consumer, ConsumerOptions, Producer, ProducerOptions};
use namely_transport::connection::{self, Connection, Packet};
use namely_wire::{FaceUri, InterestView, Name};

/// A router, and a key chain with a key for `/p`.
pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) router: Router,
    config: Config,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    /// A router without a content store: each fetch reaches the producer.
    pub(crate) fn without_cache() -> Self {
        let mut config = Config::default();
        config.tables.cs_packets_max = 0;
        Self::with(config)
    }

    fn with(mut config: Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("namely.sock");
        let memif = dir.path().join("namely.memif");
        let memif = FaceUri::Memif { path: memif.to_str().unwrap().into(), id: 0 };
        config.faces.listen = vec![FaceUri::Unix(socket.to_str().unwrap().into()), memif];
        add_key(dir.path(), "/p", KeyType::Ed25519);
        let router = Router::start(config.clone()).unwrap();
        World { dir, router, config }
    }

    /// Starts a router that routes these prefixes to the applications which bind below them.
    pub(crate) fn leading_to_local(prefixes: &[&str]) -> Self {
        let mut config = Config::default();
        config.network.local = prefixes.iter().map(|prefix| name(prefix)).collect();
        Self::with(config)
    }

    /// Replaces the router by one that routes these prefixes to the applications which bind below
    /// them.
    pub(crate) fn restart_leading_to_local(mut self, prefixes: &[&str]) -> Self {
        self.config.network.local = prefixes.iter().map(|prefix| name(prefix)).collect();
        self.restart_router()
    }

    /// Starts a router that also listens at TCP and UDP, where it accepts commands signed by the
    /// key of `/p`.
    pub(crate) fn over_ip() -> Self {
        let dir = tempfile::tempdir().unwrap();
        add_key(dir.path(), "/p", KeyType::Ed25519);
        let key = KeyChain::open(dir.path().join("keys")).unwrap().key(None).unwrap();
        let certificate = dir.path().join("p.cert");
        std::fs::write(&certificate, key.certificates[0].to_base64()).unwrap();
        let mut config = Config::default();
        let unix = format!("unix://{}", dir.path().join("namely.sock").display());
        let listen = [&unix, "tcp://127.0.0.1:0", "udp://127.0.0.1:0"];
        config.faces.listen = listen.map(|uri| uri.parse().unwrap()).into();
        config.faces.multicast.clear();
        config.authorization.loopback_udp = true;
        config.authorization.key =
            vec![KeyRule { certificate, register: vec![name("/p")], bind: Vec::new(), manage: false }];
        let router = Router::start(config.clone()).unwrap();
        World { dir, router, config }
    }

    /// Replaces the router by another one without its state.
    pub(crate) fn restart_router(self) -> Self {
        let World { dir, router, config } = self;
        router.stop();
        let router = Router::start(config.clone()).unwrap();
        World { dir, router, config }
    }

    pub(crate) fn keychain(&self) -> PathBuf {
        self.dir.path().join("keys")
    }

    pub(crate) fn add_key(&self, identity: &str, key_type: KeyType) {
        add_key(self.dir.path(), identity, key_type);
    }

    pub(crate) fn uri(&self) -> String {
        format!("unix://{}", self.dir.path().join("namely.sock").display())
    }

    pub(crate) fn memif_uri(&self) -> String {
        format!("memif://{}", self.dir.path().join("namely.memif").display())
    }

    pub(crate) fn consumer_options(&self) -> ConsumerOptions {
        let mut options = ConsumerOptions {
            router: Some(self.uri()),
            keychain: Some(self.keychain()),
            ..ConsumerOptions::default()
        };
        // On a busy machine each thread on the path may stall for seconds.
        options.read.lifetime_ms = 20_000;
        options
    }

    pub(crate) fn producer_options(&self) -> ProducerOptions {
        ProducerOptions {
            router: Some(self.uri()),
            keychain: Some(self.keychain()),
            ..ProducerOptions::default()
        }
    }

    pub(crate) fn consumer(&self, prefix: &str) -> Consumer {
        Consumer::bind(name(prefix), self.consumer_options()).unwrap()
    }

    pub(crate) fn producer(&self, prefix: &str) -> Producer {
        Producer::bind(name(prefix), self.producer_options()).unwrap()
    }
}

/// A producer behind the router that sends the test's answers, even packets of others.
pub(crate) struct Scripted {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    pub(crate) fn serve(
        &self,
        prefix: &str,
        mut answer: impl FnMut(&InterestView<'_>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Scripted {
        let mut connection =
            Connection::to(self.uri().parse().unwrap(), connection::Options::default()).unwrap();
        connection.register(&name(prefix), &mut |_, _| {}).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let until_ns = connection.now_ns() + 20_000_000;
                let turn = connection.turn(until_ns, &mut |incoming, outbox| {
                    if let Packet::Interest(interest) = &incoming.packet
                        && let Some(wire) = answer(interest)
                    {
                        outbox.send(&incoming.answer_headers(), &wire);
                    }
                });
                if turn.is_err() {
                    return;
                }
            }
        });
        Scripted { stop, thread: Some(thread) }
    }

    /// The signer of `identity` in the key chain.
    pub(crate) fn signer(&self, identity: &str) -> Signer {
        KeyChain::open(self.keychain()).unwrap().signer(Some(name(identity).as_name()), None).unwrap()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn add_key(dir: &Path, identity: &str, key_type: KeyType) {
    let chain = KeyChain::open(dir.join("keys")).unwrap();
    let identity = name(identity);
    let new =
        NewKey { identity: identity.as_name(), key_type, validity: ALWAYS, version: 1, passphrase: None };
    chain.generate(&new).unwrap();
}

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

pub(crate) fn content(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 31 + i / 257) as u8).collect()
}
