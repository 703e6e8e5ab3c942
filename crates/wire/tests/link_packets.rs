//! NDNLPv2: known octets of every field, tokens of every length, order and repetition, unknown
//! fields, sizes.

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    CACHE_POLICY_NO_CACHE, DataBuilder, DataView, DecodeError, InterestBuilder, LP_PACKET_OCTETS_MAX,
    LpFraming, LpHeaders, LpView, NackReason, Name, PACKET_OCTETS_MAX, PIT_TOKEN_OCTETS_MAX, PitToken,
    SignatureInfo, encode_lp_announced_header, encode_lp_announcement, encode_lp_header, encode_lp_packet,
};
use proptest::prelude::*;

/// A link packet with these octets inside.
fn lp(fields: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.tlv(LP_PACKET, fields);
    w.into_vec()
}

fn refused(fields: &[u8]) -> DecodeError {
    LpView::parse(&lp(fields)).unwrap_err()
}

fn all_headers() -> LpHeaders {
    LpHeaders {
        pit_token: PitToken::new(&[0xab, 0xcd]),
        nack: Some(NackReason::NoRoute),
        incoming_face_id: Some(300),
        next_hop_face_id: Some(1),
        cache_policy: Some(CACHE_POLICY_NO_CACHE),
        congestion_mark: Some(1),
        non_discovery: true,
    }
}

#[test]
fn every_link_field_matches_the_protocol() {
    let framing = LpFraming {
        sequence: Some(0x0102),
        frag_index: 1,
        frag_count: 3,
        tx_sequence: Some(7),
        acks: &[5, 6],
        padding_octets: 0,
    };
    let mut wire = Vec::new();
    encode_lp_header(&all_headers(), &framing, Some(&[6, 0]), Some(2), &mut wire);
    wire.extend([5, 0]);
    let by_hand = [
        &[81, 8, 0, 0, 0, 0, 0, 0, 1, 2, 82, 1, 1, 83, 1, 3, 98, 2, 0xab, 0xcd][..],
        &[253, 3, 32, 5, 253, 3, 33, 1, 150],
        &[253, 3, 44, 2, 1, 44],
        &[253, 3, 48, 1, 1],
        &[253, 3, 52, 5, 253, 3, 53, 1, 1],
        &[253, 3, 64, 1, 1],
        &[253, 3, 68, 8, 0, 0, 0, 0, 0, 0, 0, 5],
        &[253, 3, 68, 8, 0, 0, 0, 0, 0, 0, 0, 6],
        &[253, 3, 72, 8, 0, 0, 0, 0, 0, 0, 0, 7],
        &[253, 3, 76, 0],
        &[253, 3, 80, 2, 6, 0],
        &[80, 2, 5, 0],
    ]
    .concat();
    assert_eq!(wire, lp(&by_hand));

    let view = LpView::parse(&wire).unwrap();
    assert_eq!(view.headers, all_headers());
    assert_eq!((view.sequence, view.frag_index, view.frag_count), (Some(0x0102), 1, 3));
    assert_eq!((view.tx_sequence, view.acks().collect::<Vec<_>>()), (Some(7), vec![5, 6]));
    assert_eq!(view.prefix_announcement, Some(&[6, 0][..]));
    assert_eq!(view.fragment, Some(&[5, 0][..]));
}

#[test]
fn a_bare_packet_parses_without_headers() {
    for wire in [&[5, 0][..], &[6, 0]] {
        let view = LpView::parse(wire).unwrap();
        assert_eq!((view.headers, view.fragment), (LpHeaders::default(), Some(wire)));
        assert_eq!((view.sequence, view.frag_index, view.frag_count), (None, 0, 1));
        assert_eq!(view.acks().count(), 0);
        assert_eq!(encode_lp_packet(&LpHeaders::default(), wire), wire);
    }
    assert_eq!(LpView::parse(&[7, 0]), Err(DecodeError::UnexpectedType(7)));
    assert_eq!(LpView::parse(&[5, 0, 5, 0]), Err(DecodeError::TrailingOctets));
    assert_eq!(LpView::parse(&[]), Err(DecodeError::Truncated));
}

#[test]
fn a_packet_without_fragment_is_idle() {
    let view = LpView::parse(&[100, 0]);
    assert_eq!(view.map(|v| v.fragment), Ok(None));
    let mut wire = Vec::new();
    let framing = LpFraming { acks: &[1], ..Default::default() };
    encode_lp_header(&LpHeaders::default(), &framing, None, None, &mut wire);
    let view = LpView::parse(&wire).unwrap();
    assert_eq!((view.fragment, view.acks().collect::<Vec<_>>()), (None, vec![1]));
    // An empty Fragment is something else: a fragment of no octets.
    let empty = lp(&[80, 0]);
    assert_eq!(LpView::parse(&empty).unwrap().fragment, Some(&[][..]));
}

#[test]
fn pit_tokens_have_1_to_32_octets() {
    for length in 0..=34u8 {
        let fields = [vec![98, length], vec![9; usize::from(length)], vec![80, 2, 5, 0]].concat();
        let wire = lp(&fields);
        let token = LpView::parse(&wire).map(|v| v.headers.pit_token.unwrap().as_bytes().to_vec());
        if (1..=32).contains(&length) {
            assert_eq!(token, Ok(vec![9; usize::from(length)]));
            let headers = LpHeaders {
                pit_token: PitToken::new(&fields[2..2 + usize::from(length)]),
                ..Default::default()
            };
            assert_eq!(encode_lp_packet(&headers, &[5, 0]), wire);
        } else {
            assert_eq!(token, Err(DecodeError::BadLength(LP_PIT_TOKEN)));
        }
    }
    assert_eq!(PIT_TOKEN_OCTETS_MAX, 32);
    assert_eq!(PitToken::new(&[]), None);
    assert_eq!(PitToken::new(&[0; 33]), None);
    assert_ne!(PitToken::new(&[0; 4]), PitToken::new(&[0; 5]), "length is part of a token");
}

#[test]
fn nack_reasons_keep_their_numbers() {
    let nack = |fields: &[u8]| LpView::parse(&lp(&[fields, &[80, 2, 5, 0]].concat())).map(|v| v.headers.nack);
    assert_eq!(nack(&[253, 3, 32, 0]), Ok(Some(NackReason::None)));
    assert_eq!(nack(&[253, 3, 32, 5, 253, 3, 33, 1, 50]), Ok(Some(NackReason::Congestion)));
    assert_eq!(nack(&[253, 3, 32, 5, 253, 3, 33, 1, 100]), Ok(Some(NackReason::Duplicate)));
    assert_eq!(nack(&[253, 3, 32, 5, 253, 3, 33, 1, 7]), Ok(Some(NackReason::Other(7))));
    assert_eq!(nack(&[253, 3, 32, 4, 253, 3, 33, 0]), Err(DecodeError::BadInteger));
    assert_eq!(nack(&[253, 3, 32, 2, 201, 0]), Err(DecodeError::UnknownCritical(201)));
    assert_eq!(refused(&[253, 3, 32, 0]), DecodeError::Missing(LP_FRAGMENT));
    for n in [0, 50, 100, 150, 151] {
        assert_eq!(NackReason::from_number(n).number(), n);
    }
}

#[test]
fn the_fragment_field_must_be_last() {
    let wire = lp(&[253, 3, 64, 1, 1, 98, 1, 7, 80, 2, 5, 0]);
    let headers = LpView::parse(&wire).unwrap().headers;
    assert_eq!((headers.congestion_mark, headers.pit_token), (Some(1), PitToken::new(&[7])));
    for after in [&[98, 1, 7][..], &[80, 0], &[253, 3, 84, 0], &[200, 0]] {
        let typ = namely_wire::tlv::read_tlv(after).unwrap().typ;
        assert_eq!(refused(&[&[80, 2, 5, 0], after].concat()), DecodeError::UnknownCritical(typ));
    }
}

#[test]
fn only_acks_repeat() {
    let ack = [253, 3, 68, 8, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(LpView::parse(&lp(&ack.repeat(3))).unwrap().acks().collect::<Vec<_>>(), [1, 1, 1]);
    for field in [
        &[81, 8, 0, 0, 0, 0, 0, 0, 0, 1][..],
        &[82, 1, 0],
        &[83, 1, 1],
        &[98, 1, 1],
        &[253, 3, 32, 0],
        &[253, 3, 44, 1, 1],
        &[253, 3, 48, 1, 1],
        &[253, 3, 52, 5, 253, 3, 53, 1, 1],
        &[253, 3, 64, 1, 1],
        &[253, 3, 72, 8, 0, 0, 0, 0, 0, 0, 0, 1],
        &[253, 3, 76, 0],
        &[253, 3, 80, 0],
    ] {
        let typ = namely_wire::tlv::read_tlv(field).unwrap().typ;
        assert!(LpView::parse(&lp(&[field, &[80, 2, 5, 0]].concat())).is_ok(), "{typ}");
        assert_eq!(refused(&[field, field, &[80, 2, 5, 0]].concat()), DecodeError::Repeated(typ));
    }
}

#[test]
fn unknown_fields_in_range_are_ignored() {
    let with = |typ: u32| {
        let mut w = Writer::new();
        w.tlv(typ, &[1]).raw(&[80, 2, 5, 0]);
        LpView::parse(&lp(w.as_bytes())).map(|v| v.fragment.map(<[u8]>::to_vec))
    };
    for typ in [804, 808, 852, 956] {
        assert_eq!(with(typ), Ok(Some(vec![5, 0])), "{typ}");
    }
    for typ in [1, 84, 96, 200, 796, 802, 803, 806, 850, 957, 958, 959, 960, 1000, 65_536] {
        assert_eq!(with(typ), Err(DecodeError::UnknownCritical(typ)));
    }
}

#[test]
fn wrong_sized_link_fields_are_refused() {
    assert_eq!(refused(&[81, 4, 0, 0, 0, 1]), DecodeError::BadLength(LP_SEQUENCE));
    assert_eq!(refused(&[253, 3, 68, 1, 1]), DecodeError::BadLength(LP_ACK));
    assert_eq!(refused(&[253, 3, 72, 0]), DecodeError::BadLength(LP_TX_SEQUENCE));
    assert_eq!(refused(&[253, 3, 76, 1, 0]), DecodeError::BadLength(LP_NON_DISCOVERY));
    assert_eq!(refused(&[82, 0]), DecodeError::BadInteger);
    assert_eq!(refused(&[253, 3, 44, 3, 0, 0, 1]), DecodeError::BadInteger);
    assert_eq!(refused(&[253, 3, 52, 0]), DecodeError::Missing(LP_CACHE_POLICY_TYPE));
    assert_eq!(refused(&[253, 3, 52, 4, 253, 3, 53, 0]), DecodeError::BadInteger);
}

#[test]
fn a_zero_mark_means_no_congestion() {
    let marked = |congestion_mark| LpHeaders { congestion_mark, ..Default::default() }.is_marked();
    assert_eq!([None, Some(0), Some(1), Some(u64::MAX)].map(marked), [false, false, true, true]);
}

#[test]
fn the_largest_data_fits_with_every_header() {
    let name: Name = "/a".parse().unwrap();
    let build = |n: usize| {
        DataBuilder::new(name.as_name()).build(&vec![7; n], &SignatureInfo::digest_sha256()).finish(&[0; 32])
    };
    let data = build(PACKET_OCTETS_MAX - (build(8000).len() - 8000));
    assert_eq!(data.len(), 8800);
    let headers = LpHeaders {
        pit_token: PitToken::new(&[1; 32]),
        nack: Some(NackReason::Other(u64::MAX)),
        incoming_face_id: Some(u64::MAX),
        next_hop_face_id: Some(u64::MAX),
        cache_policy: Some(u64::MAX),
        congestion_mark: Some(u64::MAX),
        non_discovery: true,
    };
    let framing = LpFraming { sequence: Some(1), tx_sequence: Some(1), acks: &[0; 16], ..Default::default() };
    let mut wire = Vec::new();
    encode_lp_header(&headers, &framing, None, Some(data.len()), &mut wire);
    wire.extend(&data);
    assert!(wire.len() > PACKET_OCTETS_MAX && wire.len() <= LP_PACKET_OCTETS_MAX, "{}", wire.len());
    let view = LpView::parse(&wire).unwrap();
    assert_eq!(view.headers, headers);
    assert_eq!(DataView::parse(view.fragment.unwrap()).unwrap().content.len(), data.len() - 52);
}

prop_compose! {
    fn any_headers()(
        token in prop::option::of(prop::collection::vec(any::<u8>(), 1..=32)),
        nack: Option<u64>,
        incoming_face_id: Option<u64>,
        next_hop_face_id: Option<u64>,
        cache_policy: Option<u64>,
        congestion_mark: Option<u64>,
        non_discovery: bool,
    ) -> LpHeaders {
        LpHeaders {
            pit_token: token.and_then(|t| PitToken::new(&t)),
            nack: nack.map(NackReason::from_number),
            incoming_face_id, next_hop_face_id, cache_policy, congestion_mark, non_discovery,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn headers_survive_a_round_trip(headers in any_headers(), content in prop::collection::vec(any::<u8>(), 0..300)) {
        let interest = InterestBuilder::new(Name::new().join_generic(content)).build();
        let wire = encode_lp_packet(&headers, &interest);
        let view = LpView::parse(&wire).unwrap();
        prop_assert_eq!(view.headers, headers);
        prop_assert_eq!(view.fragment, Some(&interest[..]));
        prop_assert_eq!(wire == interest, headers.is_empty());
    }

    #[test]
    fn framing_survives_a_round_trip(
        headers in any_headers(),
        sequence: Option<u64>,
        frag_index: u64,
        frag_count in 1u64..,
        tx_sequence: Option<u64>,
        acks in prop::collection::vec(any::<u64>(), 0..5),
        announcement: Option<[u8; 4]>,
        fragment in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let framing = LpFraming { sequence, frag_index, frag_count, tx_sequence, acks: &acks, padding_octets: 0 };
        let mut wire = vec![];
        let announcement = announcement.as_ref().map(|a| &a[..]);
        encode_lp_header(&headers, &framing, announcement, Some(fragment.len()), &mut wire);
        wire.extend(&fragment);
        if let Some(announcement) = announcement {
            let (mut in_parts, mut behind) = (vec![], vec![]);
            encode_lp_announcement(announcement, fragment.len(), &mut behind);
            behind.extend(&fragment);
            encode_lp_announced_header(&headers, &framing, behind.len(), &mut in_parts);
            in_parts.extend(&behind);
            prop_assert_eq!(&in_parts, &wire);
        }
        let view = LpView::parse(&wire).unwrap();
        prop_assert_eq!(view.headers, headers);
        prop_assert_eq!(view.fragment, Some(&fragment[..]));
        prop_assert_eq!(view.fragment_range(), Some(wire.len() - fragment.len()..wire.len()));
        prop_assert_eq!(view.prefix_announcement, announcement);
        let seen = LpFraming {
            sequence: view.sequence,
            frag_index: view.frag_index,
            frag_count: view.frag_count,
            tx_sequence: view.tx_sequence,
            acks: &view.acks().collect::<Vec<_>>(),
            padding_octets: 0,
        };
        prop_assert_eq!(seen, framing);
        for length in 0..wire.len() {
            prop_assert!(LpView::parse(&wire[..length]).is_err());
        }
    }
}

#[test]
fn padding_lengthens_a_link_packet() {
    let encode = |padding_octets| {
        let framing = LpFraming { sequence: Some(1), frag_count: 2, padding_octets, ..Default::default() };
        let mut wire = Vec::new();
        encode_lp_header(&LpHeaders::default(), &framing, None, Some(300), &mut wire);
        wire.extend([7; 300]);
        wire
    };
    let bare = encode(0);
    for octets in [4, 5, 100, 256] {
        let wire = encode(octets);
        assert_eq!(wire.len(), bare.len() + octets);
        let view = LpView::parse(&wire).unwrap();
        assert_eq!((view.sequence, view.frag_count, view.fragment), (Some(1), 2, Some(&[7; 300][..])));
    }
    assert_eq!(&encode(5)[4..], [&bare[4..17], &[253, 3, 188, 1, 0], &bare[17..]].concat());
}
