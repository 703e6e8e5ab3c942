//! The exchange between neighbors (VI-10): routers that step together without loss match the exact
//! model. With loss, repetition, reordering and restarts, every VIP is entered once.

use crate::model;
use crate::network;

use model::{Scenario, hex};
use namely_vip::{Counter, Decay, Object, Objects, PlacementSource, PlaneConfig, Tier, UNIT, Vip};
use network::{MS, Net};
use proptest::prelude::*;

const PERIOD_MS: u32 = 1000;
const PERIOD: u64 = PERIOD_MS as u64 * MS;

/// Routers of a scenario; their neighbors are those of the scenario, in its order.
fn routers(scenario: &Scenario) -> Net {
    let neighbours = scenario.links.iter();
    let neighbours = neighbours.map(|links| links.iter().map(|(n, octets)| (Some(*n), *octets)).collect());
    let planes = (0..scenario.nodes()).map(|n| scenario.config(n)).collect();
    let mut net = Net::new(&scenario.catalogue(), PERIOD_MS, planes, neighbours.collect());
    for n in 0..scenario.nodes() {
        scenario.set_up(n, net.nodes[n].vip.plane_mut());
    }
    net
}

#[test]
fn lossless_synchronous_routers_match_the_model() {
    for mut scenario in Scenario::all() {
        // The other lines differ from this one only in their caches, which tests/plane.rs tests.
        if scenario.name().starts_with("line") && scenario.name() != "line-a1.5" {
            continue;
        }
        let mut net = routers(&scenario);
        net.law = Box::new(|_| vec![20 * MS]);
        let (mut counts, mut moved, mut sent) = (Vec::new(), Vec::new(), Vec::new());
        for t in 0..scenario.slots() {
            net.run(t * PERIOD + PERIOD - MS);
            let planes: Vec<_> = net.nodes.iter().map(|node| node.vip.plane().clone()).collect();
            scenario.record(planes.iter(), &mut Vec::new(), &mut sent);
            for (n, k, vips) in scenario.arrivals() {
                net.add_demand(n, k, vips);
            }
            net.run((t + 1) * PERIOD);
            let from = moved.len();
            scenario.record(net.nodes.iter().map(|node| node.vip.plane()), &mut counts, &mut moved);
            // The model records kept objects at the end of the slot, and sent VIPs in its middle.
            let kept = scenario.nodes() * scenario.objects();
            moved.truncate(from + kept);
            moved.extend(sent.drain(..).skip(kept));
            net.check();
        }
        scenario.compare_the_end(net.nodes.iter().map(|node| node.vip.plane()));
        assert_eq!(hex(&counts), scenario.value["counts_sha256"], "{}", scenario.name());
        assert_eq!(hex(&moved), scenario.value["moved_sha256"], "{}", scenario.name());
        assert_eq!(net.lost_and_doubled(), (0, 0));
    }
}

/// A diamond: consumers at 0, the source at 3, and caches at 1 and 2. Node 0 also has a next hop
/// without VIP.
fn diamond() -> Net {
    let objects = (0..4).map(|k| Object { id: 77 - k, octets: 1000 });
    let objects = Objects::new(objects.collect()).unwrap();
    let config = |octets| PlaneConfig {
        amplification: 2,
        decay: Decay::from_factor(4_290_000_000),
        follow: PlacementSource::Scores,
        tiers: vec![Tier { octets, rate: 700, admit: 0, evict: 0 }],
        weight: 0,
    };
    let planes = [0, 1000, 1000, 0].map(config).to_vec();
    let neighbours = vec![
        vec![(Some(1), 1300), (Some(2), 900), (None, 300)],
        vec![(Some(0), 1300), (Some(3), 1100)],
        vec![(Some(0), 900), (Some(3), 1700)],
        vec![(Some(1), 1100), (Some(2), 1700)],
    ];
    let mut net = Net::new(&objects, PERIOD_MS, planes, neighbours);
    (0..4).for_each(|n| routes(n, &mut net.nodes[n].vip));
    net
}

fn routes(n: usize, vip: &mut Vip) {
    let hops: &[usize] = [&[0, 1, 2][..], &[1], &[1], &[]][n];
    for k in 0..4 {
        vip.plane_mut().set_hops(k, hops.iter().copied());
        vip.plane_mut().set_source(k, n == 3);
    }
}

/// A generator of random numbers. A test may have several.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % most
    }
}

/// Loses and repeats packets, in percent, and delays them, in ns.
fn adversary(net: &mut Net, seed: u64, loss: u64, repeat: u64, late: u64) {
    let mut draw = Draw(seed | 1);
    net.law = Box::new(move |_| {
        let copies = if draw.below(100) < loss { 0 } else { 1 + u64::from(draw.below(100) < repeat) * 2 };
        (0..copies).map(|_| MS + draw.below(late)).collect()
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_vip_is_in_one_place(
        seed in any::<u64>(), loss in 0..90u64, repeat in 0..60u64, late in 1..4 * PERIOD,
    ) {
        let mut net = diamond();
        adversary(&mut net, seed, loss, repeat, late);
        let mut draw = Draw(!seed | 1);
        for t in 0..60 {
            net.add_demand(0, draw.below(4) as usize, draw.below(2 * UNIT));
            net.add_demand(2, draw.below(4) as usize, draw.below(UNIT));
            net.run(t * PERIOD + draw.below(PERIOD));
            net.check();
        }
        assert_eq!(net.lost_and_doubled(), (0, 0));
    }

    #[test]
    fn only_vips_to_a_restarted_router_count_twice(
        seed in any::<u64>(), loss in 0..60u64, repeat in 0..60u64, late in 1..2 * PERIOD,
        restarts in proptest::collection::vec((0..60u64, 0..4usize, any::<bool>()), 1..6),
    ) {
        let mut net = diamond();
        adversary(&mut net, seed, loss, repeat, late);
        let mut draw = Draw(!seed | 1);
        for t in 0..60 {
            net.add_demand(0, draw.below(4) as usize, draw.below(2 * UNIT));
            net.run(t * PERIOD + draw.below(PERIOD));
            for (_, n, is_started_anew) in restarts.iter().filter(|(at, ..)| *at == t) {
                let before = net.lost_and_doubled();
                if *is_started_anew {
                    net.restart(*n, |vip| routes(*n, vip));
                } else {
                    let neighbour = net.nodes[*n].neighbours[0].unwrap();
                    net.forget(*n, neighbour);
                }
                // Eight slots to each of three neighbors at most, up to the capacity of their
                // links.
                let doubled = net.lost_and_doubled().1 - before.1;
                prop_assert!(doubled <= 8 * 6 * UNIT, "{doubled}");
            }
            net.check();
        }
    }
}

#[test]
fn counts_resume_after_a_long_silence() {
    let mut net = diamond();
    adversary(&mut net, 5, 100, 0, 1);
    (0..4).for_each(|k| net.add_demand(0, k, UNIT));
    net.run(40 * PERIOD);
    assert!(net.count(0, Counter::CountsStale) > 70);
    net.law = Box::new(|_| vec![MS]);
    net.run(80 * PERIOD);
    net.check();
    let left: u64 = net.nodes.iter().flat_map(|node| node.vip.plane().counts()).sum();
    assert_eq!(left, 0);
}

#[test]
fn a_silent_neighbor_gets_no_directed_interests() {
    let mut net = diamond();
    let direction = |net: &Net, k| net.nodes[0].vip.plane().direction(k);
    net.nodes[0].vip.plane_mut().set_hops(1, [1]);
    for t in 0..10 {
        (0..2).for_each(|k| net.add_demand(0, k, 8 * UNIT));
        net.run((t + 1) * PERIOD);
    }
    assert_eq!((direction(&net, 0), direction(&net, 1)), (Some(0), Some(1)), "where most VIPs went");
    net.law = Box::new(|_| vec![]);
    net.run(11 * PERIOD);
    assert_eq!(direction(&net, 0), Some(0), "one slot may be lost");
    net.run(14 * PERIOD);
    assert_eq!(direction(&net, 0), Some(2), "one that does not speak VIP is never silent");
    assert_eq!(direction(&net, 1), None, "there is no other: as in the FIB");
    net.law = Box::new(|_| vec![MS]);
    net.run(16 * PERIOD);
    assert_eq!((direction(&net, 0), direction(&net, 1)), (Some(0), Some(1)));
}

#[test]
fn unacknowledged_slots_of_a_neighbor_are_limited() {
    let mut net = diamond();
    // Only requests for VIPs are lost.
    net.law = Box::new(|octets| {
        if octets[0] == 5 && octets.windows(3).any(|w| w == [8, 1, b'B']) { vec![] } else { vec![MS] }
    });
    for t in 0..30 {
        net.add_demand(0, 0, 4 * UNIT);
        net.run((t + 1) * PERIOD - 1);
        net.check();
    }
    let status = net.nodes[0].vip.neighbour(0).unwrap();
    assert_eq!(status.slots_under_way, namely_vip::limits::OFFERS_MAX);
    assert!(net.count(0, Counter::OffersFull) > 20);
    net.law = Box::new(|_| vec![MS]);
    net.run(34 * PERIOD);
    assert!(net.nodes[0].vip.neighbour(0).unwrap().slots_under_way <= 2);
    assert!(net.nodes[1].vip.neighbour(0).unwrap().entered > 29);
    net.check();
}

#[test]
fn many_counts_are_sent_in_segments() {
    for (objects, segments) in [(500, 1), (501, 2), (4096, 9)] {
        let list = (0..objects).map(|k| Object { id: k * 7919 % 100_003, octets: 1000 });
        let objects = Objects::new(list.collect()).unwrap();
        let config = PlaneConfig {
            amplification: 1,
            decay: Decay::NONE,
            follow: PlacementSource::Scores,
            tiers: vec![],
            weight: 0,
        };
        let links = vec![vec![(Some(1), 1000)], vec![(Some(0), 1000)]];
        let mut net = Net::new(&objects, PERIOD_MS, vec![config.clone(), config], links);
        net.run(PERIOD / 2);
        (0..objects.len()).for_each(|k| net.add_demand(1, k, UNIT + k as u64));
        net.run(PERIOD + PERIOD / 2);
        assert_eq!(net.count(0, Counter::CountsHeard), 2);
        let reported = net.nodes[1].vip.plane().reported().to_vec();
        assert_eq!(
            net.nodes[0].vip.plane_mut().neighbour_counts_mut(0),
            &reported[..],
            "{segments} segments"
        );
        assert_eq!(net.count(0, Counter::SegmentsMissing), 0);
        if segments > 1 {
            // From this point, the link drops the requests for the last of them.
            let last = namely_wire::Name::new().join_segment(segments - 1);
            net.law = Box::new(move |octets| {
                let last = last.as_bytes();
                let is_last = octets[0] == 5 && octets.windows(last.len()).any(|octets| octets == last);
                if is_last { vec![] } else { vec![MS] }
            });
            net.run(5 * PERIOD);
            assert_eq!(net.count(0, Counter::SegmentsMissing), 3);
            assert_eq!((net.count(0, Counter::CountsHeard), net.count(0, Counter::CountsStale)), (2, 2));
        }
    }
}

/// The objects of the diamond in the order of `ids`.
fn of_ids(ids: &[u64]) -> Objects {
    Objects::new(ids.iter().map(|id| Object { id: *id, octets: 1000 }).collect()).unwrap()
}

#[test]
fn settings_changed_mid_slot_move_no_vip() {
    let mut net = diamond();
    adversary(&mut net, 4711, 20, 20, 900 * MS);
    let mut draw = Draw(99);
    // The order of the catalogue and of the neighbors rotates. Node 1 is a router with a cache.
    for step in 0..60u64 {
        let k = net.nodes[0].vip.objects().index_of(77 - step % 4).unwrap();
        net.add_demand(0, k, UNIT / 3);
        net.run(net.now_ns + draw.below(PERIOD));
        for n in 0..2 {
            let first = (step + n as u64) % 4;
            let ids: Vec<u64> = (0..4).map(|i| 77 - (first + i) % 4).collect();
            let before: Vec<(u64, u64)> = ids.iter().map(|id| scores(&net, n, *id)).collect();
            let links = net.nodes[n].neighbours.clone();
            let order: Vec<usize> = match links[0] {
                // The neighbor without VIP keeps its index.
                _ if n == 0 => vec![1, 0, 2],
                _ => vec![1, 0],
            };
            net.exchange(n, of_ids(&ids), &order, |_| {});
            let links = net.nodes[n].neighbours.clone();
            let to = |node| links.iter().position(|link| *link == Some(node));
            let hops: Vec<usize> = if n == 0 { vec![0, 1, 2] } else { to(3).into_iter().collect() };
            (0..4).for_each(|k| net.nodes[n].vip.plane_mut().set_hops(k, hops.iter().copied()));
            let after: Vec<(u64, u64)> = ids.iter().map(|id| scores(&net, n, *id)).collect();
            assert_eq!(before, after, "at {n} in step {step}");
            net.check();
        }
    }
    net.law = Box::new(|_| vec![20 * MS]);
    net.run(net.now_ns + 60 * PERIOD);
    net.check();
    assert_eq!(net.lost_and_doubled(), (0, 0));
    for n in 0..2 {
        assert!(net.nodes[n].vip.plane().counts().iter().all(|count| *count == 0), "all has arrived");
        assert!(net.count(n, Counter::OffersHeard) > 0 || n == 0);
    }
}

/// A router's state of an object: its count, and its score.
fn scores(net: &Net, n: usize, id: u64) -> (u64, u64) {
    let vip = &net.nodes[n].vip;
    let k = vip.objects().index_of(id).unwrap();
    (vip.plane().counts()[k], vip.plane().scores()[k])
}

#[test]
fn a_removed_object_takes_its_vips() {
    let mut net = diamond();
    net.run(3 * PERIOD + 10 * MS);
    net.add_demand(0, 0, 50 * UNIT);
    net.add_demand(0, 1, 40 * UNIT);
    net.run(5 * PERIOD + 10 * MS);
    let (count, _) = scores(&net, 0, 77);
    assert!(count > 0, "it waits");
    let kept = scores(&net, 0, 76);
    net.exchange(0, of_ids(&[74, 76]), &[0, 1, 2], |_| {});
    net.check();
    let totals = net.nodes[0].vip.plane().totals();
    assert_eq!((totals.withdrawn, scores(&net, 0, 76)), (count, kept));
    net.exchange(0, of_ids(&[77, 76]), &[0, 1, 2], |_| {});
    assert_eq!((scores(&net, 0, 77), scores(&net, 0, 76)), ((0, 0), kept));
    net.check();
}

#[test]
fn vips_for_a_removed_neighbor_return() {
    let mut net = diamond();
    net.run(3 * PERIOD + 10 * MS);
    // No acknowledgement arrives from now on.
    net.law = Box::new(|_| vec![]);
    net.add_demand(0, 0, 50 * UNIT);
    net.run(5 * PERIOD + 10 * MS);
    let there = |net: &Net, b| net.nodes[0].vip.under_way(b).map(|offer| offer.vips).sum::<u64>();
    let (first, second) = (there(&net, 0), there(&net, 1));
    assert!(first > 0 && second > 0);
    let (count, _) = scores(&net, 0, 77);
    net.exchange(0, of_ids(&[77, 76, 75, 74]), &[1, 2], |_| {});
    assert_eq!(scores(&net, 0, 77).0, count + first);
    assert_eq!(there(&net, 0), second, "the other one's are still its own");
}
