//! ASF, observed at the faces of a router.

use crate::bench::*;
use namely_forwarder::{Config, FaceId, Outgoing, StrategyLimits};
use namely_wire::{InterestView, NackReason};

const ASF: &str = "/localhost/nfd/strategy/asf/v=5";

/// A router with a consumer and next hops of `/a`, the cheapest first.
fn bench<const N: usize>() -> (Bench, FaceId, [FaceId; N]) {
    let bench = Bench::new();
    let (consumer, hops) = (bench.app(), [(); N].map(|()| bench.remote()));
    hops.iter().zip(0..).for_each(|(face, cost)| bench.route("/a", *face, cost));
    bench.strategy("/a", ASF);
    (bench, consumer, hops)
}

fn nonce_of(sent: &Outgoing<Packet>) -> [u8; 4] {
    InterestView::parse(&sent.packet).unwrap().nonce.unwrap()
}

/// Sends Interests, each answered after 10 ms by its first face, until one is also sent as a probe;
/// returns its name and the packets sent.
fn until_probed(bench: &mut Bench, consumer: FaceId) -> (String, Sent) {
    for i in 0.. {
        let uri = format!("/a/{}/{i}", bench.now_ns);
        let sent = bench.receive(consumer, interest(&uri).build());
        if sent.len() == 2 {
            return (uri, sent);
        }
        bench.advance_ms(10);
        assert_eq!(faces(&bench.receive(sent[0].0, data(&uri))), [consumer]);
        bench.advance_ms(90);
        bench.expire();
    }
    unreachable!()
}

#[test]
fn a_probe_reveals_the_faster_nexthop() {
    let (mut bench, consumer, hops) = bench::<2>();
    let start_ns = bench.now_ns;
    let (uri, sent) = until_probed(&mut bench, consumer);
    assert!(bench.now_ns - start_ns <= 5_100 * MS, "the first probe comes within five seconds");
    assert_eq!(faces(&sent), hops);
    let nonces: Vec<_> = sent.iter().map(|(_, packet)| nonce_of(packet)).collect();
    assert_ne!(nonces[0], nonces[1], "a probe has a Nonce of its own");
    bench.advance_ms(3);
    assert_eq!(faces(&bench.receive(hops[1], data(&uri))), [consumer]);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/next").build())), [hops[1]]);
}

/// The first answer removes the entry; the second one is still measured.
#[test]
fn a_second_answer_is_measured_and_dropped() {
    let (mut bench, consumer, hops) = bench::<2>();
    let (uri, _) = until_probed(&mut bench, consumer);
    bench.advance_ms(10);
    assert_eq!(faces(&bench.receive(hops[0], data(&uri))), [consumer]);
    bench.advance_ms(20);
    let unsolicited = bench.dropped(namely_forwarder::DropReason::Unsolicited);
    assert!(bench.receive(hops[1], data(&uri)).is_empty());
    assert_eq!(bench.dropped(namely_forwarder::DropReason::Unsolicited), unsolicited + 1);
    // The first next hop becomes slower than the 30 ms of the second one.
    let uri = "/a/slow";
    assert_eq!(faces(&bench.receive(consumer, interest(uri).lifetime_ms(8000).build())), [hops[0]]);
    bench.advance_ms(190);
    bench.expire();
    bench.receive(hops[0], data(uri));
    assert_eq!(faces(&bench.receive(consumer, interest("/a/next").build())), [hops[1]]);
}

#[test]
fn nacks_and_timeouts_demote_a_nexthop() {
    let (mut bench, consumer, hops) = bench::<2>();
    let sent = bench.receive(consumer, interest("/a/1").build());
    assert_eq!(faces(&sent), [hops[0]]);
    bench.nack(hops[0], sent[0].1.packet.clone(), NackReason::Congestion);
    let mut asked = Vec::new();
    for i in 0..5 {
        // Without the probes, which are sent to the other next hop.
        asked.push(bench.receive(consumer, interest(&format!("/a/2/{i}")).lifetime_ms(500).build())[0].0);
        bench.advance_ms(1100);
        bench.expire();
    }
    assert!(asked[..3].iter().all(|face| *face == hops[1]), "the first has refused: {asked:?}");
    assert_eq!(asked[3], hops[0], "three Interests of the other were not answered, so costs decide");
}

#[test]
fn a_retransmission_prefers_an_unasked_nexthop() {
    let (mut bench, consumer, hops) = bench::<2>();
    let ask = |bench: &Bench| faces(&bench.receive(consumer, interest("/a/1").build()));
    assert_eq!(ask(&bench), [hops[0]]);
    assert_eq!(ask(&bench), [hops[1]]);
    assert!(ask(&bench).is_empty(), "both are waited for");
    bench.advance_ms(10);
    assert_eq!(ask(&bench), [hops[0]]);
    assert_eq!(bench.fw.counters().suppressed, 1);
}

#[test]
fn asf_without_memory_acts_like_best_route() {
    let (bench, consumer, hops) = bench::<1>();
    bench.fw.fib().remove_nexthop(name("/a").as_name(), hops[0]);
    let sent = bench.receive(consumer, interest("/a/1").build());
    assert!(is_nack(&sent[0].1, NackReason::NoRoute));

    let bench = Bench::with(Config {
        strategies: StrategyLimits { prefixes_max: 0, ..config().strategies },
        ..config()
    });
    let (consumer, upstream) = (bench.app(), bench.remote());
    bench.route("/a", upstream, 0);
    bench.strategy("/", ASF);
    assert_eq!(faces(&bench.receive(consumer, interest("/a/1").build())), [upstream]);
    assert_eq!(faces(&bench.receive(upstream, data("/a/1"))), [consumer]);
    let counters = bench.fw.counters();
    assert_eq!((counters.strategy_memory_full, bench.fw.table_sizes().strategy_prefixes), (1, 0));
}

#[test]
fn asf_forgets_measurements_of_removed_faces() {
    let (mut bench, consumer, hops) = bench::<2>();
    let sent = bench.receive(consumer, interest("/a/1").build());
    bench.nack(hops[0], sent[0].1.packet.clone(), NackReason::Congestion);
    assert_eq!(bench.receive(consumer, interest("/a/2").build())[0].0, hops[1]);
    assert_eq!(bench.fw.table_sizes().strategy_prefixes, 1);
    // A face that is registered again after its release is a new one.
    bench.fw.face_release(hops[0]).unwrap();
    let again = bench.remote();
    bench.route("/a", again, 0);
    assert_eq!(bench.receive(consumer, interest("/a/3").build())[0].0, again);
    bench.advance_ms(310_000);
    while bench.expire().is_some_and(|next_ns| next_ns <= bench.now_ns) {}
    assert_eq!(bench.fw.table_sizes().strategy_prefixes, 0);
}
