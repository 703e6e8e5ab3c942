//! The placement of objects in cache tiers (VI-19, X-04; Algorithm 2 of Yeh et al. 2014, and Mutlu
//! and Yeh, arXiv 2310.07243, for tiers).
//!
//! Object k in tier j is worth `rate_j x score_k + weight x evict_j` if it is there already, and
//! `rate_j x score_k - weight x admit_j` if it would have to be admitted. The total is maximized.
//! Each object is in one tier at most, and only where its worth is positive.
//!
//! If all objects have one size the result is exact (`exchange`), as long as
//! [`crate::limits::PLACEMENT_STEPS_MAX`] exchanges suffice. For unequal sizes a bounded search
//! finds the best set for one tier (`knapsack`); several tiers are filled one after the other and
//! improved by moves and swaps (`swap`).

mod arrive;
mod exchange;
mod knapsack;
mod swap;

use alloc::vec::Vec;

pub use arrive::{Arrival, arrive};
pub use knapsack::Knapsack;

use crate::count::{COUNT_MAX, UNIT};
use crate::limits::{REFILLS_MAX, TIERS_MAX};

/// The tier of an object that is in no tier.
pub const NOWHERE: u8 = u8::MAX;

/// A cache tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// Capacity, octets.
    pub octets: u64,
    /// Read rate, octets in a slot. It determines the drained VIPs and the worth of an object.
    pub rate: u64,
    /// Cost of admitting an object.
    pub admit: u64,
    /// Cost of evicting an object.
    pub evict: u64,
}

/// Largest rate of a tier, octets in a slot, and largest weighted cost. They keep sums over all
/// objects below 2^126.
const RATE_MAX: u64 = 1 << 50;
const COST_MAX: u128 = 1 << 110;

impl Tier {
    /// A tier in which admission and eviction each cost as much as the worth of reading one VIP. At
    /// every border of tiers, an object therefore replaces another one of equal size only if its
    /// score is larger by more than twice the weight.
    pub fn new(octets: u64, rate: u64) -> Self {
        let cost = UNIT.saturating_mul(rate);
        Tier { octets, rate, admit: cost, evict: cost }
    }

    /// The worth of reading an object with this score.
    fn reads(&self, score: u64) -> i128 {
        i128::from(self.rate.min(RATE_MAX)) * i128::from(score.min(COUNT_MAX))
    }
}

/// A cost, weighted.
fn cost(weight: u64, cost: u64) -> i128 {
    (u128::from(weight) * u128::from(cost)).min(COST_MAX) as i128
}

/// The input of a placement.
#[derive(Clone, Copy, Debug)]
pub struct PlacementInput<'a> {
    /// Score of each object; 0 for one that must not be cached.
    pub scores: &'a [u64],
    /// Octets of each object.
    pub sizes: &'a [u64],
    /// The tiers, at most [`TIERS_MAX`].
    pub tiers: &'a [Tier],
    /// Weight of the costs of admission and eviction.
    pub weight: u64,
    /// The current tier of each object, or [`NOWHERE`].
    pub now: &'a [u8],
}

impl PlacementInput<'_> {
    /// The worth of object `k` in `tier`; 0 in [`NOWHERE`].
    pub fn worth(&self, k: usize, tier: u8) -> i128 {
        let Some(t) = self.tiers.get(usize::from(tier)) else { return 0 };
        let reads = t.reads(self.scores[k]);
        if self.now[k] == tier {
            reads + cost(self.weight, t.evict)
        } else {
            reads - cost(self.weight, t.admit)
        }
    }

    /// The worth of a placement.
    pub fn total(&self, at: &[u8]) -> i128 {
        at.iter().enumerate().map(|(k, tier)| self.worth(k, *tier)).sum()
    }

    /// The common size of all objects, if they have one.
    fn one_size(&self) -> Option<u64> {
        let first = *self.sizes.first()?;
        self.sizes.iter().all(|size| *size == first).then_some(first)
    }

    /// Free octets of each tier.
    fn left(&self, at: &[u8]) -> [u64; TIERS_MAX] {
        let mut left = [0; TIERS_MAX];
        for (left, tier) in left.iter_mut().zip(self.tiers) {
            *left = tier.octets;
        }
        for (k, tier) in at.iter().enumerate() {
            if let Some(left) = left.get_mut(usize::from(*tier)) {
                *left = left.saturating_sub(self.sizes[k]);
            }
        }
        left
    }

    /// The tiers, by decreasing read rate.
    fn by_rate(&self) -> impl DoubleEndedIterator<Item = u8> + use<> {
        let mut order: [u8; TIERS_MAX] = core::array::from_fn(|j| j as u8);
        let count = self.tiers.len().min(TIERS_MAX);
        order[..count].sort_by_key(|j| core::cmp::Reverse(self.tiers[usize::from(*j)].rate));
        order.into_iter().take(count)
    }
}

/// Computes placements. All memory is allocated once.
#[derive(Clone, Debug)]
pub struct Placer {
    knapsack: Knapsack,
    order: Vec<u32>,
    values: Vec<u64>,
    /// Three placements: two initial ones, and the current one.
    at: [Vec<u8>; 3],
}

impl Placer {
    /// A placer for this many objects.
    pub fn new(objects: usize) -> Self {
        Placer {
            knapsack: Knapsack::new(objects),
            order: (0..objects as u32).collect(),
            values: alloc::vec![0; objects],
            at: core::array::from_fn(|_| alloc::vec![NOWHERE; objects]),
        }
    }

    /// Writes the best placement found to `placed`.
    pub fn place(&mut self, given: &PlacementInput<'_>, placed: &mut [u8]) {
        match given.one_size() {
            _ if given.tiers.is_empty() => placed.fill(NOWHERE),
            Some(size) => {
                self.better_start(given);
                exchange::improve(given, size, &mut self.at[0]);
                placed.copy_from_slice(&self.at[0]);
            }
            None => {
                self.as_now(given);
                self.tier_by_tier(given, 0, given.by_rate());
                self.tier_by_tier(given, 2, given.by_rate().rev());
                for start in 0..self.at.len() {
                    self.improve(given, start);
                }
                let best = self.at.iter().max_by_key(|at| given.total(at));
                best.into_iter().for_each(|at| placed.copy_from_slice(at));
            }
        }
    }

    /// Moves and swaps single objects and refills tiers, as long as that gains.
    fn improve(&mut self, given: &PlacementInput<'_>, start: usize) {
        for _ in 0..REFILLS_MAX {
            swap::improve(given, &mut self.at[start]);
            let mut has_gained = false;
            for tier in given.by_rate() {
                has_gained |= self.refill(given, start, tier);
            }
            if !has_gained {
                return;
            }
        }
    }

    /// Starts with the objects sorted by score in the tiers sorted by rate, or with the current
    /// placement if that is worth more.
    fn better_start(&mut self, given: &PlacementInput<'_>) {
        self.order.sort_unstable_by_key(|&k| (core::cmp::Reverse(given.scores[k as usize]), k));
        let at = &mut self.at[0];
        at.fill(NOWHERE);
        let mut wanted = self.order.iter().map(|k| *k as usize).filter(|k| given.scores[*k] > 0);
        for tier in given.by_rate() {
            let size = given.sizes.first().copied().unwrap_or(1).max(1);
            let slots = given.tiers[usize::from(tier)].octets / size;
            let slots = usize::try_from(slots).unwrap_or(usize::MAX);
            wanted.by_ref().take(slots).for_each(|k| at[k] = tier);
        }
        self.as_now(given);
        if given.total(&self.at[1]) > given.total(&self.at[0]) {
            self.at.swap(0, 1);
        }
    }

    /// Writes the current placement, as far as there is room, to the second one.
    fn as_now(&mut self, given: &PlacementInput<'_>) {
        let at = &mut self.at[1];
        at.fill(NOWHERE);
        let mut left = given.left(at);
        self.order.sort_unstable_by_key(|&k| (core::cmp::Reverse(given.scores[k as usize]), k));
        for k in self.order.iter().map(|k| *k as usize) {
            if let Some(left) = left.get_mut(usize::from(given.now[k]))
                && *left >= given.sizes[k]
            {
                *left -= given.sizes[k];
                at[k] = given.now[k];
            }
        }
    }

    /// Fills the tiers in this order, each with the best set of the remaining objects.
    fn tier_by_tier(&mut self, given: &PlacementInput<'_>, start: usize, tiers: impl Iterator<Item = u8>) {
        self.at[start].fill(NOWHERE);
        for tier in tiers {
            self.refill(given, start, tier);
        }
    }

    /// Refills a tier with the best set of its objects and those in no tier. Returns true if that
    /// gains.
    fn refill(&mut self, given: &PlacementInput<'_>, start: usize, tier: u8) -> bool {
        let at = &mut self.at[start];
        let is_able = |at: u8| at == NOWHERE || at == tier;
        let worth = |k: usize| given.worth(k, tier).max(0) as u128;
        let most = (0..at.len()).filter(|k| is_able(at[*k])).map(worth).max().unwrap_or(0);
        // Scales all values so that the largest fits the search.
        let excess = (128 - most.leading_zeros()).saturating_sub(60);
        for (k, value) in self.values.iter_mut().enumerate() {
            *value = if is_able(at[k]) { (worth(k) >> excess) as u64 } else { 0 };
        }
        let room = given.tiers[usize::from(tier)].octets;
        let kept = self.knapsack.fill(&self.values, given.sizes, room, |_| false);
        let before: i128 = (0..at.len()).filter(|k| at[*k] == tier).map(|k| given.worth(k, tier)).sum();
        let after: i128 = kept.iter().map(|k| given.worth(*k as usize, tier)).sum();
        if after <= before {
            return false;
        }
        at.iter_mut().filter(|at| **at == tier).for_each(|at| *at = NOWHERE);
        kept.iter().for_each(|k| at[*k as usize] = tier);
        true
    }
}
