//! Names: the URI form both ways, canonical order against a naive one, prefixes, and limits.

use std::cmp::Ordering;

use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{COMPONENTS_MAX, Component, DecodeError, Name, NameRef};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap_or_else(|e| panic!("{uri}: {e}"))
}

fn refused(uri: &str) -> DecodeError {
    uri.parse::<Name>().expect_err(uri)
}

#[test]
fn a_name_matches_the_specification() {
    let mut w = Writer::new();
    name("/A/32=b/seg=1/off=256/v=65536/t=4294967296/seq=0").as_name().encode(&mut w);
    let octets = [
        &[7, 32][..],
        &[8, 1, b'A'],
        &[32, 1, b'b'],
        &[50, 1, 1],
        &[52, 2, 1, 0],
        &[54, 4, 0, 1, 0, 0],
        &[56, 8, 0, 0, 0, 1, 0, 0, 0, 0],
        &[58, 1, 0],
    ]
    .concat();
    assert_eq!(w.as_bytes(), octets);
    assert_eq!(
        NameRef::parse(&octets),
        Ok(name("/A/32=b/seg=1/off=256/v=65536/t=4294967296/seq=0").as_name())
    );
    assert_eq!(NameRef::parse(&[7, 0]), Ok(Name::new().as_name()));
}

#[test]
fn a_uri_has_a_canonical_form() {
    let digest = "893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d";
    for (uri, canonical) in [
        ("/", "/"),
        ("ndn:/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("ndn:/a", "/a"),
        ("ndn:///a", "/a"),
        ("/8=a", "/a"),
        ("/%41%2d%7E", "/A-~"),
        ("/a%2Fb", "/a%2Fb"),
        ("/a%3db", "/a%3Db"),
        ("/%00%ff", "/%00%FF"),
        ("/ü", "/%C3%BC"),
        ("/a b", "/a%20b"),
        ("/...", "/..."),
        ("/....", "/...."),
        ("/......", "/......"),
        ("/.a", "/.a"),
        ("/..a", "/..a"),
        ("/%2E%2E%2E%2E", "/...."),
        ("/32=...", "/32=..."),
        ("/300=x", "/300=x"),
        ("/65535=x", "/65535=x"),
        ("/50=%05", "/seg=5"),
        ("/54=%00%05", "/54=%00%05"),
        ("/seg=007", "/seg=7"),
        ("/v=18446744073709551615", "/v=18446744073709551615"),
        (&format!("/sha256digest={digest}"), &format!("/sha256digest={digest}")),
        (&format!("/params-sha256={}", digest.to_uppercase()), &format!("/params-sha256={digest}")),
        (&format!("/1={}", "%00".repeat(32)), &format!("/sha256digest={}", "00".repeat(32))),
    ] {
        assert_eq!(name(uri).to_string(), canonical, "{uri}");
        assert_eq!(name(canonical), name(uri), "{uri}");
    }
}

#[test]
fn a_name_begins_with_a_slash() {
    for uri in ["", "a", "a/b", "v=1", "ndn:", "ndn:a", "ndn://a/b", "NDN:/a", " /a"] {
        assert_eq!(refused(uri), DecodeError::NoSlash, "{uri}");
    }
    for uri in ["//a", "///a", "ndn:////a"] {
        assert_eq!(refused(uri), DecodeError::BadUri, "{uri}");
    }
    assert_eq!(DecodeError::NoSlash.label(), "bad_uri");
}

#[test]
fn period_components_get_three_more_periods() {
    assert_eq!(name("/...").component_values(), [b"".to_vec()]);
    assert_eq!(name("/....").component_values(), [b".".to_vec()]);
    assert_eq!(name("/.../a/...").component_values(), [b"".to_vec(), b"a".to_vec(), b"".to_vec()]);
    for uri in ["/.", "/..", "/a//b", "/a/./b", "/32=", "/32=..", "/8=."] {
        assert_eq!(refused(uri), DecodeError::BadUri, "{uri}");
    }
}

#[test]
fn malformed_uris_are_refused() {
    for uri in [
        "/%",
        "/%4",
        "/%zz",
        "/%+1",
        "/=x",
        "/x=y",
        "/-1=x",
        "/+8=x",
        "/08=x",
        "/0=x",
        "/65536=x",
        "/seg=",
        "/seg=-1",
        "/seg=+1",
        "/seg=1x",
        "/v=18446744073709551616",
        "/v=0x1",
        "/SEG=1",
        "/Sha256digest=00",
        "/sha256digest=0",
        "/sha256digest=zz",
    ] {
        assert_eq!(refused(uri), DecodeError::BadUri, "{uri}");
    }
    for uri in [
        "/sha256digest=00",
        "/params-sha256=",
        "/1=a",
        "/2=...",
        &format!("/sha256digest={}", "0".repeat(66)),
    ] {
        assert_eq!(refused(uri), DecodeError::BadDigestLength, "{uri}");
    }
}

#[test]
fn a_name_has_at_most_128_components() {
    let octets = |n: usize| [8u8, 1, b'a'].repeat(n);
    let uri = |n: usize| "/a".repeat(n);
    assert_eq!(COMPONENTS_MAX, 128);
    assert_eq!(NameRef::parse_value(&octets(128)).map(|n| n.len()), Ok(128));
    assert_eq!(NameRef::parse_value(&octets(129)), Err(DecodeError::TooManyComponents));
    assert_eq!(uri(128).parse::<Name>().map(|n| n.len()), Ok(128));
    assert_eq!(uri(129).parse::<Name>(), Err(DecodeError::TooManyComponents));
}

#[test]
fn component_types_and_digests_are_checked() {
    let parse = |octets: &[u8]| NameRef::parse_value(octets).map(|n| n.len());
    assert_eq!(parse(&[253, 255, 255, 0]), Ok(1));
    assert_eq!(parse(&[254, 0, 1, 0, 0, 0]), Err(DecodeError::BadComponentType));
    assert_eq!(parse(&[0, 0]), Err(DecodeError::BadType));
    for typ in [IMPLICIT_DIGEST_COMPONENT as u8, PARAMETERS_DIGEST_COMPONENT as u8] {
        let digest = |n: u8| [vec![typ, n], vec![0; usize::from(n)]].concat();
        assert_eq!(parse(&digest(32)), Ok(1));
        assert_eq!(parse(&digest(31)), Err(DecodeError::BadDigestLength));
        assert_eq!(parse(&digest(33)), Err(DecodeError::BadDigestLength));
        assert_eq!(parse(&digest(0)), Err(DecodeError::BadDigestLength));
    }
}

#[test]
fn numbers_require_their_component_type() {
    assert_eq!(Component { typ: SEGMENT_COMPONENT, value: &[1, 0] }.segment(), Some(256));
    assert_eq!(Component { typ: SEGMENT_COMPONENT, value: &[1, 0, 0] }.segment(), None);
    assert_eq!(Component { typ: SEGMENT_COMPONENT, value: &[] }.segment(), None);
    assert_eq!(Component { typ: VERSION_COMPONENT, value: &[1] }.segment(), None);
    assert_eq!(Component::generic(&[1]).version(), None);
}

#[test]
fn canonical_order_compares_type_length_octets() {
    let sorted = [
        "/",
        "/sha256digest=0000000000000000000000000000000000000000000000000000000000000000",
        "/sha256digest=ff00000000000000000000000000000000000000000000000000000000000000",
        "/...",
        "/...x/z".trim_end_matches("x/z"),
        "/a",
        "/a/a",
        "/a/aa",
        "/b",
        "/aa",
        "/32=a",
        "/seg=0",
        "/seg=255",
        "/seg=256",
        "/252=x",
        "/253=x",
        "/65535=x",
    ]
    .map(name);
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            let expected = match a == b {
                true => Ordering::Equal,
                false => i.cmp(&j),
            };
            assert_eq!(a.as_name().cmp(&b.as_name()), expected, "{a} {b}");
        }
    }
}

#[test]
fn longer_components_sort_later() {
    let sized = |n: usize| Name::new().join_generic(vec![0; n]);
    for (shorter, longer) in [(252, 253), (255, 256), (65_535, 65_536)] {
        assert_eq!(sized(shorter).cmp(&sized(longer)), Ordering::Less);
    }
}

trait ComponentValues {
    fn component_values(&self) -> Vec<Vec<u8>>;
}

impl ComponentValues for Name {
    fn component_values(&self) -> Vec<Vec<u8>> {
        self.components().map(|c| c.value.to_vec()).collect()
    }
}

type Parts = Vec<(u16, Vec<u8>)>;

/// Components of a few types and octets, so that names often share prefixes and lengths.
fn parts() -> impl Strategy<Value = Parts> {
    let typ = prop_oneof![4 => Just(8u16), 1 => Just(32), 1 => Just(50), 1 => Just(252), 1 => Just(253), 1 => 3..=u16::MAX];
    let value = prop_oneof![
        4 => prop::collection::vec(prop_oneof![Just(b'.'), Just(b'a'), Just(0), Just(0xff), any::<u8>()], 0..4),
        1 => (250usize..258).prop_map(|n| vec![1; n]),
    ];
    prop::collection::vec((typ, value), 0..5)
}

fn build(parts: &Parts) -> Name {
    let mut name = Name::new();
    for (typ, value) in parts {
        name.push(Component { typ: *typ, value });
    }
    name
}

fn naive_order(a: &Parts, b: &Parts) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = x.0.cmp(&y.0).then(x.1.len().cmp(&y.1.len())).then(x.1.cmp(&y.1));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn name_order_follows_components(a in parts(), b in parts()) {
        let (x, y) = (build(&a), build(&b));
        prop_assert_eq!(x.as_name().cmp(&y.as_name()), naive_order(&a, &b));
        prop_assert_eq!(x.cmp(&y), naive_order(&a, &b));
        prop_assert_eq!(x == y, a == b);
        for (c, d) in x.components().zip(y.components()) {
            let one = |c: &Component<'_>| vec![(c.typ, c.value.to_vec())];
            prop_assert_eq!(c.cmp(&d), naive_order(&one(&c), &one(&d)));
        }
    }

    #[test]
    fn name_prefixes_follow_components(a in parts(), b in parts(), n in 0usize..7) {
        let (x, y) = (build(&a), build(&b));
        prop_assert_eq!(x.is_prefix_of(y.as_name()), b.starts_with(&a));
        prop_assert_eq!(x.len(), a.len());
        let prefix = &a[..n.min(a.len())];
        prop_assert_eq!(x.as_name().prefix(n).to_name(), build(&prefix.to_vec()));
        let kept = &a[..a.len().saturating_sub(n)];
        prop_assert_eq!(x.as_name().without_last(n).to_name(), build(&kept.to_vec()));
        prop_assert!(x.as_name().prefix(n).is_prefix_of(x.as_name()));
        prop_assert_eq!(x.as_name().component(n).map(|c| c.value.to_vec()), a.get(n).map(|c| c.1.clone()));
        prop_assert_eq!(x.join_name(y.as_name()), build(&[a.clone(), b].concat()));
    }

    #[test]
    fn every_name_survives_a_round_trip(a in parts()) {
        let name = build(&a);
        prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name.clone()));
        let mut w = Writer::new();
        name.as_name().encode(&mut w);
        prop_assert_eq!(w.len(), name.as_name().encoded_octets());
        prop_assert_eq!(NameRef::parse(w.as_bytes()), Ok(name.as_name()));
    }

    #[test]
    fn arbitrary_uris_have_one_canonical_form(text in "(/|ndn:/|)([a-c.=%/]|%[0-9a-f]{2}|seg=|v=|32=|[0-9]){0,12}") {
        if let Ok(name) = text.parse::<Name>() {
            prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
        }
    }

    #[test]
    fn any_text_is_a_name_or_error(text in "\\PC{0,30}") {
        let _ = text.parse::<Name>();
    }
}
