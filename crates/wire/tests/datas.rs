//! Data: known octets, the evolvability rules, the signed portion, sizes around the header's own.

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    Component, ContentType, DataBuilder, DataView, DecodeError, KeyLocator, Name, SignatureInfo,
    SignatureInfoView, SignatureType,
};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A Data named `/a` with these octets after its name.
fn data(elements: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.nested(DATA, |w| {
        w.raw(&[7, 3, 8, 1, b'a']).raw(elements);
    });
    w.into_vec()
}

fn refused(wire: &[u8]) -> DecodeError {
    DataView::parse(wire).unwrap_err()
}

/// MetaInfo, Content, SignatureInfo (digest), SignatureValue.
const META: [u8; 14] = [20, 12, 24, 1, 0, 25, 2, 0x03, 0xe8, 26, 3, 50, 1, 9];
const BODY: [u8; 4] = [21, 2, b'h', b'i'];
const INFO: [u8; 5] = [22, 3, 27, 1, 0];
const VALUE: [u8; 4] = [23, 2, 0xaa, 0xbb];

#[test]
fn a_data_matches_the_specification() {
    let last = Component { typ: SEGMENT_COMPONENT, value: &[9] };
    let target = name("/a");
    let unsigned = DataBuilder::new(target.as_name())
        .content_type(ContentType::Key)
        .freshness_ms(1000)
        .final_block_id(last)
        .build(b"hi", &SignatureInfo::digest_sha256());
    let by_hand = [&[20, 12, 24, 1, 2][..], &META[5..], &BODY, &INFO].concat();
    assert_eq!(unsigned.signed_portion(), [&[7, 3, 8, 1, b'a'][..], &by_hand].concat());
    let wire = unsigned.finish(&[0xaa, 0xbb]);
    assert_eq!(wire, data(&[&by_hand[..], &VALUE].concat()));

    let view = DataView::parse(&wire).unwrap();
    assert_eq!((view.wire, view.name), (&wire[..], target.as_name()));
    assert_eq!((view.content_type, view.freshness_ms), (ContentType::Key, 1000));
    assert_eq!(view.final_block_id, Some(last));
    assert_eq!(view.content, b"hi");
    assert_eq!(view.signature_type, SignatureType::DigestSha256);
    assert_eq!(view.signature_value, [0xaa, 0xbb]);
    assert_eq!(view.signed_portion, &wire[2..wire.len() - 4]);
}

#[test]
fn a_bare_data_has_the_defaults() {
    let wire = data(&[&INFO[..], &VALUE].concat());
    let view = DataView::parse(&wire).unwrap();
    assert_eq!((view.content_type, view.freshness_ms), (ContentType::Blob, 0));
    assert_eq!((view.final_block_id, view.content), (None, &[][..]));
    let empty = data(&[&[20, 0, 21, 0][..], &INFO, &[23, 0]].concat());
    assert!(DataView::parse(&empty).is_ok());
}

#[test]
fn unknown_data_elements_follow_evolvability_rules() {
    let parts = [&META[..], &BODY, &INFO, &VALUE];
    for at in 0..=parts.len() {
        let with = |element: &[u8]| data(&[&parts[..at].concat(), element, &parts[at..].concat()].concat());
        let ignored = with(&[200, 1, 7]);
        let view = DataView::parse(&ignored).unwrap();
        assert_eq!((view.content, view.freshness_ms), (&b"hi"[..], 1000));
        let signed_end = ignored.len() - if at == parts.len() { 7 } else { 4 };
        assert_eq!(view.signed_portion, &ignored[2..signed_end]);
        for typ in [31, 201] {
            assert_eq!(refused(&with(&[typ, 0])), DecodeError::UnknownCritical(u32::from(typ)));
        }
    }
}

#[test]
fn missing_data_elements_are_refused() {
    assert_eq!(refused(&[6, 0]), DecodeError::Missing(NAME));
    assert_eq!(refused(&data(&[])), DecodeError::Missing(SIGNATURE_INFO));
    assert_eq!(refused(&data(&BODY)), DecodeError::Missing(SIGNATURE_INFO));
    assert_eq!(refused(&data(&VALUE)), DecodeError::Missing(SIGNATURE_INFO));
    assert_eq!(refused(&data(&INFO)), DecodeError::Missing(SIGNATURE_VALUE));
    assert_eq!(refused(&data(&[22, 0, 23, 0])), DecodeError::Missing(SIGNATURE_TYPE));
    assert_eq!(refused(&data(&[22, 5, 28, 0, 27, 1, 0, 23, 0])), DecodeError::Missing(SIGNATURE_TYPE));
}

#[test]
fn misordered_data_elements_are_refused() {
    let out_of_order = [&BODY[..], &META, &INFO, &VALUE].concat();
    assert_eq!(refused(&data(&out_of_order)), DecodeError::UnknownCritical(META_INFO));
    let repeated = [&BODY[..], &BODY, &INFO, &VALUE].concat();
    assert_eq!(refused(&data(&repeated)), DecodeError::UnknownCritical(CONTENT));
    let swapped = [&VALUE[..], &INFO].concat();
    assert_eq!(refused(&data(&swapped)), DecodeError::UnknownCritical(SIGNATURE_INFO));
    let second_name = [&[7, 0][..], &INFO, &VALUE].concat();
    assert_eq!(refused(&data(&second_name)), DecodeError::UnknownCritical(NAME));
}

#[test]
fn meta_info_follows_the_same_rules() {
    let meta = |value: &[u8]| data(&[&[20, value.len() as u8][..], value, &INFO, &VALUE].concat());
    let fresh = |value: &[u8]| DataView::parse(&meta(value)).map(|v| v.freshness_ms);
    assert_eq!(fresh(&[200, 0, 25, 1, 5, 202, 1, 1]), Ok(5));
    assert_eq!(fresh(&[201, 0, 25, 1, 5]), Err(DecodeError::UnknownCritical(201)));
    assert_eq!(fresh(&[25, 1, 5, 24, 1, 0]), Err(DecodeError::UnknownCritical(CONTENT_TYPE)));
    assert_eq!(fresh(&[25, 1, 5, 25, 1, 6]), Err(DecodeError::UnknownCritical(FRESHNESS_PERIOD)));
    assert_eq!(fresh(&[25, 0]), Err(DecodeError::BadInteger));
    assert_eq!(fresh(&[26, 0]), Err(DecodeError::Truncated));
    assert_eq!(fresh(&[26, 6, 50, 1, 9, 50, 1, 9]), Err(DecodeError::TrailingOctets));
    assert_eq!(fresh(&[26, 6, 254, 0, 1, 0, 0, 0]), Err(DecodeError::BadComponentType));
    assert_eq!(fresh(&[26, 3, 1, 1, 9]), Err(DecodeError::BadDigestLength));
    assert_eq!(fresh(&[25, 8, 255, 255, 255, 255, 255, 255, 255, 255]), Ok(u64::MAX));
}

#[test]
fn content_and_signature_types_are_stable() {
    for n in [0, 1, 2, 3, 4, 5, 6, 1024, u64::MAX] {
        assert_eq!(ContentType::from_number(n).number(), n);
    }
    for n in [0, 1, 2, 3, 4, 5, 200, 201] {
        assert_eq!(SignatureType::from_number(n).number(), n);
    }
    assert_eq!(ContentType::from_number(5), ContentType::PrefixAnnouncement);
    assert_eq!(SignatureType::from_number(3), SignatureType::Sha256WithEcdsa);
    assert_eq!(SignatureType::from_number(2), SignatureType::Other(2));
}

#[test]
fn signature_info_is_read_in_order() {
    let parse = |value: &'static [u8]| SignatureInfoView::parse_value(value);
    let digest = parse(&[27, 1, 3, 28, 4, 29, 2, 1, 2]).unwrap();
    assert_eq!(digest.key_locator, Some(KeyLocator::Digest(&[1, 2])));
    assert_eq!(digest.key_name(), None);
    assert_eq!(parse(&[27, 1, 3, 28, 0]).unwrap().key_locator, None);
    assert_eq!(
        parse(&[27, 1, 3, 28, 7, 200, 0, 7, 3, 8, 1, b'k']).unwrap().key_name(),
        Some(name("/k").as_name())
    );
    assert_eq!(parse(&[27, 1, 3, 28, 2, 201, 0]), Err(DecodeError::UnknownCritical(201)));
    assert_eq!(parse(&[27, 1, 3, 28, 3, 7, 1, 8]), Err(DecodeError::Truncated));
    assert_eq!(parse(&[27, 1, 3, 27, 1, 3]), Err(DecodeError::UnknownCritical(27)));
    assert_eq!(parse(&[27, 1, 3, 38, 0]), Err(DecodeError::BadLength(SIGNATURE_NONCE)));
    assert_eq!(parse(&[27, 1, 3, 40, 3, 0, 0, 0]), Err(DecodeError::BadInteger));
    // SignatureSeqNum and SignatureTime are not critical: they are ignored if they are out of
    // order.
    let late = parse(&[27, 1, 3, 42, 1, 9, 40, 1, 1]).unwrap();
    assert_eq!((late.seq_num, late.time_ms), (Some(9), None));
    assert_eq!(parse(&[27, 1, 0, 253, 0, 253, 0]), Err(DecodeError::Missing(NOT_BEFORE)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_built_data_is_read_back(
        content in prop_oneof![prop::collection::vec(any::<u8>(), 0..20), (180usize..270).prop_map(|n| vec![5; n]), (65_400usize..65_600).prop_map(|n| vec![5; n])],
        content_type in prop_oneof![0u64..8, any::<u64>()],
        freshness_ms: u64,
        last_segment: Option<u64>,
        key_name: Option<bool>,
        signature in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let target = name("/a/b");
        let block = last_segment.map(|n| Name::new().join_segment(n));
        let mut builder = DataBuilder::new(target.as_name())
            .content_type(ContentType::from_number(content_type))
            .freshness_ms(freshness_ms);
        if let Some(block) = &block {
            builder = builder.final_block_id(block.as_name().last().unwrap());
        }
        let info = SignatureInfo::new(SignatureType::Ed25519, key_name.map(|_| name("/k/KEY/x")));
        let unsigned = builder.build(&content, &info);
        let signed = unsigned.signed_portion().to_vec();
        let wire = unsigned.finish(&signature);
        let view = DataView::parse(&wire).unwrap();
        prop_assert_eq!(view.name, target.as_name());
        prop_assert_eq!(view.content, &content);
        prop_assert_eq!(view.content_type.number(), content_type);
        prop_assert_eq!(view.freshness_ms, freshness_ms);
        prop_assert_eq!(view.final_block_id.and_then(|c| c.segment()), last_segment);
        prop_assert_eq!(view.signed_portion, &signed);
        prop_assert_eq!(view.signature_value, &signature);
        prop_assert_eq!(view.signature_info().unwrap().key_name().map(|n| n.to_name()), info.key_name);
    }

    #[test]
    fn a_truncated_data_is_refused(content in prop::collection::vec(any::<u8>(), 0..20)) {
        let wire = DataBuilder::new(name("/a/b").as_name())
            .freshness_ms(1)
            .build(&content, &SignatureInfo::digest_sha256())
            .finish(&[0; 32]);
        for length in 0..wire.len() {
            prop_assert!(DataView::parse(&wire[..length]).is_err());
        }
        let longer = [&wire[..], &[6, 0]].concat();
        prop_assert_eq!(DataView::parse(&longer), Err(DecodeError::TrailingOctets));
    }

    #[test]
    fn a_flipped_data_octet_is_safe(at: prop::sample::Index, to: u8) {
        let mut wire = data(&[&META[..], &BODY, &INFO, &VALUE].concat());
        let at = at.index(wire.len());
        wire[at] = to;
        if let Ok(view) = DataView::parse(&wire) {
            prop_assert!(view.signature_info().is_ok());
        }
    }
}
