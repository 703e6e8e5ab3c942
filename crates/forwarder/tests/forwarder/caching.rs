//! The content store, observed by consumers.

use crate::bench::*;
use namely_forwarder::{Config, CsChange, CsLimits, DropReason, FaceId};
use namely_wire::{InterestBuilder, LpHeaders};

/// A forwarder that has fetched `packets` once.
fn filled(bench: &Bench, packets: &[Packet]) -> (FaceId, FaceId) {
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/", upstream, 0);
    for packet in packets {
        let view = namely_wire::DataView::parse(packet).unwrap();
        let interest = InterestBuilder::new(view.name.to_name()).nonce(nonce()).build();
        assert_eq!(faces(&bench.receive(consumer, interest)), [upstream]);
        assert_eq!(faces(&bench.receive(upstream, packet.clone())), [consumer]);
    }
    (consumer, upstream)
}

#[test]
fn a_cache_hit_carries_the_new_token() {
    let bench = Bench::new();
    let packet = data("/a/b");
    let (consumer, _) = filled(&bench, std::slice::from_ref(&packet));
    let marked = LpHeaders { congestion_mark: Some(1), ..token(&[7; 32]) };
    let sent = bench.receive_with(consumer, interest("/a/b").build(), marked);
    assert_eq!(faces(&sent), [consumer]);
    assert!(std::sync::Arc::ptr_eq(&sent[0].1.packet, &packet));
    assert_eq!(token_of(&sent[0].1), Some(vec![7; 32]));
    assert_eq!(sent[0].1.headers.congestion_mark, Some(1), "the cache reflects a mark as the producer would");
    assert_eq!(bench.fw.table_sizes().pit, 0);
    assert_eq!(bench.fw.cs().status().hits, 1);
}

/// `IS-31`: discovery from the cache.
#[test]
fn can_be_prefix_matches_longer_cached_names() {
    let mut bench = Bench::new();
    let (consumer, upstream) = filled(&bench, &[data_with("/a/b/v=1/seg=0", 50, b"x")]);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/b").can_be_prefix().build())), [consumer]);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/b").build())), [upstream]);
    let fresh = || interest("/a").can_be_prefix().must_be_fresh().build();
    assert_eq!(faces(&bench.receive(consumer, fresh())), [consumer]);
    bench.advance_ms(50);
    assert_eq!(faces(&bench.receive(consumer, fresh())), [upstream]);
}

thread_local! {
    static DIGESTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn counted_digest(octets: &[u8]) -> [u8; 32] {
    DIGESTS.set(DIGESTS.get() + 1);
    test_digest(octets)
}

/// If many Data have the same name, an Interest by digest computes the digests of four, newest
/// first. The next Interest continues after them.
#[test]
fn a_digest_lookup_computes_at_most_four() {
    for beyond in [false, true] {
        let unsolicited = namely_forwarder::UnsolicitedPolicy::AdmitAll;
        let bench = Bench::with(Config { unsolicited, sha256: counted_digest, ..config() });
        let (consumer, upstream) = (bench.app(), bench.remote());
        bench.route("/", upstream, 0);
        let packets: Vec<Packet> =
            (0..if beyond { 5 } else { 4 }).map(|i| data_with("/a", 0, &[i])).collect();
        for packet in &packets {
            bench.receive(upstream, packet.clone());
        }
        let oldest =
            || InterestBuilder::new(full_name("/a", &packets[0])).nonce(nonce()).lifetime_ms(1).build();
        DIGESTS.set(0);
        let asked = faces(&bench.receive(consumer, oldest()));
        assert_eq!((asked, DIGESTS.take()), (vec![if beyond { upstream } else { consumer }], 4));
        let again = faces(&bench.receive(consumer, oldest()));
        assert_eq!((again, DIGESTS.take()), (vec![consumer], usize::from(beyond)));
    }
}

/// NDN-DPDK drops Interests by digest if it has no thread for them.
#[test]
fn an_interest_by_digest_finds_its_data() {
    let bench = Bench::new();
    let packets = [data_with("/a", 0, b"1"), data_with("/b", 0, b"2")];
    let (consumer, upstream) = filled(&bench, &packets);
    let by_digest =
        |uri: &str, packet: &[u8]| InterestBuilder::new(full_name(uri, packet)).nonce(nonce()).build();
    assert_eq!(faces(&bench.receive(consumer, by_digest("/a", &packets[0]))), [consumer]);
    let other = data_with("/a", 0, b"other");
    assert_eq!(faces(&bench.receive(consumer, by_digest("/a", &other))), [upstream]);
    assert_eq!(faces(&bench.receive(upstream, other.clone())), [consumer]);
    assert_eq!(faces(&bench.receive(consumer, by_digest("/a", &other))), [consumer]);
    assert_eq!(faces(&bench.receive(consumer, by_digest("/a", &packets[0]))), [consumer], "both are cached");
}

#[test]
fn no_cache_is_obeyed() {
    let bench = Bench::new();
    let (consumer, upstream) = filled(&bench, &[]);
    bench.receive(consumer, interest("/a").build());
    let no_cache = LpHeaders { cache_policy: Some(1), ..LpHeaders::default() };
    assert_eq!(faces(&bench.receive_with(upstream, data("/a"), no_cache)), [consumer]);
    assert_eq!((bench.fw.cs().status().packets, bench.fw.cs().status().refused), (0, 1));
}

#[test]
fn the_cache_is_configured_at_run_time() {
    let bench = Bench::new();
    let packets: Vec<Packet> = (0..4).map(|i| data(&format!("/a/{i}"))).collect();
    let (consumer, upstream) = filled(&bench, &packets);
    assert_eq!(bench.fw.cs().erase(name("/a/0").as_name(), 9), (1, false));
    assert_eq!(bench.fw.cs().erase(name("/a").as_name(), 1), (1, true));
    let change = CsChange { packets_max: Some(1), serve: Some(false), ..CsChange::default() };
    let info = bench.fw.cs().configure(&change);
    assert_eq!((info.packets, info.packets_max, info.admit, info.serve), (1, 1, true, false));
    assert_eq!(faces(&bench.receive(consumer, interest("/a/3").build())), [upstream]);
}

/// In other forwarders, memory grows with distinct objects. Here the limits hold for any Data.
#[test]
fn distinct_names_respect_all_three_limits() {
    let config =
        Config { cs: CsLimits { packets_max: 50, entries_max: 120, octets_max: 10_000 }, ..config() };
    let bench = Bench::with(config);
    let (consumer, upstream) = filled(&bench, &[]);
    for i in 0..1000 {
        let uri = match i % 3 {
            0 => format!("/{i}"),
            1 => format!("/{i}{}", "/x".repeat(10)),
            _ => format!("/{i}/y"),
        };
        bench.receive(consumer, interest(&uri).build());
        bench.receive(upstream, data_with(&uri, 0, &vec![0; i % 700]));
        let info = bench.fw.cs().status();
        assert!(info.packets <= 50 && info.entries <= 120 && info.octets <= 10_000, "{info:?}");
    }
    assert!(bench.fw.cs().status().packets > 0);
    assert_eq!(bench.fw.table_sizes().pit, 0);
    assert_eq!(bench.dropped(DropReason::Unsolicited), 0);
}
