//! Tests of best route and multicast, and of the choice of a name's strategy.

use crate::bench::*;
use namely_forwarder::{FaceId, StrategyError};
use namely_wire::NackReason;

const MULTICAST: &str = "/localhost/nfd/strategy/multicast";

#[test]
fn best_route_asks_the_cheapest_nexthop() {
    let bench = Bench::new();
    let (consumer, dear, cheap) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/a", dear, 9);
    bench.route("/a", cheap, 1);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/1").build())), [cheap]);
    assert_eq!(faces(&bench.receive(cheap, interest("/a/2").build())), [dear]);
}

#[test]
fn best_route_retries_with_unused_nexthops() {
    let mut bench = Bench::new();
    let consumer = bench.app();
    let upstreams = [bench.remote(), bench.remote(), bench.remote()];
    upstreams.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    let mut asked = Vec::new();
    for _ in 0..6 {
        asked.extend(faces(&bench.receive(consumer, interest("/a").build())));
        bench.advance_ms(300);
    }
    assert_eq!(asked, [upstreams, upstreams].concat());
}

#[test]
fn best_route_skips_nexthops_that_are_down() {
    let bench = Bench::new();
    let (consumer, dear, cheap) = (bench.app(), bench.remote(), bench.remote());
    bench.route("/a", dear, 9);
    bench.route("/a", cheap, 1);
    let ask = |uri| faces(&bench.receive(consumer, interest(uri).build()));
    let set_down = |face, is_down| bench.fw.faces().set_down(face, is_down).unwrap();
    set_down(cheap, true);
    assert_eq!(ask("/a/1"), [dear]);
    // If all are down, the costs decide as before.
    set_down(dear, true);
    assert_eq!(ask("/a/2"), [cheap]);
    set_down(cheap, false);
    set_down(dear, false);
    assert_eq!(ask("/a/3"), [cheap]);
}

#[test]
fn an_expired_nexthop_counts_as_unused() {
    let mut bench = Bench::new();
    let upstreams = [bench.remote(), bench.remote(), bench.remote()];
    upstreams.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    let mut asked = Vec::new();
    for (lifetime_ms, pause_ms) in [(50, 20), (4000, 80), (4000, 0)] {
        asked.extend(faces(&bench.receive(bench.app(), interest("/a").lifetime_ms(lifetime_ms).build())));
        bench.advance_ms(pause_ms);
    }
    assert_eq!(asked, [upstreams[0], upstreams[1], upstreams[0]]);
}

#[test]
fn without_pending_upstreams_the_cheapest_is_asked() {
    let mut bench = Bench::new();
    let upstreams = [bench.remote(), bench.remote()];
    upstreams.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    let first = interest("/a").build();
    assert_eq!(faces(&bench.receive(bench.app(), first.clone())), [upstreams[0]]);
    bench.advance_ms(20);
    assert_eq!(faces(&bench.receive(bench.app(), interest("/a").lifetime_ms(50).build())), [upstreams[1]]);
    assert!(bench.nack(upstreams[0], first, NackReason::NoRoute).is_empty());
    bench.advance_ms(80);
    assert_eq!(faces(&bench.receive(bench.app(), interest("/a").build())), [upstreams[0]]);
}

#[test]
fn retransmissions_are_suppressed_ever_longer() {
    let mut bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    let mut sent_at_ms = Vec::new();
    for ms in 0..200 {
        if !bench.receive(consumer, interest("/a").build()).is_empty() {
            sent_at_ms.push(ms);
        }
        bench.advance_ms(1);
    }
    assert_eq!(sent_at_ms, [0, 10, 30, 70, 150]);
    assert_eq!(bench.fw.counters().suppressed, 195);
    assert_eq!(faces(&bench.receive(upstream, data("/a"))), [consumer]);
}

/// `IS-29`: k consumers, one Interest upstream, k Data.
#[test]
fn interests_of_many_faces_are_aggregated() {
    let bench = Bench::new();
    let upstream = bench.remote();
    bench.route("/a", upstream, 0);
    let consumers: Vec<FaceId> = (0..100).map(|_| bench.remote()).collect();
    let upstream_interests: usize =
        consumers.iter().map(|face| bench.receive(*face, interest("/a").build()).len()).sum();
    assert_eq!(upstream_interests, 1);
    let packet = data("/a");
    let sent = bench.receive(upstream, packet.clone());
    assert_eq!(faces(&sent), consumers);
    assert!(sent.iter().all(|(_, out)| std::sync::Arc::ptr_eq(&out.packet, &packet)), "one payload for all");
}

#[test]
fn a_late_consumer_makes_a_retransmission() {
    let mut bench = Bench::new();
    let (one, other, upstream, second) = (bench.app(), bench.app(), bench.remote(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.route("/a", second, 1);
    bench.receive(one, interest("/a").build());
    assert!(bench.receive(other, interest("/a").build()).is_empty());
    bench.advance_ms(11);
    assert_eq!(faces(&bench.receive(other, interest("/a").build())), [second]);
}

#[test]
fn refusal_by_all_upstreams_starts_anew() {
    let bench = Bench::new();
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    let packet = interest("/a").build();
    bench.receive(consumer, packet.clone());
    assert_eq!(bench.nack(upstream, packet, NackReason::Congestion).len(), 1);
    assert_eq!(faces(&bench.receive(consumer, interest("/a").build())), [upstream]);
}

#[test]
fn multicast_asks_every_other_nexthop() {
    let mut bench = Bench::new();
    let consumers = [bench.remote(), bench.app()];
    let upstreams = [bench.remote(), bench.group(), bench.app()];
    bench.strategy("/a", MULTICAST);
    for face in upstreams.iter().chain(&consumers[..1]) {
        bench.route("/a", *face, 0);
    }
    assert_eq!(faces(&bench.receive(consumers[0], interest("/a/1").build())), upstreams);
    // Only the first consumer has not received this Interest yet.
    assert_eq!(faces(&bench.receive(consumers[1], interest("/a/1").build())), [consumers[0]]);
    bench.advance_ms(9);
    assert!(bench.receive(consumers[1], interest("/a/1").build()).is_empty());
    bench.advance_ms(1);
    assert_eq!(bench.receive(consumers[1], interest("/a/1").build()).len(), 4);
    bench.advance_ms(19);
    assert!(bench.receive(consumers[1], interest("/a/1").build()).is_empty());
    bench.advance_ms(1);
    assert_eq!(bench.receive(consumers[1], interest("/a/1").build()).len(), 4);
}

#[test]
fn multicast_without_nexthops_refuses_at_once() {
    let bench = Bench::new();
    let consumer = bench.app();
    bench.strategy("/", MULTICAST);
    let sent = bench.receive(consumer, interest("/a").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
    bench.route("/a", consumer, 0);
    let sent = bench.receive(consumer, interest("/a").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));
}

#[test]
fn the_strategy_of_the_longest_prefix_applies() {
    let bench = Bench::new();
    let consumer = bench.app();
    let upstreams = [bench.remote(), bench.remote()];
    upstreams.iter().for_each(|face| bench.route("/", *face, 0));
    bench.strategy("/", MULTICAST);
    bench.strategy("/a/b", "/localhost/nfd/strategy/best-route/v=5");
    let asked = |uri: &str| bench.receive(consumer, interest(uri).build()).len();
    assert_eq!((asked("/a"), asked("/a/b"), asked("/a/b/c"), asked("/a/bc")), (2, 1, 1, 2));
    let b = name("/a/b");
    assert_eq!(bench.fw.strategies().unset(b.as_name()), Ok(true));
    assert_eq!(bench.fw.strategies().unset(b.as_name()), Ok(false));
    assert_eq!(asked("/a/b/d"), 2);
    assert_eq!(bench.fw.strategies().unset(name("/").as_name()), Err(StrategyError::Root));
    let unknown = bench.fw.strategies().set(b.as_name(), name("/localhost/nfd/strategy/ncc").as_name());
    assert_eq!(unknown, Err(StrategyError::Unknown));
    let choices = bench.fw.strategies().snapshot();
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0].strategy, name("/localhost/nfd/strategy/multicast/v=4"));
}
