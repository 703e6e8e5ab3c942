//! A separate-chaining hash table whose entries live in a [`Slab`]: the shape of every table here (`IS-27`).
//!
//! The number of buckets is fixed when the table is made, so no packet ever pays for a rehash. Fresh
//! buckets are zeroed memory, which costs nothing until it is touched. The table compares nothing itself:
//! the caller confirms each candidate of a chain by its name.

use alloc::vec;
use alloc::vec::Vec;

use crate::slab::{Id, NONE, Slab};

/// Fewest and most buckets of a table. More entries than the most make chains longer, never wrong.
const BUCKETS_MIN: usize = 16;
const BUCKETS_MAX: usize = 1 << 24;

/// What a chained entry knows about its place.
pub(crate) trait Chained {
    /// The keyed hash that chose the bucket.
    fn hash(&self) -> u64;
    /// The next entry of the chain.
    fn next(&self) -> Id;
    fn set_next(&mut self, next: Id);
}

/// A chained hash table with entries in a slab.
#[derive(Clone, Debug)]
pub(crate) struct Chains<T> {
    heads: Vec<Id>,
    slab: Slab<T>,
}

impl<T: Chained> Chains<T> {
    /// A table with a bucket for each of `entries_max` entries, within bounds.
    pub(crate) fn new(entries_max: usize) -> Self {
        let buckets = entries_max.clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two();
        Chains { heads: vec![NONE; buckets], slab: Slab::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Where a walk over all ids ends; see [`Slab::end`].
    pub(crate) fn end(&self) -> Id {
        self.slab.end()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        self.slab.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.slab.get_mut(id)
    }

    /// The first entry of `hash`'s chain with that very hash that `matches` confirms.
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(&T) -> bool) -> Option<Id> {
        let mut id = self.heads[self.bucket(hash)];
        while let Some(entry) = self.slab.get(id) {
            if entry.hash() == hash && matches(entry) {
                return Some(id);
            }
            id = entry.next();
        }
        None
    }

    pub(crate) fn insert(&mut self, mut entry: T) -> Id {
        let bucket = self.bucket(entry.hash());
        entry.set_next(self.heads[bucket]);
        let id = self.slab.insert(entry);
        self.heads[bucket] = id;
        id
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<T> {
        let entry = self.slab.remove(id)?;
        let bucket = self.bucket(entry.hash());
        if self.heads[bucket] == id {
            self.heads[bucket] = entry.next();
            return Some(entry);
        }
        let mut at = self.heads[bucket];
        while let Some(before) = self.slab.get_mut(at) {
            if before.next() == id {
                before.set_next(entry.next());
                break;
            }
            at = before.next();
        }
        Some(entry)
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Item {
        hash: u64,
        next: Id,
        key: u8,
    }

    impl Chained for Item {
        fn hash(&self) -> u64 {
            self.hash
        }
        fn next(&self) -> Id {
            self.next
        }
        fn set_next(&mut self, next: Id) {
            self.next = next;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn behaves_as_a_map_even_when_hashes_collide(
            steps in proptest::collection::vec((any::<bool>(), any::<u8>()), 1..200),
            spread in 1u64..8,
        ) {
            let mut table = Chains::new(16);
            let mut model = BTreeMap::new();
            for (insert, key) in steps {
                let hash = u64::from(key) % spread;
                let found = table.find(hash, |i: &Item| i.key == key);
                prop_assert_eq!(found, model.get(&key).copied());
                match (insert, found) {
                    (true, None) => {
                        model.insert(key, table.insert(Item { hash, next: NONE, key }));
                    }
                    (false, Some(id)) => {
                        prop_assert_eq!(table.remove(id).map(|i| i.key), Some(key));
                        model.remove(&key);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
