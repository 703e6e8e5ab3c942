//! Cached objects and their tiers, compared with exact results (VI-19, X-04).

use crate::model;

use std::collections::BTreeMap;

use model::{golden, list, number, numbers};
use namely_vip::placement::{Arrival, Knapsack, PlacementInput, Placer, arrive};
use namely_vip::{NOWHERE, Tier};
use serde_json::Value;

/// A case with tiers, whose capacities are multiples of an object.
struct Case {
    scores: Vec<u64>,
    sizes: Vec<u64>,
    tiers: Vec<Tier>,
    weight: u64,
    now: Vec<u8>,
}

impl Case {
    fn read(value: &Value) -> Self {
        let scores = numbers(&value["scores"]);
        let tier = |tier: &Value| Tier {
            octets: number(&tier["room"]),
            rate: number(&tier["rate"]),
            admit: number(&tier["admit"]),
            evict: number(&tier["evict"]),
        };
        let mut now = vec![NOWHERE; scores.len()];
        for (k, tier) in value["now"].as_object().expect("tiers by object") {
            now[k.parse::<usize>().expect("an object")] = number(tier) as u8;
        }
        Case {
            sizes: vec![1; scores.len()],
            scores,
            tiers: list(&value["tiers"]).iter().map(tier).collect(),
            weight: number(&value["weight"]),
            now,
        }
    }

    fn given(&self) -> PlacementInput<'_> {
        let Case { scores, sizes, tiers, weight, now } = self;
        PlacementInput { scores, sizes, tiers, weight: *weight, now }
    }

    /// The value of the router's placement, after a check that it fits.
    fn placed(&self) -> (i128, Vec<u8>) {
        let mut placed = vec![NOWHERE; self.scores.len()];
        Placer::new(self.scores.len()).place(&self.given(), &mut placed);
        for (j, tier) in self.tiers.iter().enumerate() {
            let octets = placed.iter().zip(&self.sizes).filter(|(at, _)| usize::from(**at) == j);
            assert!(octets.map(|(_, size)| *size).sum::<u64>() <= tier.octets, "tier {j} overflows");
        }
        (self.given().total(&placed), placed)
    }
}

/// The value of a set, after a check that it fits and has no duplicates.
fn worth(kept: &[u32], scores: &[u64], sizes: &[u64], room: u64) -> u64 {
    let mut unique = kept.to_vec();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), kept.len());
    assert!(kept.iter().map(|k| sizes[*k as usize]).sum::<u64>() <= room);
    kept.iter().map(|k| scores[*k as usize]).sum()
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn objects_of_unequal_size_are_placed_exactly() {
    let cases: Vec<Value> = golden("tiers").into_iter().filter(|c| c["case"] == "knapsack").collect();
    assert_eq!(cases.len(), 12);
    for case in cases {
        let (scores, sizes) = (numbers(&case["scores"]), numbers(&case["sizes"]));
        let room = number(&case["room"]);
        let mut knapsack = Knapsack::new(scores.len());
        let kept = knapsack.fill(&scores, &sizes, room, |_| false);
        assert_eq!(worth(kept, &scores, &sizes, room), number(&case["best"]));
    }
}

/// The best total within a room, by dynamic programming.
fn exact(scores: &[u64], sizes: &[u64], room: u64) -> u64 {
    let mut best = vec![0; room as usize + 1];
    for (score, size) in scores.iter().zip(sizes) {
        for c in (*size as usize..best.len()).rev() {
            best[c] = best[c].max(best[c - *size as usize] + score);
        }
    }
    best[room as usize]
}

#[test]
fn random_placements_reach_99_percent() {
    let mut state = 7;
    for round in 0..300 {
        let n = 1 + xorshift(&mut state) as usize % 200;
        let scores: Vec<u64> = (0..n).map(|_| xorshift(&mut state) % 1000).collect();
        let sizes: Vec<u64> = (0..n).map(|_| 1 + xorshift(&mut state) % 40).collect();
        let room = xorshift(&mut state) % (20 * n as u64);
        let mut knapsack = Knapsack::new(n);
        let kept = worth(knapsack.fill(&scores, &sizes, room, |_| false), &scores, &sizes, room);
        let best = exact(&scores, &sizes, room);
        assert!(kept * 100 >= best * 99, "round {round}: {kept} of {best}, {n} objects");
    }
}

#[test]
fn equal_sizes_keep_the_largest_scores() {
    let mut state = 3;
    for _ in 0..100 {
        let n = 1 + xorshift(&mut state) as usize % 60;
        let scores: Vec<u64> = (0..n).map(|_| xorshift(&mut state) % 20).collect();
        let room = xorshift(&mut state) % (n as u64 + 2);
        let is_there = |k: usize| k.is_multiple_of(3);
        let mut order: Vec<usize> = (0..n).filter(|k| scores[*k] > 0).collect();
        order.sort_by_key(|k| (u64::MAX - scores[*k], !is_there(*k), *k));
        order.truncate(room as usize);
        // An additional half of an object's size makes room for no further object.
        let mut knapsack = Knapsack::new(n);
        let kept = knapsack.fill(&scores, &vec![10; n], room * 10 + 5, is_there);
        let mut kept: Vec<usize> = kept.iter().map(|k| *k as usize).collect();
        kept.sort_unstable();
        order.sort_unstable();
        assert_eq!(kept, order);
    }
}

#[test]
fn extreme_scores_and_sizes_never_overflow() {
    let (score, size) = (namely_vip::COUNT_MAX, namely_vip::limits::OBJECT_OCTETS_MAX);
    let (scores, sizes) = (vec![score; 40], vec![size; 40]);
    let mut knapsack = Knapsack::new(40);
    assert_eq!(knapsack.fill(&scores, &sizes, u64::MAX, |_| false).len(), 3);
    let tier = Tier { octets: u64::MAX, rate: u64::MAX, admit: u64::MAX, evict: u64::MAX };
    let mut sizes = vec![size; 40];
    for uneven in [size, 1] {
        sizes[0] = uneven;
        let case = Case {
            scores: scores.clone(),
            sizes: sizes.clone(),
            tiers: vec![tier; 4],
            weight: u64::MAX >> 20,
            now: vec![3; 40],
        };
        assert!(case.placed().0 > 0);
    }
}

#[test]
fn tiers_are_filled_exactly() {
    let cases: Vec<Value> = golden("tiers").into_iter().filter(|c| c["case"] == "assign").collect();
    assert_eq!(cases.len(), 12);
    for value in cases {
        let case = Case::read(&value);
        let (total, placed) = case.placed();
        assert_eq!(total, i128::from(number(&value["total"])));
        let put: BTreeMap<String, u64> = placed
            .iter()
            .enumerate()
            .filter(|(_, tier)| **tier != NOWHERE)
            .map(|(k, tier)| (k.to_string(), u64::from(*tier)))
            .collect();
        let best: BTreeMap<String, u64> = value["put"]
            .as_object()
            .expect("tiers by object")
            .iter()
            .map(|(k, tier)| (k.clone(), number(tier)))
            .collect();
        assert_eq!(put, best);
    }
}

/// The best total of any placement, by exhaustive search.
fn by_trying_all(case: &Case) -> i128 {
    fn go(case: &Case, k: usize, left: &mut [u64]) -> i128 {
        if k == case.scores.len() {
            return 0;
        }
        let mut best = go(case, k + 1, left);
        for tier in 0..case.tiers.len() {
            if left[tier] >= case.sizes[k] {
                left[tier] -= case.sizes[k];
                best = best.max(case.given().worth(k, tier as u8) + go(case, k + 1, left));
                left[tier] += case.sizes[k];
            }
        }
        best
    }
    let mut left: Vec<u64> = case.tiers.iter().map(|tier| tier.octets).collect();
    go(case, 0, &mut left)
}

/// A case of nine objects of one size or of different sizes in two or three tiers.
fn random(state: &mut u64, one_size: bool) -> Case {
    let mut draw = |below: u64| xorshift(state) % below;
    let n = 9;
    let tiers = 2 + draw(2) as usize;
    let scores = (0..n).map(|_| draw(1000)).collect();
    let sizes = (0..n).map(|_| if one_size { 10 } else { 1 + draw(40) }).collect();
    let rates = [25, 5, 2];
    let tier = |j: usize, draw: &mut dyn FnMut(u64) -> u64| Tier {
        octets: if one_size { 10 * (1 + draw(4)) + 5 } else { 20 + draw(60) },
        rate: rates[j],
        admit: draw(400),
        evict: draw(100),
    };
    let tiers: Vec<Tier> = (0..tiers).map(|j| tier(j, &mut draw)).collect();
    let mut case =
        Case { scores, sizes, weight: [0, 1, 10, 50][draw(4) as usize], now: vec![NOWHERE; n], tiers };
    let mut left: Vec<u64> = case.tiers.iter().map(|tier| tier.octets).collect();
    for k in 0..n {
        let tier = draw(left.len() as u64 + 1) as usize;
        if left.get(tier).is_some_and(|left| *left >= case.sizes[k]) {
            left[tier] -= case.sizes[k];
            case.now[k] = tier as u8;
        }
    }
    case
}

#[test]
fn random_tiers_of_equal_sizes_are_exact() {
    let mut state = 11;
    for round in 0..300 {
        let case = random(&mut state, true);
        assert_eq!(case.placed().0, by_trying_all(&case), "round {round}");
    }
}

#[test]
fn random_tiers_of_unequal_sizes_reach_90_percent() {
    let (mut state, mut sum, mut least) = (13, 0.0, 1.0f64);
    for _ in 0..300 {
        let case = random(&mut state, false);
        let (placed, best) = (case.placed().0, by_trying_all(&case));
        let share = if best == 0 { 1.0 } else { placed as f64 / best as f64 };
        (sum, least) = (sum + share, least.min(share));
    }
    println!("{:.4} of the best on average, at least {least:.4}", sum / 300.0);
    assert!(least >= 0.9, "{least}");
}

#[test]
fn an_arrival_displaces_to_the_next_tier() {
    for value in golden("tiers").iter().filter(|c| c["case"] == "assign") {
        let case = Case::read(value);
        let (mut at, mut steps) = (case.now.clone(), Vec::new());
        arrive(&case.given(), number(&value["arrives"]) as usize, &mut at, &mut steps);
        let moves = list(&value["moves"]).iter().map(|step| Arrival {
            object: number(&step[0]) as usize,
            tier: step[1].as_u64().map_or(NOWHERE, |tier| tier as u8),
        });
        assert_eq!(steps, moves.collect::<Vec<_>>());
        let full = |j: usize| at.iter().filter(|tier| usize::from(**tier) == j).count() as u64;
        assert!((0..case.tiers.len()).all(|j| full(j) <= case.tiers[j].octets));
    }
}

#[test]
fn four_thousand_objects_stay_within_search_bounds() {
    let mut state = 17;
    for one_size in [true, false] {
        let n = namely_vip::limits::OBJECTS_MAX;
        let scores: Vec<u64> = (0..n).map(|_| xorshift(&mut state) >> 8).collect();
        let sizes: Vec<u64> =
            (0..n).map(|_| if one_size { 1 << 30 } else { 1 + (xorshift(&mut state) >> 32) }).collect();
        let tier =
            |share: u64, rate| Tier { octets: (n as u64 / share) << 30, rate, admit: 1 << 40, evict: 0 };
        let tiers = vec![tier(40, 1 << 34), tier(4, 1 << 31)];
        let case = Case { scores, sizes, tiers, weight: 3, now: vec![NOWHERE; n] };
        let began = std::time::Instant::now();
        assert!(case.placed().0 > 0);
        println!("one size {one_size}: {:?}", began.elapsed());
    }
}

#[test]
fn placement_golden_files_match_the_model() {
    model::compare_with_the_model("tiers");
}
