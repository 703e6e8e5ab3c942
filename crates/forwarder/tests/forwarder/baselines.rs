//! Round robin and fast route, the baselines (`VI-28`), observed at the faces of a router.

use crate::bench::*;
use namely_forwarder::FaceId;
use namely_wire::NackReason;

/// A router with a consumer and three next hops of `/a` under a strategy.
fn bench(strategy: &str) -> (Bench, FaceId, [FaceId; 3]) {
    let bench = Bench::new();
    let (consumer, hops) = (bench.app(), [(); 3].map(|()| bench.remote()));
    hops.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    bench.strategy("/a", strategy);
    (bench, consumer, hops)
}

#[test]
fn round_robin_takes_nexthops_in_turn() {
    let (mut bench, consumer, hops) = bench("/round-robin");
    let ask = |bench: &Bench, uri: &str| faces(&bench.receive(consumer, interest(uri).build()));
    let asked: Vec<FaceId> = (0..7).flat_map(|i| ask(&bench, &format!("/a/{i}"))).collect();
    assert_eq!(asked, [hops[0], hops[1], hops[2], hops[0], hops[1], hops[2], hops[0]]);
    assert!(ask(&bench, "/a/6").is_empty());
    bench.advance_ms(10);
    assert_eq!(ask(&bench, "/a/6"), [hops[1]]);
    assert_eq!(ask(&bench, "/a/7"), [hops[1]], "it takes no turn of the others");
    bench.fw.fib().remove_nexthop(name("/a").as_name(), hops[0]);
    let asked: Vec<FaceId> = (8..12).flat_map(|i| ask(&bench, &format!("/a/{i}"))).collect();
    assert_eq!(asked.iter().filter(|face| **face == hops[1]).count(), 2);
    assert_eq!(asked.iter().filter(|face| **face == hops[2]).count(), 2);
}

/// Exchanges under `/a` with the numbers of `range`, which the face `who` answers.
fn exchanges(bench: &Bench, consumer: FaceId, range: std::ops::Range<u32>, hop: FaceId) -> Vec<Vec<FaceId>> {
    range
        .map(|i| {
            let uri = format!("/a/{i}");
            let asked = faces(&bench.receive(consumer, interest(&uri).build()));
            assert_eq!(faces(&bench.receive(hop, data(&uri))), [consumer]);
            asked
        })
        .collect()
}

#[test]
fn fast_route_stays_with_the_first_answer() {
    let (bench, consumer, hops) = bench("/localhost/nfd/strategy/fast-route/v=1");
    let asked = exchanges(&bench, consumer, 0..1024, hops[1]);
    assert_eq!(asked[0], hops, "the first goes to all");
    assert!(asked[1..].iter().all(|asked| *asked == [hops[1]]));
    let asked = exchanges(&bench, consumer, 1024..1025, hops[1]).remove(0);
    assert!(asked.len() == 2 && asked.contains(&hops[1]), "the 1024th since then is a probe: {asked:?}");
    let asked = exchanges(&bench, consumer, 1025..2048, hops[1]);
    assert!(asked.iter().all(|asked| *asked == [hops[1]]), "the probe was not answered first");
    let uri = "/a/probed";
    let asked = faces(&bench.receive(consumer, interest(uri).build()));
    let other = asked.into_iter().find(|face| *face != hops[1]).unwrap();
    assert_eq!(faces(&bench.receive(other, data(uri))), [consumer]);
    assert!(bench.receive(hops[1], data(uri)).is_empty(), "too late");
    assert_eq!(exchanges(&bench, consumer, 3000..3002, other), [[other], [other]]);
}

#[test]
fn fast_route_restarts_after_a_failure() {
    let (mut bench, consumer, hops) = bench("/fast-route");
    let ask = |bench: &Bench, uri: &str| bench.receive(consumer, interest(uri).lifetime_ms(100).build());
    exchanges(&bench, consumer, 0..2, hops[0]);
    let sent = ask(&bench, "/a/nacked");
    assert_eq!(faces(&sent), [hops[0]]);
    bench.nack(hops[0], sent[0].1.packet.clone(), NackReason::Congestion);
    assert_eq!(faces(&ask(&bench, "/a/anew")), hops);
    assert_eq!(faces(&bench.receive(hops[2], data("/a/anew"))), [consumer]);
    assert_eq!(faces(&ask(&bench, "/a/lost")), [hops[2]]);
    bench.advance_ms(200);
    bench.expire();
    assert_eq!(faces(&ask(&bench, "/a/after")), hops);
    assert_eq!(faces(&bench.receive(hops[1], data("/a/after"))), [consumer]);
    bench.fw.fib().remove_nexthop(name("/a").as_name(), hops[1]);
    assert_eq!(faces(&ask(&bench, "/a/removed")), [hops[0], hops[2]]);
}

#[test]
fn random_draws_nexthops_by_their_weights() {
    let shares = |strategy: &str| {
        let (mut bench, consumer, hops) = bench(strategy);
        let mut counts = [0; 3];
        for i in 0..3000 {
            let uri = format!("/a/{i}");
            let asked = bench.receive(consumer, interest(&uri).build());
            let hop = hops.iter().position(|hop| *hop == asked[0].0).unwrap();
            counts[hop] += 1;
            bench.advance_ms([10, 20, 40][hop]);
            assert_eq!(faces(&bench.receive(hops[hop], data(&uri))), [consumer]);
        }
        counts
    };
    let even = shares("/localhost/nfd/strategy/random/v=1");
    assert!(even.iter().all(|count| (850..1150).contains(count)), "{even:?}");
    // 3000 Interests in the ratio 4 : 2 : 1.
    let [first, second, third] = shares("/localhost/nfd/strategy/weighted-load-balancer/v=1");
    assert!((1550..1880).contains(&first) && (720..1000).contains(&second), "{first} {second} {third}");
}

#[test]
fn multipath_fills_the_windows_of_nexthops() {
    let (mut bench, consumer, hops) = bench("/localhost/nfd/strategy/multipath/v=1");
    let ask = |bench: &Bench, i: u32| bench.receive(consumer, interest(&format!("/a/{i}")).build())[0].0;
    let asked: Vec<FaceId> = (0..6).map(|i| ask(&bench, i)).collect();
    assert_eq!(asked, [hops[0], hops[1], hops[2], hops[0], hops[1], hops[2]], "where there is most room");
    bench.advance_ms(10);
    let marked = namely_wire::LpHeaders { congestion_mark: Some(1), ..Default::default() };
    let answer = |bench: &Bench, hop: usize, i: u32| {
        let sent = bench.receive_with(hops[hop], data(&format!("/a/{i}")), marked);
        (faces(&sent), sent[0].1.headers.is_marked())
    };
    assert_eq!(answer(&bench, 0, 0), (vec![consumer], false), "the others have room");
    assert_eq!(answer(&bench, 1, 1), (vec![consumer], false));
    assert_eq!(answer(&bench, 2, 2), (vec![consumer], true), "now all were marked");
    bench.advance_ms(50);
    let refused = bench.receive(consumer, interest("/a/7").build());
    let before = refused[0].0;
    assert_ne!(ask(&bench, 8), before, "it has one more in flight");
    bench.nack(before, refused[0].1.packet.clone(), NackReason::Congestion);
    let asked: Vec<FaceId> = (9..12).map(|i| ask(&bench, i)).collect();
    assert_eq!(asked.iter().filter(|face| **face == before).count(), 1, "the refused one is not in flight");
}
