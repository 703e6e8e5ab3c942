//! Selects the most requested objects for the plane (VI-04), by a decayed count of each. A
//! registered object stays until another one is clearly more popular, so that two equally popular
//! objects do not alternate.

use alloc::vec::Vec;

use crate::count::{Decay, add};

/// Popularity that an object needs to replace another one, in percent of the other's.
pub const HYSTERESIS_PERCENT: u64 = 110;

/// Counts of the objects of a catalogue. All memory is allocated once.
#[derive(Clone, Debug)]
pub struct Popularity {
    counts: Vec<u64>,
    decay: Decay,
}

impl Popularity {
    /// Counts for this many objects, all zero; `decay` is applied by each [`Popularity::fade`].
    pub fn new(objects: usize, decay: Decay) -> Self {
        Popularity { counts: alloc::vec![0; objects], decay }
    }

    /// Adds VIPs to the count of an object, in [`crate::UNIT`].
    pub fn add_demand(&mut self, object: usize, vips: u64) {
        if let Some(count) = self.counts.get_mut(object) {
            *count = add(*count, vips).0;
        }
    }

    /// Decays all counts.
    pub fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| *count = self.decay.of(*count));
    }

    /// The decayed count of an object.
    pub fn count(&self, object: usize) -> u64 {
        self.counts.get(object).copied().unwrap_or(0)
    }

    /// Selects the objects to register, at most `most`, sorted by index. Objects of `now` stay,
    /// except the least popular ones that a sufficiently more popular object replaces. Free slots
    /// are filled with the most popular objects, and with the first of equal ones.
    pub fn choose(&self, now: &[u32], most: usize) -> Vec<u32> {
        let mut is_in = alloc::vec![false; self.counts.len()];
        for object in now.iter().take(most) {
            if let Some(is_in) = is_in.get_mut(*object as usize) {
                *is_in = true;
            }
        }
        let of = |is_in: &[bool], which: bool| {
            let mut objects: Vec<u32> =
                (0..is_in.len() as u32).filter(|k| is_in[*k as usize] == which).collect();
            objects.sort_by_key(|k| core::cmp::Reverse(self.count(*k as usize)));
            objects
        };
        let (inside, outside) = (of(&is_in, true), of(&is_in, false));
        let mut coming = outside.into_iter();
        let free = most.saturating_sub(inside.len());
        coming.by_ref().take(free).for_each(|k| is_in[k as usize] = true);
        for (leaving, k) in inside.into_iter().rev().zip(coming) {
            let (old, new) = (self.count(leaving as usize), self.count(k as usize));
            if u128::from(new) * 100 <= u128::from(old) * u128::from(HYSTERESIS_PERCENT) {
                break;
            }
            (is_in[leaving as usize], is_in[k as usize]) = (false, true);
        }
        (0..is_in.len() as u32).filter(|k| is_in[*k as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{COUNT_MAX, UNIT};

    fn of(counts: &[u64]) -> Popularity {
        let mut popularity = Popularity::new(counts.len(), Decay::from_factor(1 << 31));
        counts.iter().enumerate().for_each(|(k, vips)| popularity.add_demand(k, vips * UNIT));
        popularity
    }

    #[test]
    fn the_most_popular_blocks_are_chosen() {
        assert_eq!(of(&[1, 5, 3, 5, 0]).choose(&[], 3), [1, 2, 3]);
        assert_eq!(of(&[0; 5]).choose(&[], 3), [0, 1, 2]);
        assert_eq!(of(&[1, 2]).choose(&[], 3), [0, 1]);
        assert_eq!(of(&[1, 2]).choose(&[0, 1], 0), [0; 0]);
        // An unknown index is ignored.
        assert_eq!(of(&[1, 2]).choose(&[0, 7], 1), [1]);
    }

    #[test]
    fn only_clearly_more_popular_blocks_replace_others() {
        assert_eq!(of(&[100, 110]).choose(&[0], 1), [0]);
        assert_eq!(of(&[100, 111]).choose(&[0], 1), [1]);
        assert_eq!(of(&[0, 1]).choose(&[0], 1), [1]);
        assert_eq!(of(&[0, 0]).choose(&[1], 1), [1], "what is there stays");
        // The least popular ones are replaced first, by the most popular ones.
        assert_eq!(of(&[10, 1, 5, 4, 20]).choose(&[0, 1, 2], 3), [0, 2, 4]);
        assert_eq!(of(&[10, 1, 2, 40, 20]).choose(&[0, 1, 2], 3), [0, 3, 4]);
    }

    #[test]
    fn popularity_counts_fade_and_saturate() {
        let mut popularity = of(&[8, 1]);
        popularity.fade();
        assert_eq!((popularity.count(0), popularity.count(1)), (4 * UNIT, UNIT / 2));
        popularity.add_demand(0, u64::MAX);
        popularity.add_demand(9, 1);
        assert_eq!((popularity.count(0), popularity.count(9)), (COUNT_MAX, 0));
    }

    /// VI-04: 6000 blocks are requested by a Zipf law such that 400 of them cover 80 % of the
    /// requests. The blocks that are measured and chosen cover nearly as many.
    #[test]
    fn four_hundred_blocks_cover_most_requests() {
        const BLOCKS: usize = 6000;
        // Weights of 1 / rank^1.105, in integers: the first 400 have four fifths of the sum.
        let weights: Vec<u64> = (0..BLOCKS).map(|k| (1e9 / (k as f64 + 1.0).powf(1.105)) as u64).collect();
        let sums: Vec<u64> = weights
            .iter()
            .scan(0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let all = sums[BLOCKS - 1];
        assert_eq!(sums[399] * 100 / all, 80);
        let mut popularity = Popularity::new(BLOCKS, Decay::from_half_life(600_000, 60_000));
        let (mut seed, mut chosen, mut hits) = (4711u64, Vec::new(), 0u64);
        const REQUESTS: u64 = 60_000;
        for n in 0..2 * REQUESTS {
            if n % 5000 == 0 {
                popularity.fade();
                chosen = popularity.choose(&chosen, 400);
            }
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let drawn = (seed >> 11) % all;
            let rank = sums.partition_point(|sum| *sum <= drawn);
            // Spreads the ranks over the catalogue.
            let block = rank * 4001 % BLOCKS;
            popularity.add_demand(block, UNIT);
            hits += u64::from(n >= REQUESTS && chosen.binary_search(&(block as u32)).is_ok());
        }
        let best = REQUESTS * sums[399] / all;
        assert!(hits * 100 >= best * 96, "{hits} of {best}");
        assert_eq!(chosen.len(), 400);
    }
}
