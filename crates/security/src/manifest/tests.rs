use std::sync::Arc;

use namely_testkit::name;
use namely_wire::DataBuilder;
use proptest::prelude::*;

use super::*;
use crate::certificate::Certificate;
use crate::crypto::{KeyType, PrivateKey};
use crate::prepared::Preparation;
use crate::trust::TrustPolicy;
use crate::validity;
use crate::verifier::{Verdict, Verifier};

fn segment_under(hash: ManifestHash, object: &Name, number: u64, content: &[u8]) -> Vec<u8> {
    let name = object.join_segment(number);
    let signer = match hash {
        ManifestHash::Sha256 => Signer::digest_sha256(),
        ManifestHash::Blake3 => Signer::null(),
    };
    sign_data(&DataBuilder::new(name.as_name()), content, &signer).unwrap()
}

fn segment(object: &Name, number: u64, content: &[u8]) -> Vec<u8> {
    segment_under(ManifestHash::Sha256, object, number, content)
}

fn digest_of(hash: ManifestHash, segment: &[u8]) -> [u8; DIGEST_OCTETS] {
    hash.digest(DataView::parse(segment).unwrap().signed_portion)
}

/// An object of `count` segments and the verified manifest `index` of it.
fn object(index: u64, count: u64) -> (Name, Vec<Vec<u8>>, VerifiedManifest) {
    object_under(ManifestHash::Sha256, index, count)
}

fn object_under(hash: ManifestHash, index: u64, count: u64) -> (Name, Vec<Vec<u8>>, VerifiedManifest) {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name = name("/p/KEY/k");
    let anchor = Certificate::self_signed(key_name.as_name(), &key, validity::ALWAYS, 1).unwrap();
    let object = name("/p/file/v=7");
    let mut manifest = Manifest::new(index, hash);
    let segments: Vec<Vec<u8>> = (0..count)
        .map(|i| {
            segment_under(hash, &object, index * MANIFEST_ENTRIES + i, format!("segment {i}").as_bytes())
        })
        .collect();
    segments.iter().for_each(|s| assert!(manifest.push(digest_of(hash, s))));
    let wire = manifest.sign(object.as_name(), Some(index), 1000, &Signer::new(key_name, key)).unwrap();
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(anchor);
    let Verdict::Verified(data) = Verifier::new(policy).verify(wire, 0) else { panic!() };
    (object, segments, VerifiedManifest::open(&data).unwrap())
}

#[test]
fn a_manifest_vouches_only_for_its_segments() {
    let (object, segments, manifest) = object(2, 3);
    assert_eq!(manifest.segments(), 480..483);
    for wire in &segments {
        let verified = manifest.verify(wire.as_slice()).unwrap();
        assert!(verified.reason().is_authentic());
        assert_eq!(verified.reason().key_name(), Some(&name("/p/KEY/k")));
        assert!(verified.content().starts_with(b"segment"));
    }
    for other in [479, 483, 0, u64::MAX] {
        let rejection = manifest.verify(segment(&object, other, b"segment 0")).unwrap_err();
        assert_eq!(rejection.why, SegmentFault::NotListed(480..483));
    }
    let stranger = segment(&name("/p/file/v=8"), 480, b"segment 0");
    let rejection = manifest.verify(stranger).unwrap_err();
    assert_eq!(rejection.why, SegmentFault::NotOfObject(object.clone()));
    let swapped = segment(&object, 480, b"segment 1");
    assert_eq!(manifest.verify(swapped).unwrap_err().why, SegmentFault::BadDigest);
}

#[test]
fn a_tampered_segment_is_refused() {
    for hash in [ManifestHash::Sha256, ManifestHash::Blake3] {
        let (_, segments, manifest) = object_under(hash, 0, 1);
        assert!(manifest.verify(segments[0].clone()).is_ok());
        for i in 0..segments[0].len() {
            for bit in [0x01, 0x80] {
                let mut tampered = segments[0].clone();
                tampered[i] ^= bit;
                assert!(manifest.verify(tampered).is_err(), "{hash:?} octet {i}");
            }
        }
    }
}

#[test]
fn segments_hashed_together_are_verified_alike() {
    for hash in [ManifestHash::Sha256, ManifestHash::Blake3] {
        let (_, mut run, manifest) = object_under(hash, 0, 40);
        run[7][20] ^= 1;
        let last = run[17].len() - 1;
        run[17][last] ^= 1;
        run.insert(21, b"no packet".to_vec());
        // A digest by the other algorithm is not used.
        let other = if hash == ManifestHash::Sha256 { ManifestHash::Blake3 } else { ManifestHash::Sha256 };
        for hashed in [hash, other].map(|hash| Prepared::each(&Preparation::Digests(hash), run.clone())) {
            for (packet, hashed) in run.iter().zip(hashed) {
                assert_eq!(hashed.packet(), packet);
                let (alone, together) = (manifest.verify(packet.clone()), manifest.verify_prepared(hashed));
                assert_eq!(alone, together);
            }
        }
        let bad = run.iter().filter(|packet| manifest.verify(packet.as_slice()).is_err()).count();
        assert_eq!(bad, 3);
    }
}

#[test]
fn a_listed_segment_needs_the_right_digest() {
    let (object, _, manifest) = object(0, 2);
    let name = object.join_segment(0);
    let null = sign_data(&DataBuilder::new(name.as_name()), b"segment 0", &Signer::null()).unwrap();
    assert_eq!(manifest.verify(null).unwrap_err().why, SegmentFault::BadDigest);
    let (object, _, manifest) = object_under(ManifestHash::Blake3, 0, 2);
    let digest = segment(&object, 0, b"segment 0");
    assert_eq!(manifest.verify(digest).unwrap_err().why, SegmentFault::BadDigest);
}

#[test]
fn a_full_manifest_fits_one_packet() {
    let mut manifest = Manifest::new(0, ManifestHash::Sha256);
    for _ in 0..MANIFEST_ENTRIES {
        assert!(manifest.push([7; DIGEST_OCTETS]));
    }
    assert!(!manifest.push([7; DIGEST_OCTETS]));
    assert_eq!(manifest.segments(), 0..MANIFEST_ENTRIES);
    let signer = Signer::new(
        name("/some/site/KEY/12345678/self/v=1700000000000"),
        Arc::new(PrivateKey::generate(KeyType::Rsa).unwrap()),
    );
    let object = name("/some/site/dataset/file").join_generic([b'x'; 250]).join_version(u64::MAX);
    let wire = manifest.sign(object.as_name(), Some(u64::MAX), 1000, &signer).unwrap();
    assert!(wire.len() <= PACKET_OCTETS_MAX);
    let long = object.join_generic([b'y'; 700]);
    assert!(matches!(
        manifest.sign(long.as_name(), None, 1000, &signer),
        Err(ManifestError::TooLarge(octets)) if octets > PACKET_OCTETS_MAX
    ));
}

#[test]
fn only_manifest_data_is_opened_as_a_manifest() {
    let content = Manifest::new(0, ManifestHash::Sha256).encode(name("/p/v=1").as_name());
    let open = |uri: &str, content_type| {
        let name = name(uri);
        let builder = DataBuilder::new(name.as_name()).content_type(content_type);
        let wire = sign_data(&builder, &content, &Signer::digest_sha256()).unwrap();
        let Verdict::Verified(data) = Verifier::new(TrustPolicy::digest_only()).verify(wire, 0) else {
            panic!()
        };
        VerifiedManifest::open(&data).map(|m| m.trust.because.is_authentic())
    };
    assert_eq!(open("/p/v=1/32=manifest/seg=0", ContentType::Manifest), Ok(false));
    assert_eq!(open("/p/v=1/32=manifest/seg=1", ContentType::Manifest), Err(ManifestError::Inconsistent));
    for (uri, content_type) in [
        ("/p/v=1/32=manifest/seg=0", ContentType::Blob),
        ("/p/v=1/manifest/seg=0", ContentType::Manifest),
        ("/p/v=1/32=manifest", ContentType::Manifest),
        ("/", ContentType::Manifest),
    ] {
        assert!(matches!(open(uri, content_type), Err(ManifestError::BadName(_))), "{uri}");
    }
}

/// The Content of manifest 1 of `/p/file/v=7` with its fields as given.
fn content(word: [u8; 4], object: &str, suffix: u32, digests: usize) -> Vec<u8> {
    let prefix = &sha256(name(object).as_bytes())[..16];
    [&word[..], prefix, &suffix.to_be_bytes(), &vec![7; digests]].concat()
}

#[test]
fn an_inconsistent_manifest_is_refused() {
    let object = name("/p/file/v=7");
    let decode =
        |octets: &[u8], index| Manifest::decode(octets, object.as_name(), index).map(|m| m.segments());
    let of = |word, digests| content(word, "/p/file/v=7", 240, digests);
    assert_eq!(decode(&of([0x20, 0x11, 0, 2], 64), 1), Ok(240..242));
    assert_eq!(decode(&of([0x20, 0x21, 0, 0], 0), 1), Ok(240..240));
    assert_eq!(decode(&of([0x20, 0x11, 0, 240], 240 * 32), 1), Ok(240..480));
    assert_eq!(decode(&of([0x10, 0x11, 0, 2], 64), 1), Err(ManifestError::UnknownVersion(1)));
    assert_eq!(decode(&of([0x20, 0x31, 0, 2], 64), 1), Err(ManifestError::UnknownHash(3)));
    for word in [[0x21, 0x11, 0, 2], [0x20, 0x10, 0, 2], [0x20, 0x11, 1, 2]] {
        assert_eq!(decode(&of(word, 64), 1), Err(ManifestError::UnknownForm), "{word:?}");
    }
    for (octets, index) in [
        (of([0x20, 0x11, 0, 3], 64), 1),
        (of([0x20, 0x11, 0, 2], 65), 1),
        (of([0x20, 0x11, 0, 241], 241 * 32), 1),
        (of([0x20, 0x11, 0, 2], 64), 2),
        (of([0x20, 0x11, 0, 2], 64), u64::MAX),
        (of([0x20, 0x11, 0, 2], 64), u64::MAX / 240),
        (content([0x20, 0x11, 0, 2], "/p/file/v=8", 240, 64), 1),
        (content([0x20, 0x11, 0, 2], "/p/file/v=7", 241, 64), 1),
    ] {
        assert_eq!(decode(&octets, index), Err(ManifestError::Inconsistent), "{octets:?} {index}");
    }
    for octets in 0..HEADER_OCTETS {
        let cut = &of([0x20, 0x11, 0, 0], 0)[..octets];
        assert_eq!(decode(cut, 1), Err(ManifestError::TooShort(octets)));
    }
}

#[test]
fn segments_beyond_32_bits_use_the_manifest_number() {
    let object = name("/p/file/v=7");
    let index = (1 << 33) / MANIFEST_ENTRIES;
    let mut manifest = Manifest::new(index, ManifestHash::Sha256);
    manifest.push([3; 32]);
    let first = index * MANIFEST_ENTRIES;
    let octets = manifest.encode(object.as_name());
    assert_eq!(Manifest::decode(&octets, object.as_name(), index).unwrap().segments(), first..first + 1);
    assert_eq!(Manifest::decode(&octets, object.as_name(), index + 1), Err(ManifestError::Inconsistent));
}

#[test]
fn a_short_manifest_has_an_entry_limit() {
    let object = name("/p/o/v=1");
    for entries_max in [1, 8, 34] {
        let mut manifest = Manifest::of_at_most(entries_max, 3, ManifestHash::Sha256);
        while manifest.push([5; 32]) {}
        assert_eq!(manifest.segments(), 3 * entries_max..4 * entries_max);
        let octets = manifest.encode(object.as_name());
        let decode = |entries_max| Manifest::decode_of_at_most(entries_max, &octets, object.as_name(), 3);
        assert_eq!(decode(entries_max), Ok(manifest));
        // With one entry fewer or more, manifests of this number have other segments.
        assert_eq!(decode(entries_max + 1), Err(ManifestError::Inconsistent));
        assert!(entries_max == 1 || decode(entries_max - 1) == Err(ManifestError::Inconsistent));
    }
}

/// The dump in docs/manifest.md agrees with the code.
#[test]
fn the_documented_manifest_example_is_right() {
    let mut manifest = Manifest::new(1, ManifestHash::Sha256);
    manifest.push(sha256(b"first"));
    manifest.push(sha256(b"second"));
    let documented = include_str!("../../../../docs/manifest.md");
    let (_, dump) = documented.split_once("<!-- example -->\n```text\n").unwrap();
    let (dump, _) = dump.split_once("```").unwrap();
    let octets: Vec<u8> = dump
        .lines()
        .flat_map(|line| line.split("  ").next().unwrap_or("").split_ascii_whitespace())
        .map(|hex| u8::from_str_radix(hex, 16).unwrap())
        .collect();
    assert_eq!(octets, manifest.encode(name("/p/file/v=7").as_name()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_manifest_survives_a_round_trip(
        index in 0u64..1 << 50, spare in 0u64..241, digests in proptest::collection::vec(any::<[u8; 32]>(), 0..241)
    ) {
        let object = name("/p/file/v=7");
        let entries_max = (digests.len() as u64 + spare).clamp(1, MANIFEST_ENTRIES);
        for hash in [ManifestHash::Sha256, ManifestHash::Blake3] {
            let manifest = Manifest { hash, index, entries_max, digests: digests.clone() };
            let octets = manifest.encode(object.as_name());
            let decode = |entries_max| Manifest::decode_of_at_most(entries_max, &octets, object.as_name(), index);
            prop_assert_eq!(decode(entries_max), Ok(manifest));
        }
    }

    #[test]
    fn arbitrary_octets_never_panic_the_manifest_decoder(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let object = name("/p/file/v=7");
        let _ = Manifest::decode(&octets, object.as_name(), 1);
        let _ = Manifest::decode(&[&content([0x20, 0x11, 0, 2], "/p/file/v=7", 240, 0), &octets[..]].concat(), object.as_name(), 1);
    }
}
