//! Which neighbours an object's VIPs may go to: those among the FIB's next hops.

use alloc::vec::Vec;

use crate::limits::NEIGHBOURS_MAX;

/// Next hops of each object, cheapest first.
#[derive(Clone, Debug)]
pub(crate) struct Hops {
    /// Bit b: neighbour b is a next hop.
    sets: Vec<u64>,
    /// In the order of the FIB; as many as the set has bits count.
    orders: Vec<[u8; NEIGHBOURS_MAX]>,
}

impl Hops {
    pub(crate) fn new(objects: usize) -> Self {
        Hops { sets: alloc::vec![0; objects], orders: alloc::vec![[0; NEIGHBOURS_MAX]; objects] }
    }

    /// Replaces those of object `k`. What is named twice, or is no neighbour, is left out.
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

    /// Those of `k`, cheapest first.
    pub(crate) fn of(&self, k: usize) -> impl Iterator<Item = usize> + '_ {
        let count = self.sets[k].count_ones() as usize;
        self.orders[k][..count].iter().map(|b| usize::from(*b))
    }
}
