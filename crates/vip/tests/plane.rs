//! Planes that run in step, compared with an exact model: every count, score, cached set and sent
//! VIP of every slot.

use crate::model;

use model::{Scenario, hex, number, numbers};
use namely_vip::{
    COUNT_MAX, Decay, NOWHERE, Object, Objects, PlacementSource, Plane, PlaneConfig, Tier, UNIT,
};

/// The planes of a scenario.
fn planes(scenario: &Scenario) -> Vec<Plane> {
    let make = |n: usize| {
        let mut plane = Plane::new(&scenario.catalogue(), scenario.links[n].len(), scenario.config(n));
        scenario.set_up(n, &mut plane);
        (0..scenario.links[n].len()).for_each(|b| plane.open(b, true));
        plane
    };
    (0..scenario.nodes()).map(make).collect()
}

/// One slot of all planes at once.
fn slot(scenario: &mut Scenario, planes: &mut [Plane]) {
    planes.iter_mut().for_each(Plane::begin);
    let reported: Vec<Vec<u64>> = planes.iter().map(|plane| plane.reported().to_vec()).collect();
    for (n, plane) in planes.iter_mut().enumerate() {
        for (b, (neighbour, _)) in scenario.links[n].iter().enumerate() {
            plane.neighbour_counts_mut(b).copy_from_slice(&reported[*neighbour]);
        }
        plane.send();
    }
    for (n, links) in scenario.links.iter().enumerate() {
        for (b, (neighbour, _)) in links.iter().enumerate() {
            if let Some((k, vips)) = planes[n].sent(b) {
                planes[*neighbour].receive(k, vips);
            }
        }
    }
    for (n, k, vips) in scenario.arrivals() {
        planes[n].add_demand(k, vips);
    }
    planes.iter_mut().for_each(Plane::end);
}

#[test]
fn every_plane_value_matches_the_model() {
    for mut scenario in Scenario::all() {
        let mut planes = planes(&scenario);
        let (mut counts, mut moved) = (Vec::new(), Vec::new());
        for t in 0..scenario.slots() {
            slot(&mut scenario, &mut planes);
            if let Some(early) = scenario.value["early_counts"].get(t as usize) {
                for (n, plane) in planes.iter().enumerate() {
                    assert_eq!(plane.counts(), numbers(&early[n]), "{} slot {t}, node {n}", scenario.name());
                }
            }
            scenario.record(planes.iter(), &mut counts, &mut moved);
        }
        scenario.compare_the_end(planes.iter());
        assert_eq!(hex(&counts), scenario.value["counts_sha256"], "{}", scenario.name());
        assert_eq!(hex(&moved), scenario.value["moved_sha256"], "{}", scenario.name());
    }
}

#[test]
fn stored_objects_have_the_largest_scores() {
    for mut scenario in Scenario::all().into_iter().filter(|s| s.value["follow"] == "score") {
        let mut planes = planes(&scenario);
        (0..scenario.slots()).for_each(|_| slot(&mut scenario, &mut planes));
        // Objects are placed by the scores at the beginning of a slot, so the scores at the end of
        // this slot count in the next one.
        for (n, plane) in planes.iter_mut().enumerate() {
            plane.begin();
            plane.end();
            let kept = (0..scenario.objects()).filter(|k| plane.placed()[*k] == 0).map(|k| k as u64);
            assert_eq!(kept.collect::<Vec<_>>(), numbers(&scenario.value["kept"][n]), "node {n}");
        }
    }
}

/// The counts at the nodes of a line after its 20,000 slots, in thousandths of a VIP.
fn line(name: &str) -> Vec<u64> {
    let mut scenario = Scenario::all().into_iter().find(|s| s.name() == name).expect("a scenario");
    let mut planes = planes(&scenario);
    (0..scenario.slots()).for_each(|_| slot(&mut scenario, &mut planes));
    planes.iter().map(|plane| plane.counts()[0] * 1000 / UNIT).collect()
}

#[test]
fn a_line_is_stable_up_to_capacity() {
    assert_eq!(line("line-a0.5"), [500, 1000, 0]);
    assert_eq!(line("line-a1"), [2000, 1000, 0]);
    assert_eq!(line("line-a1.5")[0], 10_001_000);
}

#[test]
fn only_a_cache_before_the_bottleneck_helps() {
    assert_eq!(line("line-a1.5-cache-middle")[0], 10_001_000);
    assert_eq!(line("line-a1.5-cache-entry"), [500, 1000, 0]);
    assert_eq!(line("line-a1.5-cache-entry-r1.5"), [0, 0, 0]);
}

/// Returns for each of two objects the share of slots in which it was virtually cached, in
/// thousandths.
fn two(name: &str) -> [u64; 2] {
    let mut scenario = Scenario::all().into_iter().find(|s| s.name() == name).expect("a scenario");
    let mut planes = planes(&scenario);
    let mut held = [0; 2];
    for _ in 0..scenario.slots() {
        slot(&mut scenario, &mut planes);
        (0..2).for_each(|k| held[k] += u64::from(planes[0].placed()[k] == 0));
    }
    held.map(|held| held * 1000 / number(&scenario.value["slots"]))
}

#[test]
fn the_hotter_object_is_always_kept() {
    // In the first slot no object can be cached yet.
    assert_eq!(two("two-1.6-0.3"), [999, 0]);
    let [first, second] = two("two-1.2-0.4");
    assert!((745..=755).contains(&first) && (245..=255).contains(&second), "{first} {second}");
}

/// Creates a plane with one object of the size of one VIP, and `neighbours` neighbors that each
/// accept one VIP per slot.
fn plane(neighbours: usize, amplification: u8, tiers: Vec<Tier>) -> Plane {
    let objects = Objects::new(vec![Object { id: 1, octets: 1000 }]).unwrap();
    let (decay, follow) = (Decay::from_factor(1 << 31), PlacementSource::Scores);
    let config = PlaneConfig { amplification, decay, follow, tiers, weight: 0 };
    let mut plane = Plane::new(&objects, neighbours, config);
    (0..neighbours).for_each(|b| plane.set_capacity(b, 1000));
    plane.set_hops(0, 0..neighbours);
    plane
}

fn step(plane: &mut Plane, demand: u64) {
    plane.begin();
    plane.send();
    plane.add_demand(0, demand);
    plane.end();
}

#[test]
fn only_local_interests_are_amplified() {
    for amplification in [1, 2] {
        let mut plane = plane(0, amplification, vec![]);
        plane.receive(0, 5);
        step(&mut plane, 3 * UNIT);
        assert_eq!(plane.counts(), [3 * UNIT * u64::from(amplification) + 5]);
        assert_eq!(plane.scores(), plane.counts());
    }
}

#[test]
fn a_stored_object_drains_its_read_rate() {
    let tier = Tier { octets: 1000, rate: 1500, admit: 0, evict: 0 };
    let mut plane = plane(0, 1, vec![tier]);
    step(&mut plane, 4 * UNIT);
    assert_eq!((plane.counts(), plane.placed()), (&[4 * UNIT][..], &[u8::MAX][..]));
    step(&mut plane, 0);
    assert_eq!((plane.counts(), plane.placed()), (&[4 * UNIT - UNIT * 3 / 2][..], &[0][..]));
    plane.set_tier(0, Tier { rate: 500, ..tier });
    step(&mut plane, 0);
    assert_eq!(plane.counts(), [2 * UNIT]);
    plane.set_tier(0, Tier { rate: 1_000_000, ..tier });
    step(&mut plane, 0);
    assert_eq!(plane.counts(), [0], "no more is drained than there is");
    assert_eq!(plane.totals().drained, 4 * UNIT);
}

#[test]
fn a_tier_without_room_keeps_nothing() {
    let memory = Tier { octets: 0, rate: 9000, admit: 0, evict: 0 };
    let disk = Tier { octets: 1000, rate: 500, admit: 0, evict: 0 };
    let mut plane = plane(0, 1, vec![memory, disk]);
    step(&mut plane, 8 * UNIT);
    step(&mut plane, 0);
    assert_eq!((plane.counts(), plane.placed()), (&[8 * UNIT - UNIT / 2][..], &[1][..]));
    plane.set_tier(1, Tier { octets: 999, ..disk });
    step(&mut plane, 0);
    assert_eq!((plane.counts(), plane.placed()), (&[8 * UNIT - UNIT / 2][..], &[u8::MAX][..]));
    plane.set_tier(1, disk);
    step(&mut plane, 0);
    assert_eq!((plane.counts(), plane.placed()), (&[7 * UNIT][..], &[1][..]));
}

#[test]
fn a_score_decays_slot_by_slot() {
    let mut plane = plane(0, 1, vec![]);
    step(&mut plane, 8 * UNIT);
    step(&mut plane, 0);
    step(&mut plane, UNIT);
    assert_eq!(plane.scores(), [3 * UNIT]);
}

#[test]
fn links_never_send_more_than_available() {
    let mut plane = plane(3, 1, vec![]);
    (0..3).for_each(|b| plane.open(b, true));
    step(&mut plane, UNIT * 3 / 2);
    plane.begin();
    plane.send();
    let sent = [0, 1, 2].map(|b| plane.sent(b));
    assert_eq!(sent, [Some((0, UNIT)), Some((0, UNIT / 2)), None]);
    assert_eq!(plane.counts(), [0]);
}

#[test]
fn a_nexthop_without_vip_takes_its_link_capacity() {
    // Its counts never arrive, so they stay 0.
    let mut plane = plane(1, 1, vec![]);
    plane.open(0, true);
    (0..100).for_each(|_| step(&mut plane, UNIT / 2));
    assert_eq!(plane.counts(), [UNIT / 2]);
    (0..100).for_each(|_| step(&mut plane, 2 * UNIT));
    assert_eq!(plane.counts(), [101 * UNIT]);
}

#[test]
fn an_object_follows_the_most_recent_vips() {
    let mut plane = plane(3, 1, vec![]);
    plane.set_hops(0, [2, 0, 1, 1, 7]);
    assert_eq!(plane.direction(0), Some(2), "nothing was sent: the cheapest");
    plane.open(1, true);
    step(&mut plane, UNIT);
    step(&mut plane, UNIT);
    assert_eq!(plane.direction(0), Some(1));
    plane.open(1, false);
    plane.open(0, true);
    step(&mut plane, UNIT);
    assert_eq!(plane.direction(0), Some(0), "the flow of the other way has halved by now");
    plane.set_hops(0, []);
    assert_eq!(plane.direction(0), None);
}

#[test]
fn plane_counts_at_their_limit_are_cut() {
    let mut plane = plane(0, 2, vec![]);
    step(&mut plane, COUNT_MAX / 2);
    assert_eq!((plane.counts()[0], plane.totals().saturated), (COUNT_MAX, 0));
    step(&mut plane, 1);
    assert_eq!((plane.counts()[0], plane.totals().saturated), (COUNT_MAX, 2));
    plane.receive(0, u64::MAX);
    step(&mut plane, u64::MAX);
    assert_eq!((plane.counts()[0], plane.scores()[0]), (COUNT_MAX, COUNT_MAX));
}

/// Creates a plane with two objects and two tiers, each for one object, which are read at 3000 and
/// 1000 octets per slot; or with the slower tier alone. A move costs `weight` VIPs. Scores do not
/// decay.
fn two_at_a_border(has_both: bool, weight: u64) -> Plane {
    let objects = [1, 2].map(|id| Object { id, octets: 1000 });
    let (decay, follow) = (Decay::from_factor(1 << 32), PlacementSource::Scores);
    let tiers = vec![Tier::new(if has_both { 1000 } else { 0 }, 3000), Tier::new(1000, 1000)];
    let config = PlaneConfig { amplification: 1, decay, follow, tiers, weight };
    Plane::new(&Objects::new(objects.to_vec()).unwrap(), 0, config)
}

/// In one slot, `vips` of each object are requested. Returns the tiers of both objects afterwards.
fn tiers_after(plane: &mut Plane, vips: [u64; 2]) -> [u8; 2] {
    plane.begin();
    plane.add_demand(0, vips[0]);
    plane.add_demand(1, vips[1]);
    plane.end();
    [plane.placed()[0], plane.placed()[1]]
}

#[test]
fn moving_costs_prevent_alternating_placements() {
    for has_both in [true, false] {
        let moves = |weight: u64| {
            let mut plane = two_at_a_border(has_both, weight);
            tiers_after(&mut plane, [11 * UNIT, 10 * UNIT]);
            let mut before = tiers_after(&mut plane, [0, 2 * UNIT]);
            // In each slot the other object is ahead by one VIP.
            (0..100).fold(0, |moves, slot| {
                let vips = if slot % 2 == 0 { [2 * UNIT, 0] } else { [0, 2 * UNIT] };
                let now = tiers_after(&mut plane, vips);
                let has_moved = std::mem::replace(&mut before, now) != now;
                moves + u32::from(has_moved)
            })
        };
        assert_eq!((moves(0), moves(1)), (100, 0), "both tiers: {has_both}");
    }
}

#[test]
fn a_replacement_needs_more_than_moving_costs() {
    // If the other object is in no tier, it must be ahead by twice the cost. Between tiers, the
    // gain of the faster tier must pay for all four moves.
    for (has_both, ahead, tiers) in [(true, 4, [0, 1]), (false, 2, [1, NOWHERE])] {
        let mut plane = two_at_a_border(has_both, 1);
        tiers_after(&mut plane, [11 * UNIT, 10 * UNIT]);
        assert_eq!(tiers_after(&mut plane, [0, (1 + ahead) * UNIT - 1]), tiers);
        assert_eq!(tiers_after(&mut plane, [0, 2]), tiers, "ahead by less");
        let [first, second] = tiers;
        assert_eq!(tiers_after(&mut plane, [0, 0]), [second, first], "ahead by more");
    }
}

/// docs/vip.md describes this slot.
#[test]
fn the_documented_slot_example_is_right() {
    let (hot, cold, west, east) = (0, 1, 0, 1);
    let objects = [1, 2].map(|id| Object { id, octets: 1000 });
    let config = PlaneConfig {
        amplification: 1,
        decay: Decay::from_factor(1 << 31),
        follow: PlacementSource::Scores,
        tiers: vec![Tier { octets: 1000, rate: 1000, admit: 0, evict: 0 }],
        weight: 0,
    };
    let mut plane = Plane::new(&Objects::new(objects.to_vec()).unwrap(), 2, config);
    plane.set_capacity(west, 1500);
    plane.set_capacity(east, 1000);
    plane.set_hops(hot, [east, west]);
    plane.set_hops(cold, [east]);
    // In the previous slot both objects were requested, and no link was open.
    plane.begin();
    plane.add_demand(hot, 3 * UNIT);
    plane.add_demand(cold, 2 * UNIT);
    plane.end();
    assert_eq!((plane.counts(), plane.scores()), (&[3 * UNIT, 2 * UNIT][..], &[3 * UNIT, 2 * UNIT][..]));

    [west, east].iter().for_each(|b| plane.open(*b, true));
    plane.neighbour_counts_mut(west).copy_from_slice(&[UNIT, 0]);
    plane.neighbour_counts_mut(east).copy_from_slice(&[0, UNIT]);
    plane.begin();
    plane.send();
    assert_eq!(plane.sent(east), Some((hot, UNIT)));
    assert_eq!(plane.sent(west), Some((hot, UNIT * 3 / 2)));
    assert_eq!(plane.counts(), [UNIT / 2, 2 * UNIT]);
    plane.add_demand(hot, UNIT / 4);
    plane.add_demand(cold, UNIT);
    plane.receive(cold, UNIT / 2);
    plane.end();
    assert_eq!(plane.placed(), [0, NOWHERE]);
    assert_eq!((plane.counts(), plane.totals().drained), (&[0, UNIT * 7 / 2][..], UNIT * 3 / 4));
    assert_eq!(plane.scores(), [UNIT * 7 / 4, UNIT * 5 / 2]);
    assert_eq!((plane.direction(hot), plane.direction(cold)), (Some(west), Some(east)));
    plane.begin();
    plane.end();
    assert_eq!(plane.placed(), [NOWHERE, 0], "the cold one has the larger score by now");
}

#[test]
fn plane_golden_files_match_the_model() {
    model::compare_with_the_model("plane");
}
