//! Input that made other routers crash, block or exhaust their memory. Here each input is an error
//! or a harmless value.

use namely_wire::tlv::{Writer, read_header, read_tlv};
use namely_wire::types::*;
use namely_wire::{
    CertificateView, DataView, DecodeError, InterestView, LP_PACKET_OCTETS_MAX, LpView, NameRef, SafeBagView,
    rdr,
};
use proptest::prelude::*;

fn lp(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    w.nested(LP_PACKET, fill);
    w.into_vec()
}

#[test]
fn any_fragment_count_is_read_as_number() {
    for count in [0, 1 << 28, 1 << 32, 1 << 60, u64::MAX] {
        let wire = lp(|w| {
            w.tlv(LP_SEQUENCE, &[255; 8])
                .nni(LP_FRAG_INDEX, u64::MAX)
                .nni(LP_FRAG_COUNT, count)
                .tlv(LP_FRAGMENT, b"x");
        });
        let view = LpView::parse(&wire).unwrap();
        assert_eq!((view.frag_index, view.frag_count), (u64::MAX, count));
        assert_eq!(view.fragment, Some(&b"x"[..]));
    }
}

#[test]
fn nested_link_packets_are_read_by_level() {
    let mut wire = vec![5, 3, 7, 1, 8];
    for _ in 0..1000 {
        wire = lp(|w| {
            w.tlv(LP_FRAGMENT, &wire);
        });
    }
    let view = LpView::parse(&wire).unwrap();
    let inner = view.fragment.unwrap();
    assert!(inner.len() < wire.len());
    // A link packet must contain an Interest or Data. A nested link packet is neither.
    assert_eq!(InterestView::parse(inner), Err(DecodeError::UnexpectedType(LP_PACKET)));
    assert_eq!(DataView::parse(inner), Err(DecodeError::UnexpectedType(LP_PACKET)));
}

#[test]
fn a_huge_length_is_noticed_first() {
    let header = [6, 255, 0, 0, 1, 0, 0, 0, 0, 0];
    let (typ, length, header_octets) = read_header(&header).unwrap();
    assert_eq!((typ, length, header_octets), (DATA, 1 << 40, 10));
    assert!(length > LP_PACKET_OCTETS_MAX);
    assert_eq!(read_tlv(&header), Err(DecodeError::Truncated));
    let largest = [6, 255, 255, 255, 255, 255, 255, 255, 255, 255];
    assert_eq!(read_header(&largest), Err(DecodeError::LengthTooLarge));
    let signed_largest = [6, 255, 127, 255, 255, 255, 255, 255, 255, 255];
    assert!(read_tlv(&signed_largest).is_err());
}

#[test]
fn names_of_ten_thousand_components_are_refused() {
    let components = [8u8, 0].repeat(10_000);
    assert_eq!(NameRef::parse_value(&components), Err(DecodeError::TooManyComponents));
    for typ in [INTEREST, DATA] {
        let mut w = Writer::new();
        w.nested(typ, |w| {
            w.tlv(NAME, &components);
        });
        let refused = match typ {
            INTEREST => InterestView::parse(w.as_bytes()).unwrap_err(),
            _ => DataView::parse(w.as_bytes()).unwrap_err(),
        };
        assert_eq!(refused, DecodeError::TooManyComponents);
    }
    let hint: Vec<u8> = [&[8, 1, b'a'][..]].concat();
    let mut w = Writer::new();
    w.nested(INTEREST, |w| {
        w.tlv(NAME, &hint);
        w.nested(FORWARDING_HINT, |w| {
            w.tlv(NAME, &components);
        });
    });
    assert_eq!(InterestView::parse(w.as_bytes()), Err(DecodeError::TooManyComponents));
}

#[test]
fn an_inner_length_past_its_element_fails() {
    let interest = [5, 9, 7, 3, 8, 1, b'a', 10, 4, 0, 0];
    assert_eq!(InterestView::parse(&interest), Err(DecodeError::Truncated));
    let component = [5, 5, 7, 3, 8, 2, b'a'];
    assert_eq!(InterestView::parse(&component), Err(DecodeError::Truncated));
    let meta = [6, 15, 7, 3, 8, 1, b'a', 20, 1, 25, 22, 3, 27, 1, 0, 23, 0];
    assert_eq!(DataView::parse(&meta), Err(DecodeError::Truncated));
    let key_locator = [6, 16, 7, 3, 8, 1, b'a', 22, 7, 27, 1, 5, 28, 2, 7, 9, 23, 0];
    assert_eq!(DataView::parse(&key_locator), Err(DecodeError::Truncated));
    let nack = [100, 10, 253, 3, 32, 1, 253, 80, 3, 5, 1, 7];
    assert_eq!(LpView::parse(&nack), Err(DecodeError::Truncated));
}

#[test]
fn overlong_number_forms_are_refused() {
    let wide_type = [253, 0, 5, 5, 7, 3, 8, 1, b'a'];
    assert_eq!(InterestView::parse(&wide_type), Err(DecodeError::NonMinimalNumber));
    let wide_length = [5, 253, 0, 5, 7, 3, 8, 1, b'a'];
    assert_eq!(InterestView::parse(&wide_length), Err(DecodeError::NonMinimalNumber));
    let wide_component = [5, 7, 7, 5, 253, 0, 8, 1, b'a'];
    assert_eq!(InterestView::parse(&wide_component), Err(DecodeError::NonMinimalNumber));
}

#[test]
fn repeated_octets_are_always_an_error() {
    for octet in 0..=255u8 {
        let wire = vec![octet; 9000];
        assert!(LpView::parse(&wire).is_err());
        assert!(InterestView::parse(&wire).is_err());
        assert!(DataView::parse(&wire).is_err());
        assert!(SafeBagView::parse(&wire).is_err());
    }
}

/// Generates octets that are well-formed elements more often than random octets are.
fn element_like() -> impl Strategy<Value = Vec<u8>> {
    let leaf = (
        prop::sample::select(
            &[1u32, 2, 7, 8, 10, 12, 18, 20, 21, 22, 23, 25, 27, 28, 33, 34, 36, 80, 81, 98, 800, 832][..],
        ),
        prop::collection::vec(any::<u8>(), 0..10),
    )
        .prop_map(|(typ, value)| {
            let mut w = Writer::new();
            w.tlv(typ, &value);
            w.into_vec()
        });
    leaf.prop_recursive(4, 32, 5, |inner| {
        (
            prop::sample::select(&[5u32, 6, 7, 20, 22, 28, 30, 44, 80, 100, 101, 104, 128, 800][..]),
            prop::collection::vec(inner, 0..5),
        )
            .prop_map(|(typ, parts)| {
                let mut w = Writer::new();
                w.tlv(typ, &parts.concat());
                w.into_vec()
            })
    })
}

fn inside(outer: &[u8], inner: &[u8]) -> bool {
    inner.is_empty()
        || outer.as_ptr_range().start <= inner.as_ptr()
            && inner.as_ptr_range().end <= outer.as_ptr_range().end
}

fn check_everything(octets: &[u8]) {
    if let Ok(view) = LpView::parse(octets) {
        assert!(view.fragment.is_none_or(|f| inside(octets, f)));
        assert!(view.acks().count() <= octets.len());
    }
    if let Ok(view) = InterestView::parse(octets) {
        assert!(inside(octets, view.name.as_bytes()) && inside(octets, view.signed_parameters));
        assert!(view.forwarding_hint().count() <= octets.len());
        let _ = view.signature_info();
    }
    if let Ok(view) = DataView::parse(octets) {
        assert!(inside(octets, view.signed_portion) && inside(octets, view.content));
    }
    let _ = CertificateView::parse(octets);
    let _ = SafeBagView::parse(octets);
    let _ = namely_wire::AnnouncementView::parse(octets);
    let _ = rdr::Metadata::decode(octets);
    assert!(rdr::listing(octets).count() <= octets.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_octets_are_parsed_safely(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        check_everything(&octets);
    }

    #[test]
    fn random_elements_are_parsed_safely(octets in element_like()) {
        check_everything(&octets);
    }
}
