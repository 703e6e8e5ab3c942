//! The most valuable set of objects within a number of octets.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::limits::SEARCH_STEPS_MAX;

/// A search for the best set. It first takes objects by value per octet, then searches depth first
/// through the sets that could have a larger value, until [`SEARCH_STEPS_MAX`] objects were
/// visited. The better of the first descent and the best single object has at least half of the
/// optimal value. All memory is allocated once.
#[derive(Clone, Debug)]
pub struct Knapsack {
    /// Objects by decreasing value per octet.
    order: Vec<u32>,
    /// Positions in `order` of the current path, and of the best set.
    taken: Vec<u32>,
    best: Vec<u32>,
}

impl Knapsack {
    /// A search for up to this many objects.
    pub fn new(objects: usize) -> Self {
        Knapsack {
            order: Vec::with_capacity(objects),
            taken: Vec::with_capacity(objects),
            best: Vec::with_capacity(objects),
        }
    }

    /// The objects of the best set within `room` octets, without those of value 0. Equal values per
    /// octet are ordered by `favoured`, then by index. If all sizes are equal, the set consists of
    /// the most valuable objects.
    ///
    /// Values are at most [`crate::COUNT_MAX`], sizes at least 1.
    pub fn fill(
        &mut self,
        values: &[u64],
        sizes: &[u64],
        room: u64,
        favoured: impl Fn(usize) -> bool,
    ) -> &[u32] {
        self.order.clear();
        let able = (0..values.len()).filter(|k| values[*k] > 0 && sizes[*k] <= room);
        self.order.extend(able.map(|k| k as u32));
        self.order.sort_unstable_by(|&a, &b| {
            let (k, o) = (a as usize, b as usize);
            by_density(values[o], sizes[o], values[k], sizes[k])
                .then_with(|| favoured(o).cmp(&favoured(k)))
                .then(a.cmp(&b))
        });
        self.search(values, sizes, room);
        for index in &mut self.best {
            *index = self.order[*index as usize];
        }
        &self.best
    }

    /// Finds the positions in `order` of the best set.
    fn search(&mut self, values: &[u64], sizes: &[u64], room: u64) {
        let value = |index: usize| u128::from(values[self.order[index] as usize]);
        let size = |index: usize| sizes[self.order[index] as usize];
        // With equal sizes, no set is better than the first descent.
        let is_exact = self.order.windows(2).all(|pair| sizes[pair[0] as usize] == sizes[pair[1] as usize]);
        self.taken.clear();
        self.best.clear();
        let (mut best, mut total, mut left, mut index, mut steps) = (0, 0u128, room, 0, 0);
        if let Some(one) = (0..self.order.len()).max_by_key(|&index| (value(index), usize::MAX - index)) {
            best = value(one);
            self.best.push(one as u32);
        }
        loop {
            // The remaining objects have at most the next one's value per octet. This bounds their
            // value.
            let may_gain = |index: usize, total: u128, left: u64| {
                let missing = best.saturating_sub(total);
                total > best || missing * u128::from(size(index)) < u128::from(left) * value(index)
            };
            while index < self.order.len() && may_gain(index, total, left) {
                if size(index) <= left {
                    (total, left) = (total + value(index), left - size(index));
                    self.taken.push(index as u32);
                }
                (index, steps) = (index + 1, steps + 1);
            }
            // Of two equal sets, the one by value per octet is preferred, because it was found
            // first.
            if total > best || (total == best && self.best.len() == 1) {
                best = total;
                self.best.clone_from(&self.taken);
            }
            let Some(last) = self.taken.pop() else { return };
            if is_exact || steps >= SEARCH_STEPS_MAX {
                return;
            }
            let last = last as usize;
            (total, left, index) = (total - value(last), left + size(last), last + 1);
        }
    }
}

/// Compares two values per octet.
fn by_density(value: u64, octets: u64, other_value: u64, other_octets: u64) -> Ordering {
    if octets == other_octets {
        return value.cmp(&other_value);
    }
    let this = u128::from(value) * u128::from(other_octets);
    this.cmp(&(u128::from(other_value) * u128::from(octets)))
}
