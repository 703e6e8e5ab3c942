//! Objects published from memory: cut to size (HT-12), signed one by one or by manifest (HT-14),
//! found and verified.

use std::sync::Arc;

use namely_security::validity::ALWAYS;
use namely_security::{
    Certificate, KeyType, MANIFEST_ENTRIES, ManifestHash, PrivateKey, Signer, TrustPolicy, Verdict, Verified,
    VerifiedManifest, Verifier, manifest_name,
};
use namely_transport::publish::{
    Options, PACKET_OCTETS_DEFAULT, Publication, PublishError, SHORT_MANIFEST_OCTETS_MAX, Signing,
};
use namely_wire::rdr::{Metadata, discovery_name};
use namely_wire::{DataView, InterestBuilder, InterestView, Name};

/// Octets of an Ethernet payload behind IPv4 and UDP.
const MTU: usize = 1472;

fn producer(key_type: KeyType) -> (Signer, Verifier) {
    producer_with(PrivateKey::generate(key_type).unwrap())
}

fn producer_with(key: PrivateKey) -> (Signer, Verifier) {
    let key = Arc::new(key);
    let key_name: Name = "/p/KEY/k".parse().unwrap();
    let anchor = Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap();
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    (Signer::new(key_name, key), Verifier::new(policy))
}

fn query(publication: &Publication, interest: InterestBuilder) -> Option<Vec<u8>> {
    publication.answer(&InterestView::parse(&interest.build()).unwrap()).map(<[u8]>::to_vec)
}

fn fetch(publication: &Publication, name: Name) -> Vec<u8> {
    query(publication, InterestBuilder::new(name)).expect("published")
}

fn verified(verifier: &mut Verifier, wire: Vec<u8>) -> Verified {
    match verifier.verify(wire, 0) {
        Verdict::Verified(verified) => verified,
        other => panic!("{other:?}"),
    }
}

/// The content of the object that `name` leads to, verified.
fn read(publication: &Publication, name: &Name, verifier: &mut Verifier) -> Vec<u8> {
    let discovery = InterestBuilder::new(discovery_name(name.as_name())).can_be_prefix().must_be_fresh();
    let metadata = verified(verifier, query(publication, discovery).unwrap());
    let metadata = Metadata::decode(metadata.content()).unwrap();
    let mut content = Vec::new();
    let mut manifest: Option<VerifiedManifest> = None;
    for segment in 0..=metadata.last_segment.unwrap() {
        let wire = fetch(publication, metadata.name.join_segment(segment));
        if metadata.manifest_entries.is_none() {
            content.extend_from_slice(verified(verifier, wire).content());
            continue;
        }
        let entries = metadata.manifest_entries.unwrap();
        if segment.is_multiple_of(entries) {
            let name = manifest_name(metadata.name.as_name(), segment / entries);
            let data = verified(verifier, fetch(publication, name));
            manifest = Some(VerifiedManifest::open_of_at_most(entries, &data).unwrap());
        }
        content.extend_from_slice(manifest.as_ref().unwrap().verify(wire).unwrap().content());
    }
    assert_eq!(metadata.size_octets, Some(content.len() as u64));
    content
}

fn content(octets: usize) -> Vec<u8> {
    (0..octets).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn objects_of_every_edge_size_are_published() {
    let name: Name = "/p/data".parse().unwrap();
    for signing in
        [Signing::Manifest(ManifestHash::Sha256), Signing::Manifest(ManifestHash::Blake3), Signing::PerPacket]
    {
        let (signer, mut verifier) = producer(KeyType::Ed25519);
        let options = Options { packet_octets_max: MTU, signing, ..Options::default() };
        // The payload of one full segment, taken from an object of two segments.
        let two = Publication::new(name.as_name(), 1, &content(2 * MTU), &options, &signer).unwrap();
        let first = fetch(&two, two.object().to_name().join_segment(0));
        let full = DataView::parse(&first).unwrap().content.len();
        assert!(first.len() > MTU - 32, "a full packet of {} octets wastes its MTU", first.len());
        let around = |n: usize| [n * full - 1, n * full, n * full + 1];
        for octets in [vec![0, 1, MTU], around(1).to_vec(), around(2).to_vec(), around(5).to_vec()].concat() {
            let object = content(octets);
            let publication = Publication::new(name.as_name(), 7, &object, &options, &signer).unwrap();
            assert_eq!(publication.segments(), (octets.div_ceil(full) as u64).max(1));
            assert!(publication.packets().all(|p| p.len() <= MTU || is_manifest(p)), "{octets}");
            assert_eq!(read(&publication, &name, &mut verifier), object, "{signing:?} {octets}");
        }
    }
}

/// Manifests list 240 digests regardless of the MTU, and links may fragment them, unless an option
/// limits manifests to the MTU, too.
fn is_manifest(packet: &[u8]) -> bool {
    DataView::parse(packet).unwrap().content_type == namely_wire::ContentType::Manifest
}

#[test]
fn every_suite_signs_packets_and_manifests() {
    let name: Name = "/p/data".parse().unwrap();
    for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
        for signing in [
            Signing::Manifest(ManifestHash::Sha256),
            Signing::Manifest(ManifestHash::Blake3),
            Signing::PerPacket,
        ] {
            let (signer, mut verifier) = producer(key_type);
            let options = Options { packet_octets_max: MTU, signing, ..Options::default() };
            let object = content(5000);
            let publication = Publication::new(name.as_name(), 7, &object, &options, &signer).unwrap();
            assert!(publication.packets().all(|packet| packet.len() <= MTU), "{key_type:?} {signing:?}");
            assert_eq!(read(&publication, &name, &mut verifier), object, "{key_type:?} {signing:?}");
        }
    }
}

#[test]
fn a_manifest_covers_240_segments() {
    let (signer, mut verifier) = producer(KeyType::Ed25519);
    let name: Name = "/p/data".parse().unwrap();
    let options = Options { packet_octets_max: 200, ..Options::default() };
    let small = Publication::new(name.as_name(), 1, &content(1000), &options, &signer).unwrap();
    let segment = fetch(&small, small.object().to_name().join_segment(0));
    let full = DataView::parse(&segment).unwrap().content.len();
    for (segments, manifests) in [(240, 1), (241, 2), (480, 2), (481, 3)] {
        let object = content(segments * full);
        let publication = Publication::new(name.as_name(), 1, &object, &options, &signer).unwrap();
        // Longer objects have longer segment numbers, so a segment may hold a little less.
        assert!(publication.segments() >= segments as u64);
        let expected = publication.segments().div_ceil(MANIFEST_ENTRIES);
        assert!(expected >= manifests);
        assert_eq!(publication.packets().filter(|p| is_manifest(p)).count() as u64, expected);
        assert_eq!(read(&publication, &name, &mut verifier), object);
    }
}

#[test]
fn manifests_fill_their_maximum_length() {
    let name: Name = "/p/data".parse().unwrap();
    let keys = [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa].map(producer);
    let rsa_4096 = producer_with(PrivateKey::generate_rsa_4096().unwrap());
    for (signer, mut verifier) in keys.into_iter().chain([rsa_4096]) {
        for hash in [ManifestHash::Sha256, ManifestHash::Blake3] {
            for octets_max in [1280 - 48, 1500 - 28, 4000, SHORT_MANIFEST_OCTETS_MAX] {
                let options = Options {
                    packet_octets_max: octets_max.min(400),
                    manifest_octets_max: octets_max,
                    signing: Signing::Manifest(hash),
                    ..Options::default()
                };
                let object = content(100_000);
                let publication = Publication::new(name.as_name(), 7, &object, &options, &signer).unwrap();
                let lengths: Vec<_> =
                    publication.packets().filter(|p| is_manifest(p)).map(<[u8]>::len).collect();
                let longest = lengths.iter().max().copied().unwrap();
                let kind = signer.signature_type();
                // One more entry would not fit, or the manifest has the maximum number of entries.
                // The calculation assumes the longest LENGTHs and numbers.
                assert!(longest <= octets_max, "{kind:?}: {longest} of {octets_max}");
                assert!(longest > octets_max.min(7680) - 32 - 40, "{kind:?}: {longest} of {octets_max}");
                assert_eq!(read(&publication, &name, &mut verifier), object);
            }
        }
    }
}

#[test]
fn a_manifest_has_8_to_240_entries() {
    let (signer, mut verifier) = producer(KeyType::Ed25519);
    let name: Name = "/p/data".parse().unwrap();
    for (octets_max, entries) in [(0, 8), (400, 8), (SHORT_MANIFEST_OCTETS_MAX + 1, 240), (usize::MAX, 240)] {
        let options =
            Options { packet_octets_max: 200, manifest_octets_max: octets_max, ..Options::default() };
        let object = content(30_000);
        let publication = Publication::new(name.as_name(), 7, &object, &options, &signer).unwrap();
        let manifests = publication.packets().filter(|packet| is_manifest(packet)).count() as u64;
        assert_eq!(manifests, publication.segments().div_ceil(entries), "{octets_max}");
        assert_eq!(read(&publication, &name, &mut verifier), object);
    }
}

#[test]
fn an_rsa_4096_packet_keeps_its_length() {
    let (signer, mut verifier) = producer_with(PrivateKey::generate_rsa_4096().unwrap());
    let name: Name = "/p/data".parse().unwrap();
    for packet_octets_max in [MTU, PACKET_OCTETS_DEFAULT] {
        let options = Options { packet_octets_max, signing: Signing::PerPacket, ..Options::default() };
        let object = content(40_000);
        let publication = Publication::new(name.as_name(), 7, &object, &options, &signer).unwrap();
        assert!(publication.packets().all(|packet| packet.len() <= packet_octets_max));
        assert_eq!(read(&publication, &name, &mut verifier), object);
    }
}

#[test]
fn a_packet_smaller_than_its_name_is_refused() {
    let (signer, _) = producer(KeyType::Ed25519);
    let name: Name = "/p/data".parse().unwrap();
    let options = Options { packet_octets_max: 60, ..Options::default() };
    let refused = Publication::new(name.as_name(), 1, b"x", &options, &signer).unwrap_err();
    assert!(matches!(refused, PublishError::PacketTooSmall { .. }));
    assert!(refused.to_string().contains("60 octets"), "{refused}");
}

#[test]
fn a_default_packet_fits_8800_octets() {
    let (signer, _) = producer(KeyType::Ed25519);
    let name: Name = "/p/data".parse().unwrap();
    let publication =
        Publication::new(name.as_name(), 1, &content(20_000), &Options::default(), &signer).unwrap();
    let largest = publication.packets().max_by_key(|packet| packet.len()).unwrap();
    assert!(largest.len() > 8700);
    let headers = namely_wire::LpHeaders {
        pit_token: namely_wire::PitToken::new(&[7; 32]),
        congestion_mark: Some(1),
        ..Default::default()
    };
    assert!(namely_wire::encode_lp_packet(&headers, largest).len() <= 8800);
}

#[test]
fn a_publication_answers_only_matching_interests() {
    let (signer, _) = producer(KeyType::Ed25519);
    let name: Name = "/p/data".parse().unwrap();
    let publication = Publication::new(name.as_name(), 7, b"hello", &Options::default(), &signer).unwrap();
    assert!(query(&publication, InterestBuilder::new("/p/data".parse().unwrap())).is_none());
    assert!(query(&publication, InterestBuilder::new("/p/other".parse().unwrap()).can_be_prefix()).is_none());
    let prefix = query(&publication, InterestBuilder::new("/p/data".parse().unwrap()).can_be_prefix());
    assert!(prefix.is_some());
    let segment = fetch(&publication, "/p/data/v=7/seg=0".parse().unwrap());
    let digest = namely_security::sha256(&segment);
    let component = |value| namely_wire::Component { typ: 1, value };
    let full: Name = "/p/data/v=7/seg=0".parse().unwrap();
    assert_eq!(fetch(&publication, full.join(component(&digest))), segment);
    assert!(query(&publication, InterestBuilder::new(full.join(component(&[0; 32])))).is_none());
}
