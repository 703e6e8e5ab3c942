//! What is kept, and in which tier (VI-19, X-04; Algorithm 2 of Yeh et al. 2014, and Mutlu and Yeh,
//! arXiv 2310.07243, for tiers).
//!
//! Object k in tier j is worth `rate_j x score_k + weight x evict_j` if it is there already, and
//! `rate_j x score_k - weight x admit_j` if it would have to come. The whole is to be worth as much
//! as can be; each object is in one tier at most, and where it is worth more than nothing.
//!
//! Where all objects have one size the answer is exact (`exchange`), as long as
//! [`crate::limits::PLACEMENT_STEPS_MAX`] exchanges lead to it. Of unequal sizes a bounded search
//! finds the best set for one tier (`knapsack`); several tiers are filled one after the other and
//! bettered by moves and swaps (`swap`).

mod arrive;
mod exchange;
mod knapsack;
mod swap;

use alloc::vec::Vec;

pub use arrive::{Arrival, arrive};
pub use knapsack::Knapsack;

use crate::count::{COUNT_MAX, UNIT};
use crate::limits::{REFILLS_MAX, TIERS_MAX};

/// The tier of an object that is kept in none.
pub const NOWHERE: u8 = u8::MAX;

/// A place where objects are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tier {
    /// Room, octets.
    pub octets: u64,
    /// What can be read of it, octets in a slot: what it drains, and what an object in it is worth.
    pub rate: u64,
    /// What it costs to admit an object.
    pub admit: u64,
    /// What it costs to evict an object.
    pub evict: u64,
}

/// Largest rate of a tier that counts, octets in a slot, and largest cost with its weight: sums
/// over all objects are below 2^126.
const RATE_MAX: u64 = 1 << 50;
const COST_MAX: u128 = 1 << 110;

impl Tier {
    /// One where to admit an object, and to evict one, costs as much as reading a VIP of it is
    /// worth, times the weight. So of two objects of one size the other takes a place only if its
    /// score is larger by more than twice the weight, at every border alike.
    pub fn new(octets: u64, rate: u64) -> Self {
        let cost = UNIT.saturating_mul(rate);
        Tier { octets, rate, admit: cost, evict: cost }
    }

    /// What reading an object of this score is worth.
    fn reads(&self, score: u64) -> i128 {
        i128::from(self.rate.min(RATE_MAX)) * i128::from(score.min(COUNT_MAX))
    }
}

/// A cost, weighted.
fn cost(weight: u64, cost: u64) -> i128 {
    (u128::from(weight) * u128::from(cost)).min(COST_MAX) as i128
}

/// What a placement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Score of each object; of one that is not to be kept, 0.
    pub scores: &'a [u64],
    /// Octets of each object.
    pub sizes: &'a [u64],
    /// The tiers, at most [`TIERS_MAX`].
    pub tiers: &'a [Tier],
    /// Weight of the costs of admission and eviction.
    pub weight: u64,
    /// Where each object is now: a tier or [`NOWHERE`].
    pub now: &'a [u8],
}

impl Given<'_> {
    /// What object `k` is worth in `tier`; nothing in [`NOWHERE`].
    pub fn worth(&self, k: usize, tier: u8) -> i128 {
        let Some(t) = self.tiers.get(usize::from(tier)) else { return 0 };
        let reads = t.reads(self.scores[k]);
        if self.now[k] == tier {
            reads + cost(self.weight, t.evict)
        } else {
            reads - cost(self.weight, t.admit)
        }
    }

    /// What a placement is worth.
    pub fn total(&self, at: &[u8]) -> i128 {
        at.iter().enumerate().map(|(k, tier)| self.worth(k, *tier)).sum()
    }

    /// The size that all objects have, if they have one.
    fn one_size(&self) -> Option<u64> {
        let first = *self.sizes.first()?;
        self.sizes.iter().all(|size| *size == first).then_some(first)
    }

    /// What is free in each tier, octets.
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

    /// The tiers, those that are read fastest first.
    fn by_rate(&self) -> impl DoubleEndedIterator<Item = u8> + use<> {
        let mut order: [u8; TIERS_MAX] = core::array::from_fn(|j| j as u8);
        let count = self.tiers.len().min(TIERS_MAX);
        order[..count].sort_by_key(|j| core::cmp::Reverse(self.tiers[usize::from(*j)].rate));
        order.into_iter().take(count)
    }
}

/// Makes placements. Its memory is made once.
#[derive(Clone, Debug)]
pub struct Placer {
    knapsack: Knapsack,
    order: Vec<u32>,
    values: Vec<u64>,
    /// Three placements: two to begin with, and as it is now.
    at: [Vec<u8>; 3],
}

impl Placer {
    /// For so many objects.
    pub fn new(objects: usize) -> Self {
        Placer {
            knapsack: Knapsack::new(objects),
            order: (0..objects as u32).collect(),
            values: alloc::vec![0; objects],
            at: core::array::from_fn(|_| alloc::vec![NOWHERE; objects]),
        }
    }

    /// The best placement that is found, into `placed`.
    pub fn place(&mut self, given: &Given<'_>, placed: &mut [u8]) {
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

    /// Moves and swaps single objects and fills tiers anew, as long as that gains.
    fn improve(&mut self, given: &Given<'_>, start: usize) {
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

    /// By score into the tiers by rate, or as it is now if that is worth more.
    fn better_start(&mut self, given: &Given<'_>) {
        self.order.sort_unstable_by_key(|&k| (core::cmp::Reverse(given.scores[k as usize]), k));
        let at = &mut self.at[0];
        at.fill(NOWHERE);
        let mut wanted = self.order.iter().map(|k| *k as usize).filter(|k| given.scores[*k] > 0);
        for tier in given.by_rate() {
            let size = given.sizes.first().copied().unwrap_or(1).max(1);
            let places = given.tiers[usize::from(tier)].octets / size;
            let places = usize::try_from(places).unwrap_or(usize::MAX);
            wanted.by_ref().take(places).for_each(|k| at[k] = tier);
        }
        self.as_now(given);
        if given.total(&self.at[1]) > given.total(&self.at[0]) {
            self.at.swap(0, 1);
        }
    }

    /// As it is now, as far as there is room, into the second.
    fn as_now(&mut self, given: &Given<'_>) {
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

    /// The best set for each tier, in this order, of what those before it have left.
    fn tier_by_tier(&mut self, given: &Given<'_>, start: usize, tiers: impl Iterator<Item = u8>) {
        self.at[start].fill(NOWHERE);
        for tier in tiers {
            self.refill(given, start, tier);
        }
    }

    /// Fills a tier anew with the best set of what is in it and in none. Returns true if that
    /// gains.
    fn refill(&mut self, given: &Given<'_>, start: usize, tier: u8) -> bool {
        let at = &mut self.at[start];
        let is_able = |at: u8| at == NOWHERE || at == tier;
        let worth = |k: usize| given.worth(k, tier).max(0) as u128;
        let most = (0..at.len()).filter(|k| is_able(at[*k])).map(worth).max().unwrap_or(0);
        // As many bits as a search takes, of the largest.
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
