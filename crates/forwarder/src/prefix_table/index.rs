//! The index from a hash to candidate entries. Its buckets are cache lines. Their number grows with
//! the entries, one bucket at a time (linear hashing), so that no insertion pays for a rehash and a
//! large limit costs nothing.
//!
//! A bucket has seven slots, each with 32 bits of the hash and an entry's id. When these are full,
//! its last word links a block with seven more. The number of buckets is such that few are full.

use crate::sync::plain::{AtomicU32, Ordering::Relaxed};

use super::blocks::{Block, Blocks, FreeBlock, NoBlock, WORDS};
use super::entry::put_chain;
use crate::error::ConfigError;
use crate::slab::{Id, NONE};

const SLOTS: usize = WORDS - 1;

/// The word that links to the block with more slots.
const LINK: usize = SLOTS;

/// Entries for each bucket, on average.
const LOAD: usize = 3;

pub(super) struct Index {
    buckets: Blocks,
    count: AtomicU32,
    /// [`mask_of`] the count, so that a lookup does not compute it.
    mask: AtomicU32,
}

impl Index {
    pub(super) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let buckets = Blocks::new(entries_max / LOAD + 1)?;
        Ok(Index { buckets, count: AtomicU32::new(0), mask: AtomicU32::new(mask_of(0)) })
    }

    /// Allocates the next buckets; returns true if any was allocated.
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        self.buckets.grow()
    }

    /// Allocates memory for the buckets that `entries` more entries add.
    pub(super) fn make_room(&self, entries: usize) -> Result<(), ConfigError> {
        self.buckets.make_room(entries.div_ceil(LOAD) + 1)
    }

    /// The bucket of a hash; `None` while the table is empty.
    pub(super) fn bucket(&self, hash: u64) -> Option<&Block> {
        // During a write the two numbers may not belong together; the bucket is then any one.
        self.buckets.get(number(hash, self.count.load(Relaxed), self.mask.load(Relaxed)) + 1)
    }

    /// The slots of a bucket that match `hash`: a bit for each.
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

    /// Enters `id`.
    pub(super) fn insert(
        &self,
        hash: u64,
        id: Id,
        more: &Blocks,
        free: &mut FreeBlock,
    ) -> Result<(), NoBlock> {
        if self.count.load(Relaxed) == 0 {
            self.add_bucket(more, free)?;
        }
        match self.bucket(hash) {
            Some(bucket) => append(bucket, slot(hash, id), more, free),
            None => Err(NoBlock::NoMemory),
        }
    }

    pub(super) fn remove(&self, hash: u64, id: Id, more: &Blocks, free: &mut FreeBlock) {
        if let Some(bucket) = self.bucket(hash) {
            retain(bucket, |known| known != slot(hash, id), more, free);
        }
    }

    /// Returns true if `entries` require one more bucket.
    pub(super) fn is_to_grow(&self, entries: usize) -> bool {
        entries > LOAD * self.count.load(Relaxed) as usize
    }

    /// Adds a bucket and moves its slots into it. A refusal changes nothing.
    pub(super) fn add_bucket(&self, more: &Blocks, free: &mut FreeBlock) -> Result<(), NoBlock> {
        let count = self.count.load(Relaxed);
        // Buckets are never removed, so the new one is the next of the pool.
        let (_, new) = self.buckets.take(&mut FreeBlock::default())?;
        (0..WORDS).for_each(|i| new.set(i, 0));
        let from = number(u64::from(count), count, mask_of(count));
        let old = self.buckets.get(from + 1).filter(|_| count > 0);
        let mask = mask_of(count + 1);
        let moves = |slot: u64| number(slot >> 32, count + 1, mask) == count;
        if let Some(old) = old {
            // Everything that may fail comes first: until then the old bucket has all slots.
            let moved = slots(old, more).filter(|slot| moves(*slot));
            for moved in moved {
                if let Err(none) = append(new, moved, more, free) {
                    put_chain(Self::link(new), more, free);
                    self.buckets.untake();
                    return Err(none);
                }
            }
            retain(old, |slot| !moves(slot), more, free);
        }
        self.count.store(count + 1, Relaxed);
        self.mask.store(mask, Relaxed);
        Ok(())
    }
}

fn slot(hash: u64, id: Id) -> u64 {
    hash << 32 | u64::from(id)
}

/// The lowest bits that number `count` buckets.
fn mask_of(count: u32) -> u32 {
    count.next_power_of_two() - 1
}

/// The number of a hash's bucket among `count`: as many of its lowest bits as number all buckets,
/// or one bit less if there is no such bucket yet.
fn number(hash: u64, count: u32, mask: u32) -> u32 {
    let number = hash as u32 & mask;
    if number < count { number } else { number & mask >> 1 }
}

/// All slots of a bucket that are in use, which come before the free ones.
fn slots<'a>(bucket: &'a Block, more: &'a Blocks) -> impl Iterator<Item = u64> + use<'a> {
    let blocks = core::iter::successors(Some(bucket), |block| more.get(Index::link(block)));
    let words = blocks.flat_map(|block| (0..SLOTS).map(|i| block.word(i)));
    words.take_while(|slot| *slot as Id != NONE)
}

/// Adds a slot to a bucket, with a further block if it is full.
fn append<'a>(
    mut bucket: &'a Block,
    slot: u64,
    more: &'a Blocks,
    free: &mut FreeBlock,
) -> Result<(), NoBlock> {
    loop {
        if let Some(i) = (0..SLOTS).find(|i| bucket.word(*i) as Id == NONE) {
            bucket.set(i, slot);
            return Ok(());
        }
        let Some(next) = more.get(Index::link(bucket)) else { break };
        bucket = next;
    }
    let (id, block) = more.take(free)?;
    block.set(0, slot);
    (1..WORDS).for_each(|i| block.set(i, 0));
    bucket.set(LINK, u64::from(id));
    Ok(())
}

/// Retains the slots of a bucket for which `keep` returns true, in their order, and frees the
/// blocks that are then empty.
fn retain(bucket: &Block, keep: impl Fn(u64) -> bool, more: &Blocks, free: &mut FreeBlock) {
    let mut kept = slots(bucket, more).filter(|slot| keep(*slot)).peekable();
    let mut block = bucket;
    loop {
        // Slots are read before they are overwritten, because no more are retained than there were.
        (0..SLOTS).for_each(|i| block.set(i, kept.next().unwrap_or(0)));
        let link = Index::link(block);
        if kept.peek().is_none() {
            block.set(LINK, 0);
            return put_chain(link, more, free);
        }
        let Some(next) = more.get(link) else { return };
        block = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_added_bucket_splits_one_other() {
        let number = |hash, count| number(hash, count, mask_of(count));
        for count in 1..200u32 {
            for hash in 0..2000u64 {
                let (before, after) = (number(hash, count), number(hash, count + 1));
                assert!(before < count);
                assert!(after == before || after == count && before == number(u64::from(count), count));
            }
        }
    }
}
