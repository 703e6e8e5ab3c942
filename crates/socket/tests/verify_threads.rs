//! Several threads verify the packets of one fetch: the results are the same, and no thread
//! remains.

mod common;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use common::{Scripted, World, content, name};
use namely_security::validity::ALWAYS;
use namely_security::{Certificate, HmacKey, KeyType, ManifestHash, PrivateKey, Signer, TrustPolicy};
use namely_socket::{
    Consumer, ConsumerOptions, ConsumerStats, FetchError, OnBadSegment, Revocation, Trust, errno_name,
};
use namely_testkit::eventually;
use namely_transport::congestion::Algorithm;
use namely_transport::publish::{Options, Publication, Signing};
use namely_wire::Name;

const OCTETS: usize = 120_000;

/// Each test reads it during its fetches. A test that writes it runs while there is no fetch.
static FETCHING: RwLock<()> = RwLock::new(());

/// An object whose first segment arrives only after Interests for a number of others, so that these
/// wait to be verified.
struct Late {
    world: World,
    policy: TrustPolicy,
    /// The other pieces that were requested.
    requests: Arc<Mutex<HashSet<Name>>>,
    release: Arc<AtomicBool>,
    _producer: Scripted,
    _fetching: RwLockReadGuard<'static, ()>,
}

impl Late {
    /// `bad`: segments of which the first `copies` copies are damaged.
    fn new((signer, policy): &Credentials, signing: Signing, bad: &[u64], copies: usize) -> Self {
        let fetching = FETCHING.read().unwrap_or_else(PoisonError::into_inner);
        let world = World::without_cache();
        let how = Options { packet_octets_max: 1000, signing, freshness_ms: 0, ..Options::default() };
        let publication =
            Publication::new(name("/p/o").as_name(), 7, &content(OCTETS), &how, signer).unwrap();
        let object = publication.object().to_name();
        let first = match signing {
            Signing::PerPacket => object.join_segment(0),
            Signing::Manifest(_) => namely_security::manifest_name(object.as_name(), 0),
        };
        let bad: Vec<Name> = bad.iter().map(|segment| object.join_segment(*segment)).collect();
        let mut left: Vec<usize> = bad.iter().map(|_| copies).collect();
        let requests = Arc::<Mutex<HashSet<Name>>>::default();
        let release = Arc::new(AtomicBool::new(true));
        let (requested, released, below) = (requests.clone(), release.clone(), object.clone());
        let producer = world.serve("/p", move |interest| {
            let enough = requested.lock().unwrap().len() >= 100 && released.load(Ordering::Relaxed);
            if interest.name == first.as_name() && !enough {
                return None;
            }
            if below.is_prefix_of(interest.name) && interest.name != first.as_name() {
                requested.lock().unwrap().insert(interest.name.to_name());
            }
            let mut wire = publication.answer(interest)?.to_vec();
            if let Some(i) = bad.iter().position(|bad| bad.as_name() == interest.name)
                && left[i] > 0
            {
                left[i] -= 1;
                let middle = wire.len() / 2;
                wire[middle] ^= 1;
            }
            Some(wire)
        });
        let policy = policy.clone();
        Late { world, policy, requests, release, _producer: producer, _fetching: fetching }
    }

    fn consumer(&self, threads: usize, change: impl FnOnce(&mut ConsumerOptions)) -> Consumer {
        let mut options = self.world.consumer_options();
        options.trust = Trust::Policy(self.policy.clone().into());
        options.revocation = Revocation::Off;
        // Long enough that a busy machine answers in time: a second answer may hide a damaged
        // first.
        options.read.lifetime_ms = 20_000;
        options.read.fetch.congestion = Algorithm::Fixed(300);
        options.verify_threads = threads;
        change(&mut options);
        Consumer::bind(name("/p"), options).unwrap()
    }
}

/// A signer, and the consumer's trust policy for it.
type Credentials = (Signer, TrustPolicy);

/// A key of `/p` of this type, which is trusted.
fn key(key_type: KeyType) -> Credentials {
    let key = Arc::new(PrivateKey::generate(key_type).unwrap());
    let key_name = name("/p/KEY/k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    let signer = Signer::new(certificate.name().to_name(), key);
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(certificate);
    (signer, policy)
}

fn shared_key() -> Credentials {
    let (key_name, key) = (name("/p/KEY/shared"), HmacKey::new(&[7; 32]));
    let mut policy = TrustPolicy::hierarchical();
    policy.add_shared_key(key_name.clone(), key.clone());
    (Signer::hmac(key_name, key), policy)
}

#[test]
fn every_suite_verifies_alike_on_several_threads() {
    let suites = [
        ("digest", (Signer::digest_sha256(), TrustPolicy::digest_only())),
        ("hmac", shared_key()),
        ("ed25519", key(KeyType::Ed25519)),
        ("ecdsa", key(KeyType::EcdsaP256)),
        ("rsa", key(KeyType::Rsa)),
    ];
    for (suite, credentials) in suites {
        for signing in [
            Signing::PerPacket,
            Signing::Manifest(ManifestHash::Sha256),
            Signing::Manifest(ManifestHash::Blake3),
        ] {
            // Segments under a BLAKE3 manifest have no packet digest, so a consumer that checks
            // only digests refuses them. One suite with this hash is enough.
            if signing == Signing::Manifest(ManifestHash::Blake3) && suite != "ed25519" {
                continue;
            }
            let late = Late::new(&credentials, signing, &[], 0);
            let verified = [1, 4].map(|threads| {
                late.requests.lock().unwrap().clear();
                let consumer = late.consumer(threads, |_| {});
                let fetched =
                    consumer.fetch(&name("/p/o")).map_err(|error| format!("{suite}, {signing:?}: {error}"));
                assert!(fetched.unwrap() == content(OCTETS), "{suite}, {signing:?}");
                let stats = consumer.stats();
                assert!(stats.verify_helpers_most < threads as u64, "{stats:?}");
                if threads > 1 && signing == Signing::PerPacket && suite != "hmac" && suite != "digest" {
                    assert!(stats.verify_helpers_most > 0, "{suite}: {stats:?}");
                }
                (stats.signatures, stats.segments, stats.octets, stats.corrupt, stats.unverified)
            });
            assert_eq!(verified[0], verified[1], "{suite}, {signing:?}");
        }
    }
}

/// Fetches an object with damaged segments by four threads.
fn with_corrupt(
    signing: Signing,
    policy: OnBadSegment,
    copies: usize,
) -> (Result<Vec<u8>, FetchError>, ConsumerStats) {
    let late = Late::new(&key(KeyType::Ed25519), signing, &[5, 40, 41, 100], copies);
    let consumer = late.consumer(4, |options| options.on_bad_segment = policy);
    (consumer.fetch(&name("/p/o")), consumer.stats())
}

#[test]
fn several_threads_treat_corruption_alike() {
    for signing in [Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket] {
        let (refetched, stats) = with_corrupt(signing, OnBadSegment::Refetch, 1);
        assert!(refetched.unwrap() == content(OCTETS));
        assert!((1..=4).contains(&stats.corrupt) && stats.unverified == 0, "{stats:?}");
        let (refetched, stats) = with_corrupt(signing, OnBadSegment::Refetch, usize::MAX);
        let error = refetched.unwrap_err();
        assert_eq!(errno_name(error.errno()), Some("EBADMSG"));
        assert!(error.to_string().contains("/p/o/v=7/seg=5"), "the first in their order: {error}");
        assert_eq!(stats.corrupt, 6);
        let (accepted, stats) = with_corrupt(signing, OnBadSegment::Accept, usize::MAX);
        let (accepted, whole) = (accepted.unwrap(), content(OCTETS));
        assert_eq!((stats.unverified, accepted.len()), (4, OCTETS));
        assert_eq!(accepted.iter().zip(&whole).filter(|(accepted, octet)| accepted != octet).count(), 4);
        let (aborted, stats) = with_corrupt(signing, OnBadSegment::Abort, usize::MAX);
        let error = aborted.unwrap_err();
        assert!(error.to_string().contains("/p/o/v=7/seg=5"), "the first in their order: {error}");
        assert_eq!((errno_name(error.errno()), stats.corrupt), (Some("EBADMSG"), 1));
    }
}

#[test]
fn a_full_backlog_stops_threaded_verification() {
    const BACKLOG: usize = 128;
    let late = Late::new(&key(KeyType::Ed25519), Signing::PerPacket, &[], 0);
    late.release.store(false, Ordering::Relaxed);
    // A packet counts with its content and 500 octets beside it, together more than 1,300.
    let consumer = late.consumer(4, |options| options.backlog_octets = BACKLOG * 1_300);
    let stuck = consumer.fetch_timeout(&name("/p/o"), Duration::from_millis(500)).unwrap_err();
    assert_eq!(errno_name(stuck.errno()), Some("ETIMEDOUT"), "{stuck}");
    // The first one is requested, and never arrives.
    let requests = late.requests.lock().unwrap().len();
    assert!(requests < BACKLOG, "{requests} asked for");
    late.release.store(true, Ordering::Relaxed);
    assert!(consumer.fetch(&name("/p/o")).unwrap() == content(OCTETS));
    assert!(consumer.stats().backlog_most <= BACKLOG as u64);
}

/// Threads of this process with that name.
fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comm = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(|task| comm(task.ok()?)).filter(|comm| comm.trim_end() == name).count()
}

#[test]
fn cancelled_fetches_leave_no_threads() {
    let late = Late::new(&key(KeyType::EcdsaP256), Signing::PerPacket, &[], 0);
    for round in 0..12 {
        late.requests.lock().unwrap().clear();
        let consumer = late.consumer(4, |_| {});
        let mut fetch = consumer.fetch_async(&name("/p/o")).unwrap();
        eventually("segments come", || round <= 2 || consumer.stats().segments > 0);
        match round % 3 {
            0 => drop(fetch),
            1 => consumer.close(),
            _ => {
                drop(consumer);
                let _ = fetch.wait(Some(Duration::from_secs(20)));
            }
        }
    }
    drop(late);
    // The fetches of other tests have such threads, too, on a busy machine for a minute.
    let _nobody = FETCHING.write().unwrap_or_else(PoisonError::into_inner);
    eventually("no thread is left", || threads("namely-verify") + threads("namely-fetch") == 0);
}
