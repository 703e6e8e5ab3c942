//! Interests, Data and link packets.

use namely_wire::{
    AmendedInterest, AnnouncementView, DataBuilder, DataView, InterestBuilder, InterestView, LpFraming,
    LpView, SignatureInfo, SignatureInfoView, encode_lp_header,
};

use crate::inside::inside;

/// An Interest: its fields lie inside it, and it survives being built anew.
pub(crate) fn interest(octets: &[u8]) {
    let Ok(view) = InterestView::parse(octets) else { return };
    assert_eq!(view.wire, octets);
    assert!(!view.name.is_empty());
    let optional = [view.forwarding_hint_value, view.application_parameters, view.signature_info_value];
    for part in [view.name.as_bytes(), view.parameters_portion, view.signed_parameters, view.signed_name()] {
        assert!(inside(octets, part));
    }
    assert!(optional.into_iter().flatten().all(|part| inside(octets, part)));
    if let Some(hop_limit) = view.hop_limit {
        assert_eq!(octets[view.hop_limit_offset], hop_limit);
    }
    assert!(octets[..view.name_end].ends_with(view.name.as_bytes()));
    if let Ok(Some(info)) = view.signature_info() {
        signature_info(octets, &info);
    }
    rebuild_interest(&view);
    for keeps_hint in [true, false] {
        let nonce = view.nonce.is_none().then_some([1, 2, 3, 4]);
        let amended = AmendedInterest::new(&view, nonce, keeps_hint);
        let mut put = vec![0; amended.octets()];
        amended.write(&mut put);
        let seen = InterestView::parse(&put).expect("an Interest stays valid");
        assert_eq!(seen.nonce, view.nonce.or(nonce));
        assert_eq!(seen.forwarding_hint_value, view.forwarding_hint_value.filter(|_| keeps_hint));
        assert_eq!((seen.name, seen.parameters_portion), (view.name, view.parameters_portion));
        assert_eq!((seen.lifetime_ms, seen.hop_limit), (view.lifetime_ms, view.hop_limit));
    }
}

fn rebuild_interest(view: &InterestView<'_>) {
    let mut builder = InterestBuilder::new(view.name.to_name());
    if view.can_be_prefix {
        builder = builder.can_be_prefix();
    }
    if view.must_be_fresh {
        builder = builder.must_be_fresh();
    }
    for name in view.forwarding_hint() {
        builder = builder.forwarding_hint(name.to_name());
    }
    if let Some(nonce) = view.nonce {
        builder = builder.nonce(nonce);
    }
    if let Some(lifetime_ms) = view.lifetime_ms {
        builder = builder.lifetime_ms(lifetime_ms);
    }
    if let Some(hop_limit) = view.hop_limit {
        builder = builder.hop_limit(hop_limit);
    }
    let wire = builder.build();
    let again = InterestView::parse(&wire).expect("what is built is valid");
    assert_eq!((again.name, again.nonce), (view.name, view.nonce));
    assert_eq!((again.can_be_prefix, again.must_be_fresh), (view.can_be_prefix, view.must_be_fresh));
    assert_eq!((again.lifetime_ms, again.hop_limit), (view.lifetime_ms, view.hop_limit));
    assert!(again.forwarding_hint().eq(view.forwarding_hint()));
}

/// A Data: its fields lie inside it, and it survives being built anew.
pub(crate) fn data(octets: &[u8]) {
    let Ok(view) = DataView::parse(octets) else { return };
    assert_eq!(view.wire, octets);
    for part in [view.name.as_bytes(), view.content, view.signature_value, view.signed_portion] {
        assert!(inside(octets, part));
    }
    assert!(view.final_block_id.is_none_or(|c| inside(octets, c.value)));
    let info = view.signature_info().expect("checked when the view was made");
    assert_eq!(info.signature_type, view.signature_type);
    signature_info(octets, &info);

    let mut builder =
        DataBuilder::new(view.name).content_type(view.content_type).freshness_ms(view.freshness_ms);
    if let Some(component) = view.final_block_id {
        builder = builder.final_block_id(component);
    }
    let unsigned = builder.build(view.content, &owned(&info));
    let signed = unsigned.signed_portion().to_vec();
    let wire = unsigned.finish(view.signature_value);
    let again = DataView::parse(&wire).expect("what is built is valid");
    assert_eq!(again.signed_portion, signed);
    assert_eq!((again.name, again.content), (view.name, view.content));
    assert_eq!((again.content_type, again.freshness_ms), (view.content_type, view.freshness_ms));
    assert_eq!((again.final_block_id, again.signature_value), (view.final_block_id, view.signature_value));

    if let Ok(announcement) = AnnouncementView::from_data(view) {
        let now_s = announcement.validity.map_or(0, |v| v.not_before_s);
        assert!(announcement.lifetime_ms(now_s).is_none_or(|ms| ms <= announcement.expiration_period_ms));
    }
}

fn signature_info(octets: &[u8], info: &SignatureInfoView<'_>) {
    assert!(info.nonce.is_none_or(|nonce| !nonce.is_empty() && inside(octets, nonce)));
    assert!(info.key_name().is_none_or(|name| inside(octets, name.as_bytes())));
    let mut w = namely_wire::tlv::Writer::new();
    owned(info).encode(namely_wire::types::SIGNATURE_INFO, &mut w);
    let again = namely_wire::tlv::read_tlv(w.as_bytes()).map(|tlv| tlv.value);
    let again = again.and_then(SignatureInfoView::parse_value).expect("what is encoded is valid");
    assert_eq!(again.signature_type, info.signature_type);
    assert_eq!((again.key_name(), again.validity), (info.key_name(), info.validity));
    assert_eq!((again.time_ms, again.seq_num), (info.time_ms, info.seq_num));
}

fn owned(info: &SignatureInfoView<'_>) -> SignatureInfo {
    SignatureInfo {
        nonce: info.nonce.and_then(|nonce| nonce.try_into().ok()),
        time_ms: info.time_ms,
        seq_num: info.seq_num,
        validity: info.validity.map(|(from, to)| (*from, *to)),
        ..SignatureInfo::new(info.signature_type, info.key_name().map(|n| n.to_name()))
    }
}

/// A link packet: its fields lie inside it, and it survives being encoded anew.
pub(crate) fn link_packet(octets: &[u8]) {
    let Ok(view) = LpView::parse(octets) else { return };
    assert!(view.fragment.is_none_or(|part| inside(octets, part)));
    assert!(view.prefix_announcement.is_none_or(|part| inside(octets, part)));
    assert!(view.headers.nack.is_none() || view.fragment.is_some());
    let acks: Vec<u64> = view.acks().collect();
    let framing = LpFraming {
        sequence: view.sequence,
        frag_index: view.frag_index,
        frag_count: view.frag_count,
        tx_sequence: view.tx_sequence,
        acks: &acks,
        padding_octets: 0,
    };
    let mut wire = Vec::new();
    let fragment = view.fragment.unwrap_or_default();
    encode_lp_header(
        &view.headers,
        &framing,
        view.prefix_announcement,
        view.fragment.map(<[u8]>::len),
        &mut wire,
    );
    wire.extend_from_slice(fragment);
    let again = LpView::parse(&wire).expect("what is encoded is valid");
    assert_eq!((again.headers, again.fragment), (view.headers, view.fragment));
    assert_eq!((again.sequence, again.tx_sequence), (view.sequence, view.tx_sequence));
    assert_eq!((again.frag_index, again.frag_count), (view.frag_index, view.frag_count.max(1)));
    assert_eq!(again.prefix_announcement, view.prefix_announcement);
    assert!(again.acks().eq(acks));
}
