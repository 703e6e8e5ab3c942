//! Interests: known encodings, the evolvability rules, the portions that the signature and the
//! parameters digest cover, and added Nonces.

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    AmendedInterest, Component, DecodeError, InterestBuilder, InterestView, KeyLocator, Name, SignatureInfo,
    SignatureType,
};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// An Interest for `/a` with these elements after its name.
fn interest(elements: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    w.nested(INTEREST, |w| {
        w.raw(&[7, 3, 8, 1, b'a']).raw(elements);
    });
    w.into_vec()
}

fn amended(interest: &InterestView<'_>, nonce: Option<[u8; 4]>, keeps_hint: bool) -> Vec<u8> {
    let amended = AmendedInterest::new(interest, nonce, keeps_hint);
    let mut octets = vec![0; amended.octets()];
    amended.write(&mut octets);
    octets
}

fn with_nonce(interest: &InterestView<'_>, nonce: [u8; 4]) -> Vec<u8> {
    amended(interest, Some(nonce), true)
}

fn refused(wire: &[u8]) -> DecodeError {
    InterestView::parse(wire).unwrap_err()
}

/// Each element once, in order, except parameters and signature; then an unknown non-critical one.
const ALL: [u8; 27] =
    [33, 0, 18, 0, 30, 5, 7, 3, 8, 1, b'h', 10, 4, 1, 2, 3, 4, 12, 2, 0x0f, 0xa0, 34, 1, 64, 200, 1, 9];

#[test]
fn an_interest_matches_the_specification() {
    let built = InterestBuilder::new(name("/a"))
        .can_be_prefix()
        .must_be_fresh()
        .forwarding_hint(name("/h"))
        .nonce([1, 2, 3, 4])
        .lifetime_ms(4000)
        .hop_limit(64)
        .build();
    assert_eq!(built, interest(&ALL[..24]));
    let view = InterestView::parse(&built).unwrap();
    assert_eq!(view.wire, built);
    assert_eq!(view.name, name("/a").as_name());
    assert!(view.can_be_prefix && view.must_be_fresh);
    assert_eq!(view.forwarding_hint().collect::<Vec<_>>(), [name("/h").as_name()]);
    assert_eq!(view.nonce, Some([1, 2, 3, 4]));
    assert_eq!((view.lifetime_ms, view.lifetime_or_default_ms()), (Some(4000), 4000));
    assert_eq!(view.hop_limit, Some(64));
    assert_eq!(built[view.hop_limit_offset], 64);
    assert_eq!(&built[..view.name_end], &[5, 29, 7, 3, 8, 1, b'a']);
}

#[test]
fn a_bare_interest_has_the_defaults() {
    let wire = interest(&[]);
    let view = InterestView::parse(&wire).unwrap();
    assert!(!view.can_be_prefix && !view.must_be_fresh);
    assert_eq!((view.nonce, view.hop_limit, view.application_parameters), (None, None, None));
    assert_eq!(view.lifetime_or_default_ms(), 4000);
    assert_eq!(view.forwarding_hint().count(), 0);
    assert_eq!(view.signature_info(), Ok(None));
    assert_eq!((view.implicit_digest(), view.parameters_digest()), (None, None));
}

#[test]
fn unknown_interest_elements_follow_evolvability_rules() {
    let positions = [0, 2, 4, 11, 17, 21, 24];
    for at in positions {
        let with = |element: &[u8]| interest(&[&ALL[..at], element, &ALL[at..]].concat());
        let plain = interest(&ALL);
        let view = InterestView::parse(&plain).unwrap();
        for ignored in [&[32, 0][..], &[200, 2, 7, 7], &[253, 0x40, 0, 0]] {
            let wire = with(ignored);
            let seen = InterestView::parse(&wire).unwrap();
            assert_eq!(seen.nonce, view.nonce);
            assert_eq!((seen.can_be_prefix, seen.must_be_fresh), (view.can_be_prefix, view.must_be_fresh));
            assert_eq!((seen.lifetime_ms, seen.hop_limit), (view.lifetime_ms, view.hop_limit));
            assert_eq!(wire[seen.hop_limit_offset], 64);
        }
        for (critical, typ) in
            [(&[31, 0][..], 31), (&[201, 0], 201), (&[2, 0], 2), (&[253, 0x40, 1, 0], 0x4001)]
        {
            assert_eq!(refused(&with(critical)), DecodeError::UnknownCritical(typ));
        }
    }
}

#[test]
fn nothing_may_precede_the_name() {
    for octets in [&[5, 7, 200, 0, 7, 3, 8, 1, b'a'][..], &[5, 2, 33, 0], &[5, 0]] {
        assert_eq!(refused(octets), DecodeError::Missing(NAME));
    }
    assert_eq!(refused(&[5, 2, 7, 0]), DecodeError::EmptyName);
}

#[test]
fn misordered_critical_elements_are_refused() {
    assert_eq!(refused(&interest(&[18, 0, 33, 0])), DecodeError::UnknownCritical(33));
    assert_eq!(refused(&interest(&[33, 0, 33, 0])), DecodeError::UnknownCritical(33));
    assert_eq!(refused(&interest(&[12, 1, 9, 10, 4, 0, 0, 0, 0])), DecodeError::UnknownCritical(10));
    assert_eq!(refused(&interest(&[7, 3, 8, 1, b'b'])), DecodeError::UnknownCritical(7));
    // HopLimit, TYPE 34, is not critical: a second one is ignored.
    let wire = interest(&[34, 1, 5, 34, 1, 9]);
    let view = InterestView::parse(&wire).unwrap();
    assert_eq!((view.hop_limit, wire[view.hop_limit_offset]), (Some(5), 5));
}

#[test]
fn wrong_sized_interest_elements_are_refused() {
    assert_eq!(refused(&interest(&[33, 1, 0])), DecodeError::BadLength(CAN_BE_PREFIX));
    assert_eq!(refused(&interest(&[18, 1, 0])), DecodeError::BadLength(MUST_BE_FRESH));
    assert_eq!(refused(&interest(&[10, 3, 0, 0, 0])), DecodeError::BadLength(NONCE));
    assert_eq!(refused(&interest(&[10, 5, 0, 0, 0, 0, 0])), DecodeError::BadLength(NONCE));
    assert_eq!(refused(&interest(&[12, 3, 0, 0, 0])), DecodeError::BadInteger);
    assert_eq!(refused(&interest(&[12, 0])), DecodeError::BadInteger);
    assert_eq!(refused(&interest(&[34, 0])), DecodeError::BadLength(HOP_LIMIT));
    assert_eq!(refused(&interest(&[34, 2, 0, 1])), DecodeError::BadLength(HOP_LIMIT));
    assert_eq!(refused(&interest(&[30, 0])), DecodeError::Missing(NAME));
    assert_eq!(refused(&interest(&[30, 2, 200, 0])), DecodeError::Missing(NAME));
    assert_eq!(refused(&interest(&[30, 2, 31, 0])), DecodeError::UnknownCritical(31));
}

#[test]
fn a_forwarding_hint_keeps_its_order() {
    let wire = interest(&[30, 12, 7, 3, 8, 1, b'y', 200, 0, 7, 3, 8, 1, b'x']);
    let view = InterestView::parse(&wire).unwrap();
    let names: Vec<_> = view.forwarding_hint().map(|n| n.to_string()).collect();
    assert_eq!(names, ["/y", "/x"]);
}

#[test]
fn parameters_need_their_digest() {
    assert_eq!(refused(&interest(&[36, 0])), DecodeError::MissingParametersDigest);
    let mut covered = Vec::new();
    let wire = InterestBuilder::new(name("/a")).nonce([9; 4]).build_with_parameters(b"xy", |octets| {
        covered = octets.to_vec();
        [7; 32]
    });
    assert_eq!(covered, [36, 2, b'x', b'y']);
    let view = InterestView::parse(&wire).unwrap();
    assert_eq!(view.name.to_string(), format!("/a/params-sha256={}", "07".repeat(32)));
    assert_eq!(view.application_parameters, Some(&b"xy"[..]));
    assert_eq!(view.parameters_portion, covered);
    assert_eq!(view.parameters_digest(), Some(&[7u8; 32][..]));
    assert_eq!(view.signed_name(), [8, 1, b'a']);
}

#[test]
fn signatures_cover_the_specified_interest_portions() {
    let info = SignatureInfo {
        nonce: Some([1; 8]),
        time_ms: Some(1_700_000_000_000),
        seq_num: Some(5),
        ..SignatureInfo::new(SignatureType::HmacWithSha256, Some(name("/k")))
    };
    let (mut signed, mut digested) = (Vec::new(), Vec::new());
    // The new parameters digest replaces an older one in the name.
    let old =
        name("/a").join(Component { typ: PARAMETERS_DIGEST_COMPONENT, value: &[1; 32] }).join_generic("b");
    let wire = InterestBuilder::new(old)
        .build_signed(
            &[],
            &info,
            |parts| {
                signed = parts.concat();
                Ok::<_, ()>(vec![0xee; 32])
            },
            |octets| {
                digested = octets.to_vec();
                [2; 32]
            },
        )
        .unwrap();
    let signed_by_hand = [
        &[8, 1, b'a', 8, 1, b'b', 36, 0, 44, 33, 27, 1, 4, 28, 5, 7, 3, 8, 1, b'k'][..],
        &[38, 8, 1, 1, 1, 1, 1, 1, 1, 1],
        &[40, 8, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0],
        &[42, 1, 5],
    ]
    .concat();
    assert_eq!(signed, signed_by_hand);
    let digested_by_hand = [&signed_by_hand[6..], &[46, 32], &[0xee; 32]].concat();
    assert_eq!(digested, digested_by_hand);

    let view = InterestView::parse(&wire).unwrap();
    assert_eq!([view.signed_name(), view.signed_parameters].concat(), signed);
    assert_eq!(view.parameters_portion, digested);
    assert_eq!(view.signature_value, Some(&[0xee; 32][..]));
    assert!(view.name.last().unwrap().is_parameters_digest());
    let seen = view.signature_info().unwrap().unwrap();
    assert_eq!(seen.signature_type, SignatureType::HmacWithSha256);
    assert_eq!(seen.key_locator, Some(KeyLocator::Name(name("/k").as_name())));
    assert_eq!((seen.nonce, seen.time_ms, seen.seq_num), (Some(&[1u8; 8][..]), info.time_ms, info.seq_num));
}

#[test]
fn unknown_elements_before_the_signature_are_signed() {
    let mut w = Writer::new();
    w.nested(INTEREST, |w| {
        w.nested(NAME, |w| {
            w.tlv(8, b"a").tlv(2, &[0; 32]);
        });
        w.raw(&[36, 0, 200, 1, 1, 44, 3, 27, 1, 0, 202, 0, 46, 1, 9, 204, 0]);
    });
    let view = InterestView::parse(w.as_bytes()).unwrap();
    assert_eq!(view.signed_parameters, [36, 0, 200, 1, 1, 44, 3, 27, 1, 0, 202, 0]);
    assert_eq!(view.parameters_portion, [36, 0, 200, 1, 1, 44, 3, 27, 1, 0, 202, 0, 46, 1, 9, 204, 0]);
}

#[test]
fn only_a_trailing_implicit_digest_counts() {
    let digest = Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &[3; 32] };
    let last = InterestBuilder::new(name("/a").join(digest)).build();
    assert_eq!(InterestView::parse(&last).unwrap().implicit_digest(), Some(&[3u8; 32][..]));
    let inside = InterestBuilder::new(name("/a").join(digest).join_generic("b")).build();
    assert_eq!(InterestView::parse(&inside).unwrap().implicit_digest(), None);
}

#[test]
fn a_missing_nonce_goes_in_its_place() {
    for at in [0, 2, 4, 11] {
        let without = interest(&[&ALL[..at], &ALL[17..]].concat());
        let put = with_nonce(&InterestView::parse(&without).unwrap(), [1, 2, 3, 4]);
        assert_eq!(put, interest(&[&ALL[..at], &ALL[11..]].concat()));
    }
}

#[test]
fn a_missing_nonce_follows_unknown_elements() {
    for (before, after) in [
        (&[200, 0, 33, 0][..], &[12, 1, 9][..]),
        (&[33, 0, 200, 0, 18, 0, 202, 1, 1, 30, 5, 7, 3, 8, 1, b'h'], &[204, 0]),
        (&[200, 0, 33, 0], &[34, 1, 1]),
    ] {
        let without = interest(&[before, after].concat());
        let view = InterestView::parse(&without).unwrap();
        let put = with_nonce(&view, [1, 2, 3, 4]);
        let seen = InterestView::parse(&put).unwrap();
        assert_eq!(seen.nonce, Some([1, 2, 3, 4]));
        assert_eq!((seen.can_be_prefix, seen.must_be_fresh), (view.can_be_prefix, view.must_be_fresh));
        assert_eq!((seen.lifetime_ms, seen.hop_limit), (view.lifetime_ms, view.hop_limit));
    }
}

#[test]
fn a_nonce_may_widen_the_length() {
    // The VALUE grows from 247 to 253 octets, so its LENGTH takes three octets instead of one.
    let filler = [vec![200, 240], vec![0; 240]].concat();
    let without = interest(&filler);
    assert_eq!(without[1], 247);
    let put = with_nonce(&InterestView::parse(&without).unwrap(), [7; 4]);
    assert_eq!(put[..4], [5, 253, 0, 253]);
    assert_eq!(InterestView::parse(&put).unwrap().nonce, Some([7; 4]));
}

#[test]
fn a_hint_is_removed_from_an_interest() {
    let hint = &ALL[4..11];
    assert_eq!(hint[0], 30);
    let whole = interest(&ALL);
    let view = InterestView::parse(&whole).unwrap();
    assert_eq!(amended(&view, None, true), whole);
    assert_eq!(amended(&view, None, false), interest(&[&ALL[..4], &ALL[11..]].concat()));
    // The Interest lacks a Nonce, and unknown elements surround the hint.
    for (before, after) in
        [(&[][..], &[][..]), (&[200, 0], &[]), (&[], &[202, 1, 1]), (&[200, 0], &[202, 1, 1])]
    {
        let without = interest(&[&ALL[..4], before, hint, after, &ALL[17..]].concat());
        let view = InterestView::parse(&without).unwrap();
        let expected = [&ALL[..4], &ALL[11..17], before, after, &ALL[17..]].concat();
        assert_eq!(amended(&view, Some([1, 2, 3, 4]), false), interest(&expected));
        let expected = [&ALL[..4], before, &ALL[4..17], after, &ALL[17..]].concat();
        assert_eq!(amended(&view, Some([1, 2, 3, 4]), true), interest(&expected));
    }
}

prop_compose! {
    fn any_builder()(
        parts in prop::collection::vec("[a-z]{0,8}", 1..5),
        can_be_prefix: bool,
        must_be_fresh: bool,
        hints in prop::collection::vec("[a-z]{1,8}", 0..3),
        nonce: Option<[u8; 4]>,
        lifetime_ms: Option<u64>,
        hop_limit: Option<u8>,
    ) -> (InterestBuilder, Name) {
        let mut target = Name::new();
        parts.iter().for_each(|p| {
            target.push(Component::generic(p.as_bytes()));
        });
        let mut builder = InterestBuilder::new(target.clone());
        if can_be_prefix {
            builder = builder.can_be_prefix();
        }
        if must_be_fresh {
            builder = builder.must_be_fresh();
        }
        for hint in &hints {
            builder = builder.forwarding_hint(Name::new().join_generic(hint));
        }
        if let Some(nonce) = nonce {
            builder = builder.nonce(nonce);
        }
        if let Some(lifetime_ms) = lifetime_ms {
            builder = builder.lifetime_ms(lifetime_ms);
        }
        if let Some(hop_limit) = hop_limit {
            builder = builder.hop_limit(hop_limit);
        }
        (builder, target)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_built_interest_is_read_back((builder, target) in any_builder()) {
        let wire = builder.build();
        let view = InterestView::parse(&wire).unwrap();
        prop_assert_eq!(view.name, target.as_name());
        let mut again = InterestBuilder::new(target.clone());
        if view.can_be_prefix { again = again.can_be_prefix(); }
        if view.must_be_fresh { again = again.must_be_fresh(); }
        for hint in view.forwarding_hint() { again = again.forwarding_hint(hint.to_name()); }
        if let Some(nonce) = view.nonce { again = again.nonce(nonce); }
        if let Some(lifetime_ms) = view.lifetime_ms { again = again.lifetime_ms(lifetime_ms); }
        if let Some(hop_limit) = view.hop_limit { again = again.hop_limit(hop_limit); }
        prop_assert_eq!(again.build(), wire);
    }

    #[test]
    fn a_truncated_interest_is_refused((builder, _) in any_builder()) {
        let wire = builder.build_with_parameters(b"p", |_| [0; 32]);
        for length in 0..wire.len() {
            prop_assert!(InterestView::parse(&wire[..length]).is_err());
        }
        let longer = [&wire[..], &[0]].concat();
        prop_assert_eq!(InterestView::parse(&longer), Err(DecodeError::TrailingOctets));
    }

    #[test]
    fn a_flipped_interest_octet_is_safe((builder, _) in any_builder(), at: prop::sample::Index, to: u8) {
        let mut wire = builder.build_with_parameters(b"parameters", |_| [0; 32]);
        let at = at.index(wire.len());
        wire[at] = to;
        if let Ok(view) = InterestView::parse(&wire) {
            let _ = (view.signed_name(), view.signature_info(), view.parameters_digest());
            for keeps_hint in [true, false] {
                let nonce = view.nonce.is_none().then_some([0; 4]);
                let put = amended(&view, nonce, keeps_hint);
                let seen = InterestView::parse(&put).unwrap();
                prop_assert_eq!(seen.nonce, view.nonce.or(nonce));
                let hint = view.forwarding_hint_value.filter(|_| keeps_hint);
                prop_assert_eq!(seen.forwarding_hint_value, hint);
                prop_assert_eq!((seen.name, seen.lifetime_ms, seen.hop_limit), (view.name, view.lifetime_ms, view.hop_limit));
                prop_assert_eq!(amended(&seen, None, true), put);
            }
        }
    }
}
