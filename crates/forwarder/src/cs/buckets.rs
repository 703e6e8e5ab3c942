//! The hash tables of the content store's index: buckets of one cache line, each with its lock and
//! seven slots.
//!
//! A slot maps a tag (a level and a part of a hash) to the newest Data of a list. Equal tags share
//! a list, even of different names: the reader compares names. A bucket without a free slot
//! continues in further buckets of its own. With more lists than expected, a lookup takes longer
//! but has the same result.
//!
//! Slots are changed under the bucket's lock and may be read without it. A reader sees each slot
//! before or after a change, as if it had read a moment earlier or later.

use crate::sync::plain::{AtomicU32, AtomicU64, Ordering};

use lock_api::{Mutex, MutexGuard, RawMutex};

use super::pool::{Nodes, Pooled};
use crate::error::ConfigError;
use crate::pool::{Pool, page_of};
use crate::prefetch::prefetch;
use crate::slab::{Id, NONE};

/// Slots of a bucket: with its lock and the link to further ones they fill a cache line.
const SLOTS: usize = 7;

/// Minimum and maximum number of buckets.
const BUCKETS_MIN: usize = 64;
const BUCKETS_MAX: usize = 1 << 24;

/// Buckets of a page, and further buckets of one. Without 64-bit atomics a bucket has two cache
/// lines.
const PAGE: usize = if cfg!(target_has_atomic = "64") { 64 } else { 32 };
const MORE_PAGE: usize = page_of(16);

/// Minimum capacity for further buckets.
const MORE_MIN: usize = 1 << 20;

/// Bits of the hash in a tag, below the level. They are not the bits that choose the bucket.
const TAG_HASH_BITS: u32 = 25;

/// The key of a list in its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(u32);

impl Tag {
    /// The tag of the list for prefixes with `hash`. `level` is below 128.
    pub(super) fn new(hash: u64, level: usize) -> Self {
        Tag((level as u32) << TAG_HASH_BITS | (hash >> (u64::BITS - TAG_HASH_BITS)) as u32)
    }

    /// The id in `slot`, if the slot has this tag.
    #[inline]
    fn id_in(self, slot: u64) -> Option<Id> {
        // If the tags are equal, the id remains, which is not 0. A free slot, or one with another
        // tag, yields a number outside the range of ids.
        let id = slot ^ u64::from(self.0) << 32;
        (id.wrapping_sub(1) < u64::from(u32::MAX)).then_some(id as u32)
    }
}

#[repr(C, align(64))]
struct Bucket<R> {
    lock: Mutex<R, ()>,
    /// The bucket that continues this one, or the next one of the free stack.
    more: AtomicU32,
    /// The tag in the upper half, the newest Data in the lower one; 0 if the slot is free.
    slots: [AtomicU64; SLOTS],
}

impl<R: RawMutex> Default for Bucket<R> {
    fn default() -> Self {
        Bucket { lock: Mutex::new(()), more: AtomicU32::new(NONE), slots: Default::default() }
    }
}

impl<R: RawMutex> Pooled for Bucket<R> {
    fn next_free(&self) -> &AtomicU32 {
        &self.more
    }
}

/// Writers of one bucket exclude each other, so ordering is needed only for readers without the
/// lock.
impl<R> Bucket<R> {
    /// The slot with `tag`.
    #[inline]
    fn find(&self, tag: Tag) -> Option<(&AtomicU64, Id)> {
        self.slots.iter().find_map(|slot| Some((slot, tag.id_in(slot.load(Ordering::Acquire))?)))
    }

    #[inline]
    fn free(&self) -> Option<&AtomicU64> {
        self.slots.iter().find(|slot| slot.load(Ordering::Relaxed) == 0)
    }

    fn more(&self) -> Id {
        self.more.load(Ordering::Relaxed)
    }
}

/// Release pairs with the Acquire of [`Bucket::find`]: a reader that follows the id finds the entry
/// filled.
fn set(slot: &AtomicU64, tag: Tag, id: Id) {
    slot.store(u64::from(tag.0) << 32 | u64::from(id), Ordering::Release);
}

/// The result of a lookup without the lock.
pub(super) enum BucketLookup {
    Is(Id),
    None,
    /// The bucket has further slots: repeat the lookup with the lock.
    Unknown,
}

/// The buckets of a hash table. Their number is fixed, so no packet pays for a rehash.
pub(super) struct Buckets<R> {
    pool: Pool<Bucket<R>, PAGE>,
    more: Nodes<Bucket<R>, MORE_PAGE>,
    mask: usize,
}

impl<R: RawMutex> Buckets<R> {
    /// Buckets for `expected` slots, on average `of_bucket` in each, and further buckets for up to
    /// `most` slots.
    pub(super) fn new(expected: usize, of_bucket: usize, most: usize) -> Result<Self, ConfigError> {
        let buckets = (expected / of_bucket).clamp(BUCKETS_MIN, BUCKETS_MAX).next_power_of_two();
        let more = Nodes::new(most.max(MORE_MIN))?;
        Ok(Buckets { pool: Pool::scattered(buckets)?, more, mask: buckets - 1 })
    }

    /// Allocates all buckets, and further ones for `most` slots in any distribution.
    pub(super) fn prepare(&self, most: usize) -> Result<(), ConfigError> {
        self.pool.fill(self.mask + 1, Bucket::default)?;
        // A further bucket is used from the eighth slot of a bucket on.
        self.more.prepare(most / (SLOTS + 1) + 1)
    }

    /// Allocates some missing buckets; returns true if any was allocated.
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        Ok(self.pool.fill_missing(Bucket::default)? | self.more.grow()?)
    }

    /// The number of the bucket of `hash`.
    #[inline]
    pub(super) fn number(&self, hash: u64) -> u32 {
        (hash as usize & self.mask) as u32
    }

    /// Prefetches a bucket, ahead of its use; see [`crate::Batch`].
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        self.pool.get(number as usize).into_iter().for_each(prefetch);
    }

    /// The newest of the list of `tag` in the bucket of `hash`, without a lock.
    #[inline]
    pub(super) fn newest(&self, hash: u64, tag: Tag) -> BucketLookup {
        let Some(bucket) = self.pool.get(self.number(hash) as usize) else { return BucketLookup::None };
        match bucket.find(tag) {
            Some((_, id)) => BucketLookup::Is(id),
            // A further bucket that is linked at this moment is missed, as if the lookup had come
            // earlier.
            None if bucket.more() == NONE => BucketLookup::None,
            None => BucketLookup::Unknown,
        }
    }

    /// Locks the bucket of that number, if its chunk was allocated.
    pub(super) fn lock(&self, number: u32) -> Option<LockedBucket<'_, R>> {
        let first = self.pool.get(number as usize)?;
        Some(LockedBucket { table: self, first, _guard: first.lock.lock() })
    }

    /// Locks the bucket of that number; `None` if there is no memory for it.
    pub(super) fn lock_or_make(&self, number: u32) -> Option<LockedBucket<'_, R>> {
        let first = self.pool.get_or_make(number as usize, Bucket::default)?;
        Some(LockedBucket { table: self, first, _guard: first.lock.lock() })
    }

    /// Visits each list: its bucket, its level and its newest Data. Only for a table that is not in
    /// use.
    #[cfg(test)]
    pub(super) fn lists(&self, show: &mut dyn FnMut(u32, usize, Id)) {
        for number in 0..=self.mask as u32 {
            let Some(locked) = self.lock(number) else { continue };
            for bucket in locked.buckets() {
                let words = bucket.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
                words.filter(|word| *word != 0).for_each(|word| {
                    show(number, (word >> (32 + TAG_HASH_BITS)) as usize, word as u32);
                });
            }
        }
    }

    /// Further buckets in use. Only for a table that is not in use.
    #[cfg(test)]
    pub(super) fn more_taken(&self) -> usize {
        self.more.taken()
    }
}

/// A bucket, with those that continue it, under its lock.
pub(super) struct LockedBucket<'a, R: RawMutex> {
    table: &'a Buckets<R>,
    first: &'a Bucket<R>,
    _guard: MutexGuard<'a, R, ()>,
}

impl<'a, R: RawMutex> LockedBucket<'a, R> {
    fn buckets(&self) -> impl Iterator<Item = &'a Bucket<R>> + use<'a, R> {
        let more = &self.table.more;
        core::iter::successors(Some(self.first), move |bucket| more.get(bucket.more()))
    }

    /// The slot of the list of `tag`, or a free slot for it.
    #[inline]
    pub(super) fn spot(&self, tag: Tag) -> ListSlot<'a> {
        if let Some((slot, newest)) = self.first.find(tag) {
            return ListSlot { tag, slot: Some(slot), newest };
        }
        match self.first.more() {
            NONE => ListSlot { tag, slot: self.first.free(), newest: NONE },
            _ => self.spot_in_more(tag),
        }
    }

    #[cold]
    fn spot_in_more(&self, tag: Tag) -> ListSlot<'a> {
        match self.buckets().find_map(|bucket| bucket.find(tag)) {
            Some((slot, newest)) => ListSlot { tag, slot: Some(slot), newest },
            None => ListSlot { tag, slot: self.buckets().find_map(Bucket::free), newest: NONE },
        }
    }

    /// Makes `id` the newest of the list whose spot was found under this lock; returns true if
    /// there was memory for it.
    pub(super) fn push(&self, spot: &ListSlot<'a>, id: Id) -> bool {
        let slot = spot.slot.or_else(|| {
            let (more, bucket) = self.table.more.take()?;
            // Relaxed: readers without the lock follow no link; a reader that sees one takes the
            // lock.
            bucket.more.store(self.first.more(), Ordering::Relaxed);
            self.first.more.store(more, Ordering::Relaxed);
            bucket.slots.first()
        });
        slot.map(|slot| set(slot, spot.tag, id)).is_some()
    }

    /// Replaces `newest` of a list of `level` by `older`; frees the list's slot if that is `NONE`.
    pub(super) fn replace(&self, level: usize, newest: Id, older: Id) {
        // Only the level of the tag is known.
        const KNOWN: u64 = (u64::MAX << (32 + TAG_HASH_BITS)) | u32::MAX as u64;
        let wanted = (level as u64) << (32 + TAG_HASH_BITS) | u64::from(newest);
        let mut before = self.first;
        let mut id = NONE;
        for bucket in self.buckets() {
            let slot = bucket.slots.iter().find(|slot| slot.load(Ordering::Relaxed) & KNOWN == wanted);
            let Some(slot) = slot else {
                // The first bucket is never freed, so it needs no id.
                (before, id) = (bucket, bucket.more());
                continue;
            };
            let word = slot.load(Ordering::Relaxed);
            let left = if older == NONE { 0 } else { word ^ u64::from(newest) ^ u64::from(older) };
            // Release as in `set`: a reader that follows `older` finds it filled.
            slot.store(left, Ordering::Release);
            let is_empty = || bucket.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0);
            if id != NONE && left == 0 && is_empty() {
                before.more.store(bucket.more(), Ordering::Relaxed);
                self.table.more.give(id);
            }
            return;
        }
    }
}

/// A slot of a list, or a free one; `None` if all are taken.
pub(super) struct ListSlot<'a> {
    tag: Tag,
    slot: Option<&'a AtomicU64>,
    /// The newest of the list.
    pub(super) newest: Id,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fits_a_cache_line() {
        assert_eq!(size_of::<Bucket<parking_lot::RawMutex>>(), 64);
    }

    #[test]
    fn a_full_bucket_overflows_into_others() {
        let table = Buckets::<parking_lot::RawMutex>::new(0, 1, 0).unwrap();
        let most = 5 * SLOTS as u32;
        let tag = |id: u32| Tag::new(u64::from(id) << 40, id as usize % 3);
        let locked = table.lock_or_make(7).unwrap();
        (1..=most).for_each(|id| assert!(locked.push(&locked.spot(tag(id)), id)));
        assert_eq!(table.more_taken(), 4);
        assert!((1..=most).all(|id| locked.spot(tag(id)).newest == id));
        (1..=most).for_each(|id| locked.replace(id as usize % 3, id, id + 100));
        (1..=most).for_each(|id| locked.replace((id as usize + 1) % 3, id + 100, NONE));
        assert!(
            (1..=most).all(|id| locked.spot(tag(id)).newest == id + 100),
            "another level is another list"
        );
        (1..=most).rev().for_each(|id| locked.replace(id as usize % 3, id + 100, NONE));
        assert_eq!(table.more_taken(), 0);
        assert!((1..=most).all(|id| locked.spot(tag(id)).newest == NONE));
    }
}
