//! A table of recently entered hashes: small sets of one cache line each, without lists. A hash is
//! forgotten after a given number of further entries, or earlier as the oldest of a full set.
//!
//! If two names share a hash, a policy mistakes one for the other; no answer depends on it.

use super::sparse::Sparse;
use crate::error::ConfigError;
use crate::prefetch::prefetch;

/// Slots of a set.
const SLOTS: usize = 8;
/// Minimum and maximum number of sets. At the maximum, probably none of four million hashes is
/// forgotten early.
const SETS_MIN: usize = 64;
const SETS_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct RecentSlot {
    /// The upper half of the hash; the lower one selects the set.
    tag: u32,
    /// The sequence number of the entry; 0 for none.
    entered: u32,
}

/// A cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set([RecentSlot; SLOTS]);

pub(super) struct Recent {
    sets: Sparse<Set>,
    /// The sequence number of the last entry. After 2^32 entries an old slot may seem recent, which
    /// costs a wrong guess.
    last: u32,
}

impl Recent {
    /// Creates a table for about `hashes` hashes.
    pub(super) fn new(hashes: usize) -> Result<Self, ConfigError> {
        // Half full on average, so that few sets overflow.
        let sets = (hashes / (SLOTS / 2)).clamp(SETS_MIN, SETS_MAX);
        Ok(Recent { sets: Sparse::new(sets)?, last: 0 })
    }

    /// Allocates all sets.
    pub(super) fn prepare(&mut self) -> Result<(), ConfigError> {
        self.sets.prepare()
    }

    /// Prefetches the set of `hash`, ahead of its use.
    pub(super) fn prefetch(&self, hash: u64) {
        self.sets.get(hash).into_iter().for_each(prefetch);
    }

    /// Enters `hash`, if there is memory for it.
    pub(super) fn enter(&mut self, hash: u64) {
        // Never 0, which marks an empty slot.
        self.last = self.last.wrapping_add(1).max(1);
        let (last, tag) = (self.last, (hash >> 32) as u32);
        // An empty slot counts as the oldest, so that no hash is forgotten while there is one.
        let age =
            |slot: &RecentSlot| if slot.entered == 0 { u32::MAX } else { last.wrapping_sub(slot.entered) };
        let set = self.sets.get_or_make(hash).into_iter().flat_map(|set| &mut set.0);
        if let Some(oldest) = set.max_by_key(|slot| age(slot)) {
            *oldest = RecentSlot { tag, entered: last };
        }
    }

    /// Removes `hash`; returns true if it was among the last `most` entries.
    pub(super) fn take(&mut self, hash: u64, most: usize) -> bool {
        let (last, tag) = (self.last, (hash >> 32) as u32);
        let is_it = |slot: &&mut RecentSlot| {
            slot.tag == tag && slot.entered != 0 && (last.wrapping_sub(slot.entered) as usize) < most
        };
        let found = self.sets.get_mut(hash).and_then(|set| set.0.iter_mut().find(is_it));
        found.map(|slot| slot.entered = 0).is_some()
    }

    /// Hashes among the last `most` entries.
    #[cfg(test)]
    pub(super) fn len(&self, most: usize) -> usize {
        let is_one =
            |slot: &&RecentSlot| slot.entered != 0 && (self.last.wrapping_sub(slot.entered) as usize) < most;
        self.sets.iter().flat_map(|set| &set.0).filter(is_one).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn recent_entries_are_known_until_taken() {
        let mut recent = Recent::new(1000).unwrap();
        (0..5000).for_each(|i| recent.enter(mix(i)));
        assert!(!recent.take(mix(3999), 1000), "one entry too old");
        let known = (4000..5000).filter(|i| recent.take(mix(*i), 1000)).count();
        assert!(known > 950, "few are forgotten early: {known}");
        assert!((4000..5000).all(|i| !recent.take(mix(i), 1000)), "each is taken once");
        assert_eq!(recent.len(1000), 0);
    }
}
