//! The dead-nonce list: Nonces of Interests that are no longer pending, remembered for a while so that a
//! looping Interest that outlived its PIT entry is still recognized.
//!
//! Names are not kept. A key mixes the Nonce into the name's keyed 64-bit hash; the one thing a false match
//! could do is refuse an Interest once, whose sender then tries again with another Nonce.

use alloc::collections::VecDeque;

use crate::chains::{Chained, Chains};
use crate::hash::{STEP, mix};
use crate::slab::{Id, NONE};

/// Remembered Nonces, oldest first out.
pub(crate) struct DeadNonces {
    table: Chains<DeadNonce>,
    oldest_first: VecDeque<Id>,
    entries_max: usize,
    lifetime_ns: u64,
}

struct DeadNonce {
    key: u64,
    next: Id,
    forgotten_at_ns: u64,
}

impl Chained for DeadNonce {
    fn hash(&self) -> u64 {
        self.key
    }
    fn next(&self) -> Id {
        self.next
    }
    fn set_next(&mut self, next: Id) {
        self.next = next;
    }
}

impl DeadNonces {
    pub(crate) fn new(entries_max: usize, lifetime_ns: u64) -> Self {
        DeadNonces {
            table: Chains::new(entries_max),
            oldest_first: VecDeque::new(),
            entries_max,
            lifetime_ns,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn contains(&self, name_hash: u64, nonce: [u8; 4], now_ns: u64) -> bool {
        self.table.find(key(name_hash, nonce), |dead| dead.forgotten_at_ns > now_ns).is_some()
    }

    pub(crate) fn add(&mut self, name_hash: u64, nonce: [u8; 4], now_ns: u64) {
        self.forget(now_ns);
        let forgotten_at_ns = now_ns.saturating_add(self.lifetime_ns);
        let id = self.table.insert(DeadNonce { key: key(name_hash, nonce), next: NONE, forgotten_at_ns });
        self.oldest_first.push_back(id);
    }

    /// Makes room for one: drops what is past its time, and the oldest if the list is full. At most two
    /// entries a call, so that no single packet pays for many.
    fn forget(&mut self, now_ns: u64) {
        for _ in 0..2 {
            let Some(oldest) = self.oldest_first.front().and_then(|id| self.table.get(*id)) else { return };
            if oldest.forgotten_at_ns > now_ns && self.table.len() < self.entries_max {
                return;
            }
            if let Some(id) = self.oldest_first.pop_front() {
                self.table.remove(id);
            }
        }
    }
}

fn key(name_hash: u64, nonce: [u8; 4]) -> u64 {
    mix(name_hash.wrapping_add(STEP.wrapping_mul(u64::from(u32::from_be_bytes(nonce)) + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_remembered_for_its_lifetime_under_its_name_only() {
        let mut list = DeadNonces::new(8, 100);
        list.add(1, [1, 2, 3, 4], 0);
        assert!(list.contains(1, [1, 2, 3, 4], 99));
        assert!(!list.contains(1, [1, 2, 3, 4], 100));
        assert!(!list.contains(1, [1, 2, 3, 5], 0));
        assert!(!list.contains(2, [1, 2, 3, 4], 0));
    }

    #[test]
    fn at_the_limit_all_are_remembered_and_one_past_it_the_oldest_is_forgotten() {
        let mut list = DeadNonces::new(4, 1000);
        (0..4).for_each(|n| list.add(7, [n; 4], 0));
        assert!((0..4).all(|n| list.contains(7, [n; 4], 1)));
        list.add(7, [4; 4], 1);
        assert_eq!(list.len(), 4);
        assert!(!list.contains(7, [0; 4], 1));
        assert!((1..5).all(|n| list.contains(7, [n; 4], 1)));
    }

    #[test]
    fn the_same_nonce_twice_lives_as_long_as_the_later_one() {
        let mut list = DeadNonces::new(4, 100);
        list.add(7, [1; 4], 0);
        list.add(7, [1; 4], 50);
        list.add(7, [2; 4], 120);
        assert!(list.contains(7, [1; 4], 120));
    }
}
