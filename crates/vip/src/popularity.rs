//! Which of many objects are worth a place in the plane (VI-04): those that were asked for most, by
//! a decayed count of each. What is registered stays until another one is clearly more popular, so
//! that two alike do not take turns.

use alloc::vec::Vec;

use crate::count::{Decay, add};

/// How much more popular one must be than another whose place it takes, in percent of that.
pub const HYSTERESIS_PERCENT: u64 = 110;

/// Counts of the objects of a catalogue. Its memory is made with it.
#[derive(Clone, Debug)]
pub struct Popularity {
    counts: Vec<u64>,
    decay: Decay,
}

impl Popularity {
    /// Of so many objects, none of which was asked for; `decay` is what is left of counts after
    /// each [`Popularity::fade`].
    pub fn new(objects: usize, decay: Decay) -> Self {
        Popularity { counts: alloc::vec![0; objects], decay }
    }

    /// So many VIPs of an object were asked for, in [`crate::UNIT`].
    pub fn ask(&mut self, object: usize, vips: u64) {
        if let Some(count) = self.counts.get_mut(object) {
            *count = add(*count, vips).0;
        }
    }

    /// Old counts count for less from now on.
    pub fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| *count = self.decay.of(*count));
    }

    /// What is left of the VIPs of an object.
    pub fn count(&self, object: usize) -> u64 {
        self.counts.get(object).copied().unwrap_or(0)
    }

    /// The objects that are to be registered, at most `most`, by rising index: those of `now` that
    /// are still there, but for the least popular ones where another is popular enough. Free places
    /// go to the most popular ones, and of equal ones to the first.
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
        counts.iter().enumerate().for_each(|(k, vips)| popularity.ask(k, vips * UNIT));
        popularity
    }

    #[test]
    fn the_most_popular_have_the_places_and_of_equal_ones_the_first() {
        assert_eq!(of(&[1, 5, 3, 5, 0]).choose(&[], 3), [1, 2, 3]);
        assert_eq!(of(&[0; 5]).choose(&[], 3), [0, 1, 2]);
        assert_eq!(of(&[1, 2]).choose(&[], 3), [0, 1]);
        assert_eq!(of(&[1, 2]).choose(&[0, 1], 0), [0; 0]);
        // One that is not there is none.
        assert_eq!(of(&[1, 2]).choose(&[0, 7], 1), [1]);
    }

    #[test]
    fn one_that_is_registered_gives_way_to_one_that_is_more_than_a_tenth_more_popular() {
        assert_eq!(of(&[100, 110]).choose(&[0], 1), [0]);
        assert_eq!(of(&[100, 111]).choose(&[0], 1), [1]);
        assert_eq!(of(&[0, 1]).choose(&[0], 1), [1]);
        assert_eq!(of(&[0, 0]).choose(&[1], 1), [1], "what is there stays");
        // The least popular go first, for the most popular.
        assert_eq!(of(&[10, 1, 5, 4, 20]).choose(&[0, 1, 2], 3), [0, 2, 4]);
        assert_eq!(of(&[10, 1, 2, 40, 20]).choose(&[0, 1, 2], 3), [0, 3, 4]);
    }

    #[test]
    fn counts_fade_and_end_at_their_limit() {
        let mut popularity = of(&[8, 1]);
        popularity.fade();
        assert_eq!((popularity.count(0), popularity.count(1)), (4 * UNIT, UNIT / 2));
        popularity.ask(0, u64::MAX);
        popularity.ask(9, 1);
        assert_eq!((popularity.count(0), popularity.count(9)), (COUNT_MAX, 0));
    }

    /// VI-04: of 6000 blocks asked for by a Zipf law such that 400 cover 80 % of the requests,
    /// those that are measured and chosen cover nearly as many.
    #[test]
    fn four_hundred_of_six_thousand_blocks_cover_four_fifths_of_the_requests() {
        const BLOCKS: usize = 6000;
        // Weights that fall as 1 / rank^1.105, in integers: 400 of them are four fifths.
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
            // Ranks are all over the catalogue.
            let block = rank * 4001 % BLOCKS;
            popularity.ask(block, UNIT);
            hits += u64::from(n >= REQUESTS && chosen.binary_search(&(block as u32)).is_ok());
        }
        let best = REQUESTS * sums[399] / all;
        assert!(hits * 100 >= best * 96, "{hits} of {best}");
        assert_eq!(chosen.len(), 400);
    }
}
