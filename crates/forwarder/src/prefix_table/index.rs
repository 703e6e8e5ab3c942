//! From a hash to the entries that may have it: buckets of one cache line, which grow in number
//! with the entries, one bucket at a time (linear hashing), so that no insertion pays for a rehash
//! and a large limit costs nothing.
//!
//! A bucket has seven slots, each 32 bits of the hash and an entry's id, and the id of a block with
//! seven more when these are full. There are so many buckets that few are.

use crate::sync::plain::{AtomicU32, Ordering::Relaxed};
use alloc::vec::Vec;

use super::blocks::{Block, Blocks, Free, WORDS};
use super::entry::{chain, take};
use crate::config::ConfigError;
use crate::slab::{Id, NONE};

const SLOTS: usize = WORDS - 1;

/// The word that links to the block with more slots.
const LINK: usize = SLOTS;

/// Entries for each bucket, on average.
const LOAD: usize = 3;

pub(super) struct Index {
    buckets: Blocks,
    count: AtomicU32,
}

impl Index {
    pub(super) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        Ok(Index { buckets: Blocks::new(entries_max / LOAD + 1)?, count: AtomicU32::new(0) })
    }

    /// Makes the next buckets; returns true if any was made.
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        self.buckets.grow()
    }

    /// Makes memory for the buckets that so many more entries add.
    pub(super) fn make_room(&self, entries: usize) -> Result<(), ConfigError> {
        self.buckets.make_room(entries.div_ceil(LOAD) + 1)
    }

    /// The bucket of a hash; `None` while the table is empty.
    pub(super) fn bucket(&self, hash: u64) -> Option<&Block> {
        self.buckets.get(number(hash, self.count.load(Relaxed)) + 1)
    }

    /// Which slots of a bucket may be `hash`'s: a bit for each.
    pub(super) fn matching(bucket: &Block, hash: u64) -> u32 {
        let slots = bucket.words();
        (0..SLOTS).fold(0, |bits, i| bits | u32::from((slots[i] >> 32) as u32 == hash as u32) << i)
    }

    pub(super) fn id(bucket: &Block, slot: u32) -> Id {
        bucket.word(slot as usize) as Id
    }

    /// The id of the block with more slots, if there is one.
    pub(super) fn link(bucket: &Block) -> Id {
        bucket.word(LINK) as Id
    }

    /// Enters `id`; returns false without memory for it.
    pub(super) fn insert(&self, hash: u64, id: Id, more: &Blocks, free: &mut Free) -> bool {
        if self.count.load(Relaxed) == 0 && !self.add_bucket(more, free) {
            return false;
        }
        let Some(bucket) = self.bucket(hash) else { return false };
        let mut slots = collect(bucket, more);
        slots.push(slot(hash, id));
        fill(bucket, &slots, more, free)
    }

    pub(super) fn remove(&self, hash: u64, id: Id, more: &Blocks, free: &mut Free) {
        let Some(bucket) = self.bucket(hash) else { return };
        let mut slots = collect(bucket, more);
        slots.retain(|known| *known != slot(hash, id));
        // Fewer slots need no more blocks.
        fill(bucket, &slots, more, free);
    }

    /// Returns true if `entries` are enough for one bucket more.
    pub(super) fn is_to_grow(&self, entries: usize) -> bool {
        entries > LOAD * self.count.load(Relaxed) as usize
    }

    /// Adds a bucket and moves into it what belongs there; returns false without memory for it.
    pub(super) fn add_bucket(&self, more: &Blocks, free: &mut Free) -> bool {
        let count = self.count.load(Relaxed);
        // Buckets are never removed, so the new one is the next of the pool.
        let Some((_, new)) = self.buckets.take(&mut Free::default()) else { return false };
        (0..WORDS).for_each(|i| new.set(i, 0));
        self.count.store(count + 1, Relaxed);
        let from = number(u64::from(count), count);
        let Some(old) = self.buckets.get(from + 1).filter(|_| count > 0) else { return true };
        let moves = |slot: &u64| number(slot >> 32, count + 1) == count;
        let (gone, kept): (Vec<u64>, Vec<u64>) = collect(old, more).iter().partition(|slot| moves(slot));
        // The old bucket gives back its blocks first, so that those there are suffice unless both
        // need more.
        fill(old, &kept, more, free);
        if fill(new, &gone, more, free) {
            return true;
        }
        // There is no memory to split these two: the old bucket takes all back and the new one is
        // given up.
        self.count.store(count, Relaxed);
        self.buckets.untake();
        let all: Vec<u64> = kept.into_iter().chain(gone).collect();
        fill(old, &all, more, free);
        false
    }
}

fn slot(hash: u64, id: Id) -> u64 {
    hash << 32 | u64::from(id)
}

/// Which of `count` buckets a hash belongs to: as many of its lowest bits as there are buckets for.
fn number(hash: u64, count: u32) -> u32 {
    let mask = count.next_power_of_two().wrapping_sub(1);
    let number = hash as u32 & mask;
    if number < count { number } else { number & mask >> 1 }
}

/// All slots of a bucket that are in use.
fn collect(bucket: &Block, more: &Blocks) -> Vec<u64> {
    let mut slots = Vec::new();
    let mut at = Some(bucket);
    while let Some(block) = at {
        slots.extend(block.words()[..SLOTS].iter().copied().filter(|slot| *slot as Id != NONE));
        at = more.get(Index::link(block));
    }
    slots
}

/// Makes `slots` what a bucket has, with as many further blocks as that takes; changes nothing and
/// returns false if there is no memory for them.
fn fill(bucket: &Block, slots: &[u64], more: &Blocks, free: &mut Free) -> bool {
    let mut blocks = chain(Index::link(bucket), more);
    let needed = slots.len().div_ceil(SLOTS).saturating_sub(1);
    match take(needed.saturating_sub(blocks.len()), more, free) {
        Some(taken) => blocks.extend(taken),
        None => return false,
    }
    blocks.drain(needed..).for_each(|(id, _)| free.put(id));
    let mut slots = slots.iter().copied();
    let all = core::iter::once(bucket).chain(blocks.iter().map(|(_, block)| *block));
    for (i, block) in all.enumerate() {
        (0..SLOTS).for_each(|slot| block.set(slot, slots.next().unwrap_or(0)));
        block.set(LINK, blocks.get(i).map_or(0, |(id, _)| u64::from(*id)));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_that_is_added_takes_from_one_other_and_every_number_is_in_range() {
        for count in 1..200u32 {
            for hash in 0..2000u64 {
                let (before, after) = (number(hash, count), number(hash, count + 1));
                assert!(before < count);
                assert!(after == before || after == count && before == number(u64::from(count), count));
            }
        }
    }
}
