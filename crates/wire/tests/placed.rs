//! Packets that are written into a given buffer: the same octets as those of the builders, and
//! buffers that are too short.

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    Component, DataBuilder, DecodeError, InterestBuilder, Name, PlacedData, PlacedInterest, PlacedName,
    SignatureInfo, SignatureOctets, SignatureType,
};
use proptest::prelude::*;

fn digest(octets: &[u8]) -> [u8; 32] {
    let sum = octets.iter().fold(7u64, |sum, octet| sum.wrapping_mul(31).wrapping_add(u64::from(*octet)));
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&sum.to_le_bytes());
    digest
}

fn name(components: &[Vec<u8>]) -> Name {
    components.iter().fold(Name::new(), |name, value| name.join_generic(value))
}

fn component_of(segment: u64) -> Vec<u8> {
    let name = Name::new().join_segment(segment);
    name.components().next().expect("one component").value.to_vec()
}

/// A buffer with the content behind `head` octets, and `tail` octets behind it.
fn space(head: usize, content: &[u8], tail: usize) -> Vec<u8> {
    [&vec![0xee; head], content, &vec![0xee; tail]].concat()
}

proptest! {
    #[test]
    fn a_placed_data_matches_the_builder(
        components in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
        content in prop::collection::vec(any::<u8>(), 0..600),
        segment in prop::option::of(any::<u64>()), last in prop::option::of(0u64..70_000),
        freshness_ms in prop_oneof![Just(0u64), any::<u64>()], signature in prop::option::of(0usize..300),
    ) {
        let prefix = name(&components);
        let whole = segment.map_or(prefix.clone(), |segment| prefix.join_segment(segment));
        let last_value = last.map(component_of);
        let mut builder = DataBuilder::new(whole.as_name()).freshness_ms(freshness_ms);
        if let Some(value) = &last_value {
            builder = builder.final_block_id(Component { typ: SEGMENT_COMPONENT, value });
        }
        let mut w = Writer::new();
        let info = match signature {
            Some(octets) => {
                let info = SignatureInfo::new(SignatureType::HmacWithSha256, Some(prefix.clone()));
                info.encode(SIGNATURE_INFO, &mut w);
                w.tlv(SIGNATURE_VALUE, &vec![9; octets]);
                info
            }
            None => SignatureInfo::digest_sha256(),
        };
        let given = w.into_vec();
        let unsigned = builder.build(&content, &info);
        let value = match signature {
            Some(octets) => vec![9; octets],
            None => digest(unsigned.signed_portion()).to_vec(),
        };
        let expected = unsigned.finish(&value);
        let data = PlacedData {
            name: PlacedName { prefix: prefix.as_name(), segment },
            freshness_ms,
            last_segment: last,
            signature: signature.map(|_| SignatureOctets::parse(&given).expect("two elements")),
        };
        let beside = PlacedData::OVERHEAD_OCTETS_MAX + prefix.as_bytes().len() + given.len();
        prop_assert!(expected.len() <= content.len() + beside);

        let mut buffer = space(beside, &content, beside);
        let range = data.write(&mut buffer, beside..beside + content.len(), digest).expect("room");
        prop_assert_eq!(&buffer[range.clone()], &expected);

        // A buffer of exactly the needed size, and one octet less on either side.
        let (head, tail) = (beside - range.start, range.end - beside - content.len());
        let mut exact = space(head, &content, tail);
        prop_assert_eq!(data.write(&mut exact, head..head + content.len(), digest), Some(0..expected.len()));
        let mut short = space(head - 1, &content, tail);
        prop_assert_eq!(data.write(&mut short, head - 1..head - 1 + content.len(), digest), None);
        let mut short = space(head, &content, tail - 1);
        prop_assert_eq!(data.write(&mut short, head..head + content.len(), digest), None);
    }

    #[test]
    fn a_placed_interest_matches_the_builder(
        components in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
        segment in prop::option::of(any::<u64>()), can_be_prefix: bool, must_be_fresh: bool,
        nonce: [u8; 4], lifetime_ms: u64,
    ) {
        let prefix = name(&components);
        let whole = segment.map_or(prefix.clone(), |segment| prefix.join_segment(segment));
        let mut builder = InterestBuilder::new(whole).nonce(nonce).lifetime_ms(lifetime_ms);
        if can_be_prefix {
            builder = builder.can_be_prefix();
        }
        if must_be_fresh {
            builder = builder.must_be_fresh();
        }
        let name = PlacedName { prefix: prefix.as_name(), segment };
        let interest = PlacedInterest { name, can_be_prefix, must_be_fresh, nonce, lifetime_ms };
        let mut octets = vec![0; interest.octets()];
        interest.write(&mut octets);
        prop_assert_eq!(octets, builder.build());
    }

    #[test]
    fn malformed_signatures_are_refused(octets in prop::collection::vec(any::<u8>(), 0..60)) {
        // Nothing panics, and accepted octets are the two elements.
        if let Ok(given) = SignatureOctets::parse(&octets) {
            prop_assert_eq!(octets[0], SIGNATURE_INFO as u8, "{:?}", given);
        }
    }
}

#[test]
fn a_signature_is_info_and_value() {
    let info = [22, 3, 27, 1, 4];
    let value = [23, 2, 1, 2];
    assert!(SignatureOctets::parse(&[&info[..], &value].concat()).is_ok());
    let refused = |octets: &[u8]| SignatureOctets::parse(octets).expect_err("no signature");
    assert_eq!(refused(&info), DecodeError::Missing(SIGNATURE_VALUE));
    assert_eq!(refused(&value), DecodeError::Missing(SIGNATURE_INFO));
    assert_eq!(refused(&[&value[..], &info].concat()), DecodeError::Missing(SIGNATURE_INFO));
    assert_eq!(refused(&[&info[..], &value, &value].concat()), DecodeError::TrailingOctets);
}
