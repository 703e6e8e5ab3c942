//! Interest and Data through one forwarder: the two packet paths, aggregation, tokens, expiry.

use crate::bench::*;
use namely_forwarder::{Bound, DropReason, FaceId};
use namely_wire::{LpHeaders, NackReason};

/// `IS-02`: the network-layer path, CS -> PIT -> FIB, and Data back along pending Interests.
#[test]
fn data_follows_the_reverse_path() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    let sent = bench.receive(consumer, interest("/a/b").build());
    assert_eq!(faces(&sent), [upstream]);
    assert_eq!(bench.fw.table_sizes().pit, 1);
    let packet = data("/a/b");
    let sent = bench.receive(upstream, packet.clone());
    assert_eq!(faces(&sent), [consumer]);
    assert!(std::sync::Arc::ptr_eq(&sent[0].1.packet, &packet), "the payload is not copied");
    let counters = bench.fw.counters();
    assert_eq!((counters.to_network, counters.to_local, counters.satisfied), (1, 0, 1));
    assert_eq!(bench.fw.table_sizes().pit, 0);
    assert_eq!(bench.drops(), 0);
}

/// `IS-02`, `IS-11`: the local delivering path: the FIB leads to `local`, and the BPT to the
/// application.
#[test]
fn a_bound_application_receives_its_interests() {
    let bench = Bench::new();
    let (remote, app) = (bench.remote(), bench.app());
    bench.route("/Alice", FaceId::LOCAL, 0);
    assert_eq!(bench.fw.bindings().bind(app, name("/Alice/videos").as_name()), Ok(Bound::Routed));
    let sent = bench.receive(remote, interest("/Alice/videos/DemoA.flv/1/2").build());
    assert_eq!(faces(&sent), [app]);
    let sent = bench.receive(app, data("/Alice/videos/DemoA.flv/1/2"));
    assert_eq!(faces(&sent), [remote]);
    let counters = bench.fw.counters();
    assert_eq!((counters.to_network, counters.to_local), (0, 1));
}

#[test]
fn a_missing_route_nacks_with_the_token() {
    let bench = Bench::new();
    let consumer = bench.app();
    let packet = interest("/nowhere").build();
    let sent = bench.receive_with(consumer, packet.clone(), token(&[1, 2, 3]));
    assert_eq!(faces(&sent), [consumer]);
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
    assert_eq!(token_of(&sent[0].1), Some(vec![1, 2, 3]));
    assert_eq!(&*sent[0].1.packet, packet);
    assert_eq!(bench.dropped(DropReason::NoRoute), 1);
    assert_eq!(bench.fw.table_sizes().pit, 0);
}

#[test]
fn a_pending_interest_expires_after_its_lifetime() {
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.receive(consumer, interest("/a").lifetime_ms(100).build());
    bench.advance_ms(99);
    let next_ns = bench.expire().unwrap();
    assert!(next_ns > bench.now_ns && next_ns <= bench.now_ns + 3 * MS);
    assert_eq!(bench.fw.table_sizes().pit, 1);
    bench.now_ns = next_ns;
    assert_eq!(bench.expire(), None);
    assert_eq!(bench.fw.table_sizes().pit, 0);
    assert_eq!(bench.fw.counters().unsatisfied, 1);
    assert!(bench.receive(upstream, data("/a")).is_empty());
    assert_eq!(bench.dropped(DropReason::Unsolicited), 1);
}

#[test]
fn a_congestion_mark_is_carried_both_ways() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    let marked = LpHeaders { congestion_mark: Some(3), ..LpHeaders::default() };
    let sent = bench.receive_with(consumer, interest("/a").build(), marked);
    assert_eq!(sent[0].1.headers.congestion_mark, Some(3));
    let marked = LpHeaders { congestion_mark: Some(1), ..LpHeaders::default() };
    let sent = bench.receive_with(upstream, data("/a"), marked);
    assert_eq!(sent[0].1.headers.congestion_mark, Some(1));
}

#[test]
fn a_rib_route_carries_interests_at_once() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.fw.rib_register(&name("/a"), &route_to(upstream), bench.now_ns).unwrap();
    assert_eq!(faces(&bench.receive(consumer, interest("/a/b").build())), [upstream]);
    assert!(bench.fw.rib_unregister(&name("/a"), upstream, namely_messages::RouteOrigin::APP));
    let sent = bench.receive(consumer, interest("/a/c").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
}
