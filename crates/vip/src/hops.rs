//! The neighbors that may receive an object's VIPs: those among the FIB's next hops.

use alloc::vec::Vec;

use crate::limits::NEIGHBOURS_MAX;

/// Next hops of each object, cheapest first.
#[derive(Clone, Debug)]
pub(crate) struct Hops {
    /// Bit b is set if neighbor b is a next hop.
    sets: Vec<u64>,
    /// The next hops in the order of the FIB. Only as many entries are used as the set has bits.
    orders: Vec<[u8; NEIGHBOURS_MAX]>,
}

impl Hops {
    pub(crate) fn new(objects: usize) -> Self {
        Hops { sets: alloc::vec![0; objects], orders: alloc::vec![[0; NEIGHBOURS_MAX]; objects] }
    }

    /// Replaces the next hops of object `k`. Duplicates and unknown neighbors are skipped.
    pub(crate) fn set(&mut self, k: usize, neighbours: impl IntoIterator<Item = usize>) {
        let (set, order) = (&mut self.sets[k], &mut self.orders[k]);
        *set = 0;
        for b in neighbours {
            if b < NEIGHBOURS_MAX && *set & 1 << b == 0 {
                order[set.count_ones() as usize] = b as u8;
                *set |= 1 << b;
            }
        }
    }

    /// Returns true if `b` is a next hop of `k`.
    pub(crate) fn contains(&self, k: usize, b: usize) -> bool {
        self.sets[k] & 1 << b != 0
    }

    /// The next hops of `k`, cheapest first.
    pub(crate) fn of(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        let count = self.sets[k].count_ones() as usize;
        self.orders[k][..count].iter().map(|b| usize::from(*b))
    }
}
