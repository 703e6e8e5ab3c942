//! Fetching objects from a producer at the other end of a socket pair, on the calling thread:
//! accepted and rejected packets, and the messages for people.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use namely_security::validity::ALWAYS;
use namely_security::{
    Certificate, KeyType, MANIFEST_ENTRIES, Manifest, ManifestHash, PrivateKey, Signer, TrustPolicy,
    Verified, manifest_name, sign_data,
};
use namely_socket::{Consumer, ConsumerOptions, FetchError, Flow, Sink, Trust, errno_name};
use namely_testkit::name;
use namely_transport::connection::{Connection, Packet};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_transport::publish::{Options, Publication, Signing};
use namely_wire::rdr::{METADATA_COMPONENT, Metadata, metadata_name};
use namely_wire::{
    ContentType, DataBuilder, InterestView, LpHeaders, NackReason, Name, PitToken, SignatureInfo,
};

/// An answer: headers and packet.
type Answer = (LpHeaders, Vec<u8>);

/// A producer with the answers of `answer`.
struct Producer {
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    fn start(
        mut answer: impl FnMut(&InterestView<'_>) -> Option<Answer> + Send + 'static,
    ) -> (Self, Connection) {
        let (near, far) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut connection = Connection::from_stream(far).unwrap();
            let turn = |connection: &mut Connection,
                        answer: &mut dyn FnMut(&InterestView<'_>) -> Option<Answer>| {
                connection.turn(u64::MAX, &mut |incoming, outbox| {
                    let Packet::Interest(interest) = incoming.packet else { panic!("{incoming:?}") };
                    if let Some((headers, wire)) = answer(&interest) {
                        outbox.send(&headers, &wire);
                    }
                })
            };
            while turn(&mut connection, &mut answer).is_ok() {}
        });
        (Producer { thread: Some(thread) }, Connection::from_stream(near).unwrap())
    }

    fn of(publication: Publication) -> (Self, Connection) {
        Self::start(move |interest| {
            publication.answer(interest).map(|wire| (LpHeaders::default(), wire.to_vec()))
        })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // The client's end is closed by now, or closes with the test.
        if let Some(thread) = self.thread.take() {
            drop(thread);
        }
    }
}

fn key_of(identity: &str) -> (Signer, Certificate) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name(identity).join_generic("KEY").join_generic("k");
    let certificate = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    (Signer::new(key_name, key), certificate)
}

fn believing(anchor: Certificate) -> TrustPolicy {
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    policy
}

/// A consumer with the default time limits, because on a busy machine the producer may stall for
/// seconds.
fn consumer(connection: Connection, policy: TrustPolicy) -> Consumer {
    let options = ConsumerOptions { trust: Trust::Policy(policy.into()), ..ConsumerOptions::default() };
    Consumer::over(connection, Name::new(), options).unwrap()
}

fn content(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 31 + i / 257) as u8).collect()
}

fn small_packets(signing: Signing) -> Options {
    Options { packet_octets_max: 300, signing, ..Options::default() }
}

/// Takes the content.
#[derive(Default)]
struct Content(Vec<u8>);

impl Sink for Content {
    fn write(&mut self, _: u64, data: &Verified<Vec<u8>>) -> std::io::Result<()> {
        self.0.extend_from_slice(data.content());
        Ok(())
    }
}

fn read(consumer: &Consumer, uri: &str) -> Result<Vec<u8>, ObjectError> {
    let object = |error| match error {
        FetchError::Object(error) => error,
        other => panic!("{other}"),
    };
    let mut content = Content::default();
    let found = consumer.find(&name(uri)).map_err(object)?;
    consumer.fetch_into(&found, Part::from(0), &mut content, &mut |_| Flow::Continue).map_err(object)?;
    Ok(content.0)
}

#[test]
fn objects_are_verified_with_every_signing() {
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        // The largest one spans three manifests.
        for octets in [0, 1, 5_000, 100_000] {
            let (signer, anchor) = key_of("/p");
            let object = content(octets);
            let publication =
                Publication::new(name("/p/o").as_name(), 7, &object, &small_packets(signing), &signer)
                    .unwrap();
            let (_producer, connection) = Producer::of(publication);
            let consumer = consumer(connection, believing(anchor));
            assert!(read(&consumer, "/p/o").unwrap() == object, "{signing:?} {octets}");
        }
    }
}

#[test]
fn a_named_version_needs_no_metadata() {
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        let (signer, anchor) = key_of("/p");
        let object = content(70_000);
        let publication =
            Publication::new(name("/p/o").as_name(), 7, &object, &small_packets(signing), &signer).unwrap();
        let (_producer, connection) = Producer::of(publication);
        let consumer = consumer(connection, believing(anchor));
        assert!(read(&consumer, "/p/o/v=7").unwrap() == object, "{signing:?}");
    }
}

#[test]
fn a_single_packet_is_an_object() {
    let (signer, anchor) = key_of("/p");
    let packet = name("/p/note");
    let wire = sign_data(&DataBuilder::new(packet.as_name()), b"hello", &signer).unwrap();
    let (_producer, connection) = Producer::start(move |interest| {
        (interest.name == packet.as_name()).then(|| (LpHeaders::default(), wire.clone()))
    });
    assert_eq!(read(&consumer(connection, believing(anchor)), "/p/note").unwrap(), b"hello");
}

#[test]
fn a_missing_certificate_is_fetched_by_name() {
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        // Once found by metadata, once by a segment while others are on their way.
        for uri in ["/p/site/o", "/p/site/o/v=7"] {
            let (root, anchor) = key_of("/p");
            let key = Arc::new(PrivateKey::generate(KeyType::EcdsaP256).unwrap());
            let key_name = name("/p/site/KEY/s");
            let certificate =
                Certificate::issue(key_name.as_name(), key.public(), &root, "root", ALWAYS, 1).unwrap();
            let signer = Signer::new(key_name, key);
            let object = content(30_000);
            let publication =
                Publication::new(name("/p/site/o").as_name(), 7, &object, &small_packets(signing), &signer)
                    .unwrap();
            let (_producer, connection) = Producer::start(move |interest| {
                let wire = match interest.name.is_prefix_of(certificate.name()) {
                    true => certificate.wire(),
                    false => publication.answer(interest)?,
                };
                Some((LpHeaders::default(), wire.to_vec()))
            });
            let consumer = consumer(connection, believing(anchor));
            assert!(read(&consumer, uri).unwrap() == object, "{signing:?} {uri}");
        }
    }
}

#[test]
fn an_unavailable_certificate_is_named() {
    let (_, anchor) = key_of("/p");
    let (stranger, _) = key_of("/p/stranger");
    let publication =
        Publication::new(name("/p/stranger/o").as_name(), 7, b"x", &Options::default(), &stranger).unwrap();
    let (_producer, connection) = Producer::of(publication);
    let error = read(&consumer(connection, believing(anchor)), "/p/stranger/o").unwrap_err();
    assert!(matches!(error, ObjectError::NoCertificate { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("/p/stranger/KEY/k") && text.contains("/p/stranger/o"), "{text}");
}

#[test]
fn a_damaged_segment_is_fetched_again() {
    for (damaged_answers, survives) in [(1, true), (2, true), (u32::MAX, false)] {
        for signing in [
            Signing::Manifest(ManifestHash::Sha256),
            Signing::Manifest(ManifestHash::Blake3),
            Signing::PerPacket,
        ] {
            let (signer, anchor) = key_of("/p");
            let object = content(20_000);
            let publication =
                Publication::new(name("/p/o").as_name(), 7, &object, &small_packets(signing), &signer)
                    .unwrap();
            let victim = name("/p/o/v=7/seg=5");
            // Stale copies are passed by: all of them are damaged, also those for retransmissions
            // before the first one is verified.
            let mut fresh_answers = 0;
            let (_producer, connection) = Producer::start(move |interest| {
                let mut wire = publication.answer(interest)?.to_vec();
                if interest.name == victim.as_name() {
                    fresh_answers += u32::from(interest.must_be_fresh);
                    if !interest.must_be_fresh || fresh_answers < damaged_answers {
                        let middle = wire.len() / 2;
                        wire[middle] ^= 1;
                    }
                }
                Some((LpHeaders::default(), wire))
            });
            match read(&consumer(connection, believing(anchor)), "/p/o") {
                Ok(received) => assert!(survives && received == object),
                Err(error) => {
                    assert!(!survives, "{error}");
                    assert!(error.to_string().contains("/p/o/v=7/seg=5"), "{error}");
                }
            }
        }
    }
}

#[test]
fn forged_manifests_and_metadata_are_refused() {
    let (signer, anchor) = key_of("/p");
    let (forger, forged_certificate) = key_of("/mallory");
    let genuine =
        Publication::new(name("/p/o").as_name(), 7, b"genuine", &Options::default(), &signer).unwrap();
    let forged =
        Publication::new(name("/p/o").as_name(), 7, b"forged", &Options::default(), &forger).unwrap();
    let (_producer, connection) = Producer::start(move |interest| {
        if interest.name.is_prefix_of(forged_certificate.name()) {
            return Some((LpHeaders::default(), forged_certificate.wire().to_vec()));
        }
        let is_metadata = interest.name.component(2).is_some_and(|c| c.value == b"metadata");
        let publication = if is_metadata { &genuine } else { &forged };
        Some((LpHeaders::default(), publication.answer(interest)?.to_vec()))
    });
    let error = read(&consumer(connection, believing(anchor)), "/p/o").unwrap_err();
    let ObjectError::Untrusted(rejection) = &error else { panic!("{error}") };
    assert_eq!(rejection.name, name("/p/o/v=7/32=manifest/seg=0"));
    assert!(error.to_string().contains("/mallory/KEY/k"), "{error}");
}

#[test]
fn a_signed_but_inconsistent_manifest_is_refused() {
    let (signer, anchor) = key_of("/p");
    let object = name("/p/o/v=7");
    let publication = Publication::new(
        name("/p/o").as_name(),
        7,
        &content(3000),
        &small_packets(Signing::Manifest(ManifestHash::Sha256)),
        &signer,
    )
    .unwrap();
    // Manifest 1 under the name of manifest 0; one that lists nothing; one that lists other
    // digests.
    let wrong_place = {
        let manifest = Manifest::new(1, ManifestHash::Sha256);
        let name = manifest_name(object.as_name(), 0);
        let builder = DataBuilder::new(name.as_name()).content_type(ContentType::Manifest);
        sign_data(&builder, &manifest.encode(object.as_name()), &signer).unwrap()
    };
    let empty = Manifest::new(0, ManifestHash::Sha256).sign(object.as_name(), Some(0), 0, &signer).unwrap();
    let mut others = Manifest::new(0, ManifestHash::Sha256);
    while others.push([7; 32]) {}
    let others = others.sign(object.as_name(), Some(0), 0, &signer).unwrap();
    let lies = [wrong_place, empty, others];
    let mut which = 0;
    let publication = Arc::new(publication);
    for lie in lies {
        which += 1;
        let publication = publication.clone();
        let (_producer, connection) = Producer::start(move |interest| {
            let is_manifest = interest.name.component(3).is_some_and(|c| c.value == b"manifest");
            let wire = if is_manifest { lie.clone() } else { publication.answer(interest)?.to_vec() };
            Some((LpHeaders::default(), wire))
        });
        let error = read(&consumer(connection, believing(anchor.clone())), "/p/o").unwrap_err();
        let expected = match error {
            ObjectError::Manifest { .. } => which == 1,
            ObjectError::Corrupt(_) => which > 1,
            _ => false,
        };
        assert!(expected, "{which}: {error}");
    }
}

#[test]
fn a_missing_object_is_not_found() {
    let (signer, anchor) = key_of("/p");
    let (_producer, connection) = Producer::start(move |interest| {
        if interest.name.component(1).is_some_and(|c| c.value == b"unrouted") {
            let headers = LpHeaders { nack: Some(NackReason::NoRoute), ..LpHeaders::default() };
            return Some((headers, interest.wire.to_vec()));
        }
        let packet = metadata_name(name("/p/missing").as_name(), 1);
        let builder = DataBuilder::new(packet.as_name()).content_type(ContentType::Nack).freshness_ms(1);
        Some((LpHeaders::default(), sign_data(&builder, b"", &signer).unwrap()))
    });
    let consumer = consumer(connection, believing(anchor));
    let error = read(&consumer, "/p/missing").unwrap_err();
    assert!(matches!(error, ObjectError::NotFound { .. }), "{error}");
    let error = read(&consumer, "/p/unrouted").unwrap_err();
    assert!(matches!(error, ObjectError::Refused { reason: NackReason::NoRoute, .. }), "{error}");
    assert!(error.to_string().contains("no route to /p/unrouted"), "{error}");
}

#[test]
fn misleading_metadata_is_refused() {
    let (signer, anchor) = key_of("/p");
    let (_producer, connection) = Producer::start(move |_| {
        let packet = metadata_name(name("/p/o").as_name(), 1);
        let metadata = Metadata::new(name("/p/secret/v=1"));
        let builder = DataBuilder::new(packet.as_name()).freshness_ms(1);
        Some((LpHeaders::default(), sign_data(&builder, &metadata.to_vec(), &signer).unwrap()))
    });
    let error = read(&consumer(connection, believing(anchor)), "/p/o").unwrap_err();
    assert!(matches!(error, ObjectError::Stray { .. }), "{error}");
}

#[test]
fn a_silent_producer_is_named_with_its_segment() {
    let (signer, anchor) = key_of("/p");
    let options = small_packets(Signing::Manifest(ManifestHash::Sha256));
    let publication =
        Publication::new(name("/p/o").as_name(), 7, &content(50_000), &options, &signer).unwrap();
    let (_producer, connection) = Producer::start(move |interest| {
        let segment = interest.name.last().and_then(|last| last.segment());
        let is_late = segment.is_some_and(|segment| segment >= 100);
        if is_late { None } else { Some((LpHeaders::default(), publication.answer(interest)?.to_vec())) }
    });
    let trust = Trust::Policy(believing(anchor).into());
    let mut options = ConsumerOptions { trust, ..ConsumerOptions::default() };
    // Longer than a thread of a busy machine stalls.
    options.read.fetch.silence_ns_max = 5_000_000_000;
    let consumer = Consumer::over(connection, Name::new(), options).unwrap();
    let error = read(&consumer, "/p/o").unwrap_err();
    assert!(matches!(error, ObjectError::Fetch { .. }), "{error}");
    assert!(error.to_string().contains("/p/o/v=7/seg=100"), "{error}");
}

#[test]
fn digest_policies_accept_digests_alone() {
    for policy in [TrustPolicy::digest_only(), TrustPolicy::insecure_accept_all()] {
        let (signer, _) = key_of("/p");
        let object = content(20_000);
        let options = small_packets(Signing::Manifest(ManifestHash::Sha256));
        let publication = Publication::new(name("/p/o").as_name(), 7, &object, &options, &signer).unwrap();
        let (_producer, connection) = Producer::of(publication);
        assert!(read(&consumer(connection, policy), "/p/o").unwrap() == object);
    }
}

#[test]
fn segments_of_unequal_sizes_are_read() {
    let (signer, anchor) = key_of("/p");
    let sizes: Vec<usize> = (0..40).map(|i| (i * 37) % 90).collect();
    let whole: Vec<u8> = sizes.iter().enumerate().flat_map(|(i, size)| vec![i as u8; *size]).collect();
    let mut packets = HashMap::new();
    for (i, size) in sizes.iter().enumerate() {
        let segment = name("/p/o/v=1").join_segment(i as u64);
        let last = Name::new().join_segment(39);
        let mut builder = DataBuilder::new(segment.as_name());
        if i == 39 {
            builder = builder.final_block_id(last.as_name().last().unwrap());
        }
        let wire = sign_data(&builder, &vec![i as u8; *size], &signer).unwrap();
        packets.insert(segment, wire);
    }
    let (_producer, connection) = Producer::start(move |interest| {
        let wanted = match interest.name.len() {
            2 => name("/p/o/v=1/seg=0"),
            _ => interest.name.to_name(),
        };
        Some((LpHeaders::default(), packets.get(&wanted)?.clone()))
    });
    assert!(read(&consumer(connection, believing(anchor)), "/p/o").unwrap() == whole);
}

#[test]
fn an_object_over_the_callers_limit_is_refused() {
    let (signer, anchor) = key_of("/p");
    let options = small_packets(Signing::Manifest(ManifestHash::Sha256));
    let publication = Publication::new(name("/p/o").as_name(), 7, &content(2000), &options, &signer).unwrap();
    let (_producer, connection) = Producer::of(publication);
    let consumer = consumer(connection, believing(anchor));
    consumer.set_option("object_octets_max", "2000").unwrap();
    assert_eq!(consumer.fetch(&name("/p/o")).unwrap().len(), 2000);
    consumer.set_option("object_octets_max", "1999").unwrap();
    let error = consumer.fetch(&name("/p/o")).unwrap_err();
    assert!(matches!(error, FetchError::Object(ObjectError::TooLarge { octets_max: 1999, .. })), "{error}");
}

/// Records the segments that arrive.
#[derive(Default)]
struct Segments(Vec<u64>);

impl Sink for Segments {
    fn write(&mut self, segment: u64, _: &Verified<Vec<u8>>) -> std::io::Result<()> {
        self.0.push(segment);
        Ok(())
    }
}

#[test]
fn a_read_may_start_midway() {
    let (signer, anchor) = key_of("/p");
    let options = small_packets(Signing::Manifest(ManifestHash::Sha256));
    let publication =
        Publication::new(name("/p/o").as_name(), 7, &content(140_000), &options, &signer).unwrap();
    let segments = publication.segments();
    assert!(segments > 2 * MANIFEST_ENTRIES);
    let (_producer, connection) = Producer::of(publication);
    let consumer = consumer(connection, believing(anchor));
    let object = consumer.find(&name("/p/o")).unwrap();
    assert_eq!(object.signature_mode, SignatureMode::Manifests);
    for wanted in [0, 1, MANIFEST_ENTRIES - 1, MANIFEST_ENTRIES + 7, segments - 1, segments] {
        let mut sink = Segments::default();
        consumer.fetch_into(&object, Part::from(wanted), &mut sink, &mut |_| Flow::Continue).unwrap();
        assert_eq!(sink.0, (wanted..segments).collect::<Vec<u64>>());
    }
}

/// The metadata gives the number of segments that each short manifest covers; without metadata the
/// first manifest does.
#[test]
fn manifests_of_any_length_are_followed() {
    for (manifest_octets_max, octets) in [(400, 9_000), (1452, 9_000), (1452, 2_000), (usize::MAX, 90_000)] {
        for hash in [ManifestHash::Sha256, ManifestHash::Blake3] {
            let (signer, anchor) = key_of("/p");
            let options = Options { manifest_octets_max, ..small_packets(Signing::Manifest(hash)) };
            let publication =
                Publication::new(name("/p/o").as_name(), 7, &content(octets), &options, &signer).unwrap();
            let segments = publication.segments();
            let manifests = publication.packets().count() as u64 - segments - 1;
            let (_producer, connection) = Producer::of(publication);
            let consumer = consumer(connection, believing(anchor));
            for uri in ["/p/o", "/p/o/v=7"] {
                assert!(read(&consumer, uri).unwrap() == content(octets), "{uri}");
                let object = consumer.find(&name(uri)).unwrap();
                assert_eq!(object.signature_mode, SignatureMode::Manifests);
                assert!(manifests == 1 || segments.div_ceil(object.manifest_entries) == manifests);
                let around = [object.manifest_entries - 1, object.manifest_entries, segments / 2, segments];
                for wanted in around.into_iter().filter(|wanted| *wanted <= segments) {
                    let mut sink = Segments::default();
                    let part = Part { first: wanted, end: wanted + 9 };
                    consumer.fetch_into(&object, part, &mut sink, &mut |_| Flow::Continue).unwrap();
                    assert_eq!(sink.0, (wanted..segments.min(wanted + 9)).collect::<Vec<u64>>(), "{uri}");
                }
            }
        }
    }
}

/// Metadata in which manifests cover no segments, or more than allowed, is ignored.
#[test]
fn invalid_manifest_lengths_are_not_followed() {
    for entries in [0, MANIFEST_ENTRIES + 1, u64::MAX] {
        let (signer, anchor) = key_of("/p");
        let metadata = Metadata {
            last_segment: Some(1),
            manifest_entries: Some(entries),
            ..Metadata::new(name("/p/o/v=7"))
        };
        let (_producer, connection) = Producer::start(move |interest| {
            let is_metadata = interest.name.components().any(|c| c == METADATA_COMPONENT);
            let packet = interest.name.to_name().join_version(1).join_segment(0);
            let builder = DataBuilder::new(packet.as_name()).freshness_ms(1);
            let wire = sign_data(&builder, &metadata.to_vec(), &signer).unwrap();
            is_metadata.then(|| (LpHeaders::default(), wire))
        });
        let object = consumer(connection, believing(anchor)).find(&name("/p/o")).unwrap();
        assert_eq!((object.signature_mode, object.manifest_entries), (SignatureMode::Segments, 240));
    }
}

#[test]
fn a_directory_has_no_content_of_its_own() {
    let (signer, anchor) = key_of("/p");
    let (options, listing) = (small_packets(Signing::PerPacket), name("/p/d/32=ls"));
    let publication = Publication::new(listing.as_name(), 7, b"file\0", &options, &signer).unwrap();
    // As file servers describe a directory and its listing.
    let metadata = Metadata { mode: Some(0o040_755), ..Metadata::new(listing.join_version(7)) };
    let (_producer, connection) = Producer::start(move |interest| {
        if interest.name.last() != Some(METADATA_COMPONENT) {
            return Some((LpHeaders::default(), publication.answer(interest)?.to_vec()));
        }
        let packet = interest.name.to_name().join_version(1).join_segment(0);
        let builder = DataBuilder::new(packet.as_name()).freshness_ms(1);
        Some((LpHeaders::default(), sign_data(&builder, &metadata.to_vec(), &signer).unwrap()))
    });
    let consumer = consumer(connection, believing(anchor));
    let errors = [consumer.fetch(&name("/p/d")).err(), consumer.stream(&name("/p/d")).err()];
    for error in errors.map(Option::unwrap) {
        assert_eq!(errno_name(error.errno()), Some("EISDIR"), "{error}");
        assert_eq!(error.to_string(), "/p/d is a directory");
    }
    assert!(consumer.stat(&name("/p/d")).unwrap().is_directory);
    assert_eq!(consumer.fetch(&listing).unwrap(), b"file\0");
}

#[test]
fn the_cache_share_follows_the_incoming_face() {
    for faces in [[None, None], [Some(254), Some(300)]] {
        let (signer, anchor) = key_of("/p");
        let options = small_packets(Signing::PerPacket);
        let publication =
            Publication::new(name("/p/o").as_name(), 7, &content(2000), &options, &signer).unwrap();
        let (_producer, connection) = Producer::start(move |interest| {
            let segment = interest.name.last().and_then(|last| last.segment()).unwrap_or(0);
            let headers = LpHeaders { incoming_face_id: faces[segment as usize % 2], ..LpHeaders::default() };
            Some((headers, publication.answer(interest)?.to_vec()))
        });
        let consumer = consumer(connection, believing(anchor));
        let object: Object = consumer.find(&name("/p/o")).unwrap();
        let mut sink = Segments::default();
        let whole = Part::from(0);
        let progress: Progress =
            consumer.fetch_into(&object, whole, &mut sink, &mut |_| Flow::Continue).unwrap();
        let segments = sink.0.len() as u64;
        let even = segments.div_ceil(2);
        let expected = faces[0].map(|_| even as f64 / segments as f64);
        // The answer to a retransmission is a copy and does not count.
        assert_eq!(progress.cache_share(), expected);
        assert_eq!(progress.octets, 2000);
    }
}

#[test]
fn a_foreign_pit_token_is_harmless() {
    let (signer, anchor) = key_of("/p");
    let publication =
        Publication::new(name("/p/o").as_name(), 7, b"hello", &Options::default(), &signer).unwrap();
    let (_producer, connection) = Producer::start(move |interest| {
        let headers = LpHeaders { pit_token: PitToken::new(&[1, 2, 3]), ..LpHeaders::default() };
        Some((headers, publication.answer(interest)?.to_vec()))
    });
    assert_eq!(read(&consumer(connection, believing(anchor)), "/p/o").unwrap(), b"hello");
}

#[test]
fn unsigned_segments_are_refused_by_name() {
    let (_, anchor) = key_of("/p");
    let (_producer, connection) = Producer::start(move |_| {
        let segment = name("/p/o/v=1/seg=0");
        let last = Name::new().join_segment(0);
        let builder = DataBuilder::new(segment.as_name()).final_block_id(last.as_name().last().unwrap());
        let info = SignatureInfo::new(namely_wire::SignatureType::Null, None);
        Some((LpHeaders::default(), builder.build(b"anything", &info).finish(&[])))
    });
    let error = read(&consumer(connection, believing(anchor)), "/p/o").unwrap_err();
    assert!(matches!(error, ObjectError::Untrusted(_)), "{error}");
    assert!(error.to_string().contains("/p/o/v=1/seg=0"), "{error}");
}
