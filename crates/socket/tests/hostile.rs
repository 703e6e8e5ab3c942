//! Content that is wrong, and producers that misbehave: each is an error with a name.

use crate::common;

use std::collections::HashSet;
use std::io::{Read, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Scripted, World, content, name};
use namely_security::validity::ALWAYS;
use namely_security::{
    Certificate, KeyType, MANIFEST_ENTRIES, Manifest, ManifestHash, PrivateKey, RevocationReason,
    RevocationStatement, RevocationStatus, Signer, manifest_name, sign_data,
};
use namely_socket::{
    BindError, Consumer, ConsumerOptions, ConsumerStats, FETCHES_MAX, FetchError, OnBadSegment, Revocation,
    errno_name,
};
use namely_testkit::{eventually, until};
use namely_transport::publish::{Options, Publication, Signing};
use namely_wire::ValidityPeriod;
use namely_wire::rdr::{Metadata, metadata_name};
use namely_wire::{DataBuilder, InterestView, Name, PACKET_OCTETS_MAX};

/// Small packets that caches do not keep, so that another copy comes from the producer.
fn options(signing: Signing) -> Options {
    Options { packet_octets_max: 1000, signing, freshness_ms: 0, ..Options::default() }
}

fn by_manifest() -> Options {
    options(Signing::Manifest(ManifestHash::Sha256))
}

fn published(uri: &str, octets: usize, how: &Options, signer: &Signer) -> Publication {
    Publication::new(name(uri).as_name(), 7, &content(octets), how, signer).unwrap()
}

fn answer(publication: &Publication, interest: &InterestView<'_>) -> Option<Vec<u8>> {
    publication.answer(interest).map(<[u8]>::to_vec)
}

fn bound(world: &World, change: impl FnOnce(&mut ConsumerOptions)) -> Consumer {
    let mut options = world.consumer_options();
    options.read.attempts = 2;
    change(&mut options);
    Consumer::bind(name("/p"), options).unwrap()
}

#[track_caller]
fn fails(result: Result<Vec<u8>, FetchError>, errno: &str, says: &str) {
    let error = result.map(|octets| octets.len()).unwrap_err();
    assert_eq!(errno_name(error.errno()), Some(errno), "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

/// Flips a bit of the content of `wire`. The content precedes the signature.
fn damaged(mut wire: Vec<u8>) -> Vec<u8> {
    let middle = wire.len() / 2;
    wire[middle] ^= 1;
    wire
}

/// Fetches `/p/o` from a producer that damages segment 5 the given number of times. Each call has a
/// router of its own with an empty cache. On a busy machine a segment may be requested twice before
/// the first copy is verified.
fn with_corrupt(
    signing: Signing,
    policy: OnBadSegment,
    copies: usize,
) -> (Result<Vec<u8>, FetchError>, ConsumerStats) {
    let world = World::new();
    let publication = published("/p/o", 20_000, &options(signing), &world.signer("/p"));
    let bad = publication.object().to_name().join_segment(5);
    let mut copies = copies;
    let _producer = world.serve("/p", move |interest| {
        let wire = answer(&publication, interest)?;
        if interest.name != bad.as_name() || copies == 0 {
            return Some(wire);
        }
        copies -= 1;
        Some(damaged(wire))
    });
    let consumer = bound(&world, |options| options.on_bad_segment = policy);
    (consumer.fetch(&name("/p/o")), consumer.stats())
}

#[test]
fn a_corrupted_segment_follows_the_configured_policy() {
    for signing in [Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket] {
        let (refetched, stats) = with_corrupt(signing, OnBadSegment::Refetch, 2);
        assert!(refetched.unwrap() == content(20_000));
        // A copy that came twice counts once.
        assert!((1..=2).contains(&stats.corrupt) && stats.unverified == 0, "{stats:?}");
        let (refetched, stats) = with_corrupt(signing, OnBadSegment::Refetch, usize::MAX);
        fails(refetched, "EBADMSG", "/p/o/v=7/seg=5");
        assert_eq!(stats.corrupt, 6, "four pauses, in which a router may forget what it has");
        let (accepted, stats) = with_corrupt(signing, OnBadSegment::Accept, usize::MAX);
        let accepted = accepted.unwrap();
        assert!(accepted != content(20_000) && accepted.len() == 20_000);
        assert_eq!(stats.unverified, 1);
        let (aborted, stats) = with_corrupt(signing, OnBadSegment::Abort, usize::MAX);
        fails(aborted, "EBADMSG", "/p/o/v=7/seg=5");
        assert_eq!(stats.corrupt, 1);
    }
}

#[test]
fn untrusted_signers_are_named_in_errors() {
    let world = World::new();
    let stranger = |key_name: &str| {
        let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        Signer::new(name(key_name), key)
    };
    let mine = published("/p/mine", 3000, &by_manifest(), &stranger("/p/KEY/forged"));
    let elsewhere = published("/p/elsewhere", 3000, &by_manifest(), &stranger("/q/KEY/k"));
    let nobody = published("/p/sub/o", 3000, &by_manifest(), &stranger("/p/sub/KEY/unknown"));
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let forged = Certificate::self_signed(name("/p/KEY/forged").as_name(), &key, ALWAYS, 1).unwrap();
    let _producer = world.serve("/p", move |interest| {
        if interest.name.is_prefix_of(forged.name()) && interest.name.len() >= 3 {
            return Some(forged.wire().to_vec());
        }
        [&mine, &elsewhere, &nobody].iter().find_map(|publication| answer(publication, interest))
    });
    let consumer = bound(&world, |_| {});
    fails(consumer.fetch(&name("/p/mine")), "EKEYREJECTED", "/p/KEY/forged");
    fails(consumer.fetch(&name("/p/elsewhere")), "EKEYREJECTED", "/q/KEY/k");
    // Nobody answers for this key, so the fetch waits for a lifetime.
    let brief = bound(&world, |options| (options.read.lifetime_ms, options.read.attempts) = (4_000, 1));
    fails(brief.fetch(&name("/p/sub/o")), "ENOKEY", "/p/sub/KEY/unknown");
}

/// A key of `/p/site` with a certificate that the key of `/p` issued.
fn site_key(world: &World, validity: ValidityPeriod) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let (key_name, issuer) = (name("/p/site/KEY/s"), world.signer("/p"));
    let issued = Certificate::issue(key_name.as_name(), key.public(), &issuer, "p", validity, 1).unwrap();
    (Signer::new(issued.name().to_name(), key), issued)
}

#[test]
fn an_expired_certificate_is_named() {
    let world = World::new();
    let past = ValidityPeriod { not_before_s: 1_000_000_000, not_after_s: 1_100_000_000 };
    let (signer, certificate) = site_key(&world, past);
    let publication = published("/p/site/o", 3000, &by_manifest(), &signer);
    let _producer = world.serve("/p", move |interest| {
        let is_certificate = interest.name.is_prefix_of(certificate.name()) && interest.name.len() > 2;
        if is_certificate { Some(certificate.wire().to_vec()) } else { answer(&publication, interest) }
    });
    fails(bound(&world, |_| {}).fetch(&name("/p/site/o")), "EKEYEXPIRED", "/p/site/KEY/s");
}

#[test]
fn a_revoked_certificate_is_refused() {
    let world = World::new();
    let (signer, certificate) = site_key(&world, ALWAYS);
    let publication = published("/p/site/o", 3000, &by_manifest(), &signer);
    let issuer = world.signer("/p");
    let said: Arc<std::sync::Mutex<Option<RevocationStatus>>> = Arc::default();
    let saying = said.clone();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let _producer = world.serve("/p", move |interest| {
        if interest.name.component(2).is_some_and(|component| component.value == b"REVOKE") {
            counted.fetch_add(1, Ordering::Relaxed);
            let statement = RevocationStatement { status: (*saying.lock().unwrap())?, time_ms: 1 };
            return Some(statement.sign(&certificate, 1, &issuer).unwrap());
        }
        let is_certificate = interest.name.is_prefix_of(certificate.name()) && interest.name.len() > 2;
        if is_certificate { Some(certificate.wire().to_vec()) } else { answer(&publication, interest) }
    });
    let fetched = |status: Option<RevocationStatus>, revocation| {
        *said.lock().unwrap() = status;
        bound(&world, |options| options.revocation = revocation).fetch(&name("/p/site/o"))
    };
    let revoked = Some(RevocationStatus::Revoked(RevocationReason::KeyCompromise));
    // The status stays unknown if a busy machine answers later than the consumer waits.
    let refused = |revocation| {
        until("it is known to be revoked", || {
            let error = fetched(revoked, revocation).err()?;
            (errno_name(error.errno()) == Some("EKEYREVOKED")).then_some(error)
        })
    };
    assert!(fetched(None, Revocation::Off).is_ok());
    assert_eq!(requests.load(Ordering::Relaxed), 0);
    assert!(fetched(revoked, Revocation::Off).is_ok());
    assert!(fetched(None, Revocation::Check).is_ok());
    let good = || fetched(Some(RevocationStatus::Good), Revocation::Require).is_ok();
    eventually("it is known to be good", good);
    fails(fetched(None, Revocation::Require), "EKEYREJECTED", "/p/site/KEY/s/p/v=1");
    fails(Err(refused(Revocation::Check)), "EKEYREVOKED", "/p/site/KEY/s/p/v=1");
    fails(Err(refused(Revocation::Require)), "EKEYREVOKED", "was revoked");
}

#[test]
fn a_lost_status_query_is_repeated() {
    let world = World::new();
    let (signer, certificate) = site_key(&world, ALWAYS);
    let publication = published("/p/site/o", 3000, &by_manifest(), &signer);
    let issuer = world.signer("/p");
    let loses = Arc::new(AtomicBool::new(false));
    let losing = loses.clone();
    let _producer = world.serve("/p", move |interest| {
        if interest.name.component(2).is_some_and(|component| component.value == b"REVOKE") {
            if losing.swap(false, Ordering::Relaxed) {
                return None;
            }
            let status = RevocationStatus::Revoked(RevocationReason::KeyCompromise);
            let statement = RevocationStatement { status, time_ms: 1 };
            return Some(statement.sign(&certificate, 0, &issuer).unwrap());
        }
        let is_certificate = interest.name.is_prefix_of(certificate.name()) && interest.name.len() > 2;
        if is_certificate { Some(certificate.wire().to_vec()) } else { answer(&publication, interest) }
    });
    // A new consumer each time: a busy machine may answer later than a consumer waits.
    let refused = until("it is refused although the first query is lost", || {
        loses.store(true, Ordering::Relaxed);
        bound(&world, |_| {}).fetch(&name("/p/site/o")).err()
    });
    fails(Err(refused), "EKEYREVOKED", "was revoked");
}

#[test]
fn inconsistent_manifests_and_metadata_are_refused() {
    let world = World::new();
    let signer = world.signer("/p");
    let honest = published("/p/honest", 3000, &by_manifest(), &signer);
    let object = honest.object().to_name();
    // A manifest that lists one segment of three.
    let mut short = Manifest::new(0, ManifestHash::Sha256);
    short.push([0; 32]);
    let short = short.sign(object.as_name(), Some(0), 0, &signer).unwrap();
    // Metadata that counts four segments, leads to itself, or leads elsewhere.
    let metadata = move |uri: &str, to: &Name, last_segment| {
        let metadata = Metadata {
            last_segment: Some(last_segment),
            manifest_entries: Some(MANIFEST_ENTRIES),
            ..Metadata::new(to.clone())
        };
        let packet = metadata_name(name(uri).as_name(), 7);
        let builder = DataBuilder::new(packet.as_name()).freshness_ms(1);
        sign_data(&builder, &metadata.to_vec(), &signer).unwrap()
    };
    let more = published("/p/more", 3000, &by_manifest(), &world.signer("/p"));
    let lies = [
        metadata("/p/more", &more.object().to_name(), 90),
        metadata("/p/circle", &metadata_name(name("/p/circle").as_name(), 7), 0),
        metadata("/p/away", &object, 3),
    ];
    let manifest = manifest_name(object.as_name(), 0);
    let _producer = world.serve("/p", move |interest| {
        if interest.name == manifest.as_name() {
            return Some(short.clone());
        }
        let lie = lies
            .iter()
            .find(|wire| namely_transport::answers(interest, &namely_wire::DataView::parse(wire).unwrap()));
        lie.cloned().or_else(|| [&honest, &more].iter().find_map(|publication| answer(publication, interest)))
    });
    let consumer = bound(&world, |_| {});
    fails(consumer.fetch(&name("/p/honest")), "EBADMSG", "/p/honest/v=7");
    fails(consumer.fetch(&name("/p/more")), "EBADMSG", "/p/more/v=7");
    fails(consumer.fetch(&name("/p/away")), "EBADMSG", "not below it");
    let brief = bound(&world, |options| options.read.fetch.silence_ns_max = 1_000_000_000);
    let circle = brief.fetch(&name("/p/circle")).unwrap_err();
    assert!(["EBADMSG", "ETIMEDOUT"].contains(&errno_name(circle.errno()).unwrap()), "{circle}");
}

#[test]
fn a_vanished_producer_is_named_with_its_segment() {
    let world = World::new();
    let publication = published("/p/o", 300_000, &by_manifest(), &world.signer("/p"));
    let from = publication.object().to_name().join_segment(100);
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let _producer = world.serve("/p", move |interest| {
        let segment = interest.name.last().and_then(|last| last.segment());
        let gone = interest.name.len() == from.len() && segment.is_some_and(|segment| segment >= 100);
        counted.fetch_add(usize::from(interest.name == from.as_name()), Ordering::Relaxed);
        if gone { None } else { answer(&publication, interest) }
    });
    // An unreliable consumer requests each segment once, and reports the segment that is lost.
    let unreliable = bound(&world, unreliable);
    fails(unreliable.fetch(&name("/p/o")), "ENODATA", "/p/o/v=7/seg=100");
    assert!(requests.load(Ordering::Relaxed) <= 1);
    // Silence for longer than a thread of a busy machine stalls.
    let consumer = bound(&world, |options| options.read.fetch.silence_ns_max = 5_000_000_000);
    fails(consumer.fetch(&name("/p/o")), "ETIMEDOUT", "/p/o/v=7/seg=100");
}

/// An unreliable consumer. A segment is lost if its answer takes longer than the lifetime, which
/// is longer than a thread of a busy machine stalls.
fn unreliable(options: &mut ConsumerOptions) {
    options.reliable = false;
    options.read.lifetime_ms = 4_000;
}

#[test]
fn an_unreliable_stream_continues_after_losses() {
    for signing in [Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket] {
        let world = World::new();
        let publication = published("/p/o", 50_000, &options(signing), &world.signer("/p"));
        let object = publication.object().to_name();
        let lost = [0, 7, 30, 31, publication.segments() - 1];
        let segments: Vec<Name> = lost.iter().map(|segment| object.clone().join_segment(*segment)).collect();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let _producer = world.serve("/p", move |interest| {
            let is_lost = segments.iter().any(|segment| interest.name == segment.as_name());
            counted.fetch_add(usize::from(is_lost), Ordering::Relaxed);
            if is_lost { None } else { answer(&publication, interest) }
        });
        let consumer = bound(&world, unreliable);
        let mut stream = consumer.stream(&name("/p/o")).unwrap();
        let (whole, mut gaps, mut octets) = (content(50_000), Vec::new(), 0);
        loop {
            let at = stream.stream_position().unwrap() as usize;
            let mut part = vec![0; 700];
            match stream.read(&mut part) {
                Ok(0) => break,
                Ok(read) => {
                    assert!(part[..read] == whole[at..at + read], "what is read at {at} is what is there");
                    octets += read;
                }
                Err(error) => gaps.push(error.to_string()),
            }
        }
        assert_eq!(gaps.len(), lost.len(), "{gaps:?}");
        for (gap, segment) in gaps.iter().zip(lost) {
            assert!(gap.starts_with(&format!("{object}/seg={segment} was lost")), "{gap}");
        }
        assert_eq!(stream.stream_position().unwrap(), 50_000);
        assert!((44_000..47_000).contains(&octets), "{octets}");
        // Only a late manifest is requested again.
        assert!(requests.load(Ordering::Relaxed) <= lost.len());
        assert_eq!(consumer.stats().lost, lost.len() as u64, "{:?}", consumer.stats());
    }
}

#[test]
fn fetches_over_the_limits_are_refused() {
    let world = World::new();
    let publication = published("/p/o", 5000, &by_manifest(), &world.signer("/p"));
    let _producer = world.serve("/p", move |interest| answer(&publication, interest));
    assert_eq!(
        bound(&world, |options| options.object_octets_max = 5000).fetch(&name("/p/o")).unwrap().len(),
        5000
    );
    fails(bound(&world, |options| options.object_octets_max = 4999).fetch(&name("/p/o")), "EFBIG", "4999");
    let long = Name::new().join_generic([b'x'; 300]);
    let refused = Consumer::bind(long, world.consumer_options()).unwrap_err();
    assert!(
        matches!(refused, BindError::Name(_)) && errno_name(refused.errno()) == Some("ENAMETOOLONG"),
        "{refused}"
    );
    let consumer = bound(&world, |options| options.read.lifetime_ms = 60_000);
    let waiting: Vec<_> =
        (0..FETCHES_MAX).map(|i| consumer.fetch_async(&name(&format!("/p/nothing/{i}"))).unwrap()).collect();
    let refused = consumer.fetch_async(&name("/p/nothing/more")).unwrap_err();
    assert_eq!(errno_name(refused.errno()), Some("ENOBUFS"), "{refused}");
    drop(waiting);
    eventually("there is room again", || match consumer.fetch(&name("/p/o")) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(errno_name(error.errno()), Some("ENOBUFS"), "{error}");
            false
        }
    });
}

/// Content signed by an RSA key. The key's certificate arrives only after Interests for `enough`
/// segments.
struct Slow {
    world: World,
    segments: usize,
    /// Segments that were requested.
    requests: Arc<AtomicUsize>,
    /// Whether the certificate was requested before that.
    wanted_early: Arc<AtomicBool>,
    _producer: Scripted,
}

impl Slow {
    fn new(enough: impl Fn(usize) -> usize) -> Self {
        Self::signed_by(PrivateKey::generate(KeyType::Rsa).unwrap(), enough)
    }

    fn signed_by(key: PrivateKey, enough: impl Fn(usize) -> usize) -> Self {
        let world = World::new();
        let key = Arc::new(key);
        let (key_name, issuer) = (name("/p/slow/KEY/r"), world.signer("/p"));
        let issued = Certificate::issue(key_name.as_name(), key.public(), &issuer, "p", ALWAYS, 2).unwrap();
        let signer = Signer::new(issued.name().to_name(), key);
        let publication = published("/p/slow/o", 200_000, &options(Signing::PerPacket), &signer);
        let segments = publication.segments() as usize;
        let (requests, wanted_early) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, early, enough) = (requests.clone(), wanted_early.clone(), enough(segments));
        let mut requested = HashSet::new();
        let producer = world.serve("/p", move |interest| {
            if interest.name.component(2).is_some_and(|component| component.value == b"KEY") {
                let is_due = counted.load(Ordering::Relaxed) >= enough;
                early.fetch_or(!is_due, Ordering::Relaxed);
                return is_due.then(|| issued.wire().to_vec());
            }
            let wire = answer(&publication, interest)?;
            let is_new = requested.insert(interest.name.to_name());
            counted.fetch_add(usize::from(is_new), Ordering::Relaxed);
            Some(wire)
        });
        Slow { world, segments, requests, wanted_early, _producer: producer }
    }
}

#[test]
fn slow_verification_never_slows_interests() {
    for key in [PrivateKey::generate(KeyType::Rsa), PrivateKey::generate_rsa_4096()] {
        check_requests_precede_verification(&Slow::signed_by(key.unwrap(), |segments| segments));
    }
}

fn check_requests_precede_verification(slow: &Slow) {
    let consumer = bound(&slow.world, |options| {
        options.revocation = Revocation::Off;
        options.read.attempts = 20;
    });
    // Requested by its version, so that the first signature to verify is a segment's.
    assert!(consumer.fetch(&name("/p/slow/o/v=7")).unwrap() == content(200_000));
    let stats = consumer.stats();
    // Only a verified segment gives the end of the object, so some Interests go past it.
    assert!(stats.interests >= slow.segments as u64, "{stats:?}");
    assert!(slow.wanted_early.load(Ordering::Relaxed), "verification waited while Interests went out");
    assert!(stats.backlog_most as usize > slow.segments / 2, "{stats:?}");
    assert_eq!(stats.signatures as usize, slow.segments);
}

#[test]
fn a_full_backlog_stops_the_interests() {
    const BACKLOG: usize = 16;
    let slow = Slow::new(|_| usize::MAX);
    let bounded = bound(&slow.world, |options| {
        options.revocation = Revocation::Off;
        options.read.attempts = 20;
        options.backlog_octets = BACKLOG * PACKET_OCTETS_MAX;
    });
    let mut stuck = bounded.fetch_async(&name("/p/slow/o/v=7")).unwrap();
    let requests = || slow.requests.load(Ordering::Relaxed);
    eventually("the backlog is full", || requests() >= BACKLOG);
    fails(stuck.wait(Some(Duration::from_millis(500))), "ETIMEDOUT", "not in time");
    assert_eq!(requests(), BACKLOG);
    assert!(bounded.stats().backlog_most as usize <= BACKLOG);
}
