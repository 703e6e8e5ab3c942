//! Slots for table entries. Their number is fixed. Slots are allocated when they are first needed,
//! and are then never moved or freed. A large limit costs nothing until it is used, and only the
//! packet that needs new slots pays for an allocation.
//!
//! The first [`CHUNK`] slots are in pages of at most 4 KiB, so that a nearly empty table takes
//! little memory. The next ones are in chunks, and all others in large chunks: with huge pages from
//! the allocator, the processor has far fewer TLB misses, which with a million entries cost as much
//! as the entries themselves.
//!
//! A packet waits until its page or its chunk is cleared: at most [`LARGE`] slots. An embedder that
//! calls [`crate::Forwarder::grow`] has each chunk half a chunk ahead, so that packets clear pages
//! only.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use once_cell::race::OnceBox;

use crate::error::ConfigError;

/// Slots of a chunk.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 1024 };

/// Slots of a large chunk: with a cache line each they are 2 MiB.
const LARGE: usize = 32 * CHUNK;

/// Slots in pages of a pool whose slots are used in any order. With more slots, all of them are in
/// large chunks: most of these would stay unused with fewer slots.
const SCATTERED_MAX: usize = 2 * LARGE;

/// Maximum octets of a page.
pub(crate) const PAGE_OCTETS: usize = 4096;

/// A page of `slots` slots; fewer under `loom`, which tracks each of them.
pub(crate) const fn page_of(slots: usize) -> usize {
    if cfg!(loom) { CHUNK } else { slots }
}

/// Slots for `T`, counted from 0. A page has `N` of them.
pub(crate) struct Pool<T, const N: usize> {
    pages: Box<[OnceBox<[T; N]>]>,
    chunks: Box<[OnceBox<[T; CHUNK]>]>,
    large: Box<[OnceBox<[T; LARGE]>]>,
    /// Slots in pages.
    paged: usize,
    /// Slots in pages and chunks.
    small: usize,
}

impl<T, const N: usize> Pool<T, N> {
    /// A pool of at least `slots` slots, which are used from the first on; none is allocated yet.
    pub(crate) fn new(slots: usize) -> Result<Self, ConfigError> {
        Pool::with(slots, CHUNK, LARGE)
    }

    /// As `new`, for slots that are used in any order: all are in pages or in large chunks.
    pub(crate) fn scattered(slots: usize) -> Result<Self, ConfigError> {
        let paged = if slots <= SCATTERED_MAX { SCATTERED_MAX } else { 0 };
        Pool::with(slots, paged, paged)
    }

    fn with(slots: usize, paged: usize, small: usize) -> Result<Self, ConfigError> {
        const {
            assert!(cfg!(loom) || CHUNK.is_multiple_of(N), "pages end where chunks begin");
            assert!(cfg!(loom) || N * size_of::<T>() <= PAGE_OCTETS, "a packet may clear a page");
        }
        Ok(Pool {
            // Only references to pages and chunks, which cost little for slots that are never used.
            pages: boxed(slots.min(paged).div_ceil(N), OnceBox::new)?,
            chunks: boxed(slots.min(small).saturating_sub(paged).div_ceil(CHUNK), OnceBox::new)?,
            large: boxed(slots.saturating_sub(small).div_ceil(LARGE), OnceBox::new)?,
            paged,
            small,
        })
    }

    /// A slot, if its page or chunk exists.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        // The bound of the pages is the only comparison, because most tables have few entries.
        match self.pages.get(i / N) {
            Some(page) => page.get().map(|page| &page[i % N]),
            None => self.get_in_chunk(i),
        }
    }

    /// A slot after the pages. Not inlined: with three accesses at each call, the callers would be
    /// too long to be inlined themselves.
    #[inline(never)]
    fn get_in_chunk(&self, i: usize) -> Option<&T> {
        match i.checked_sub(self.small) {
            Some(i) => self.large.get(i / LARGE)?.get().map(|chunk| &chunk[i % LARGE]),
            None => {
                let i = i.checked_sub(self.paged)?;
                self.chunks.get(i / CHUNK)?.get().map(|chunk| &chunk[i % CHUNK])
            }
        }
    }

    /// A slot. `make` fills its page or chunk if it does not exist; `None` beyond the pool's end or
    /// if there is no memory.
    #[inline]
    pub(crate) fn get_or_make(&self, i: usize, make: impl Fn() -> T + Copy) -> Option<&T> {
        match self.get(i) {
            None => self.make(i, make),
            known => known,
        }
    }

    /// Makes the page or chunk of a slot.
    #[cold]
    #[inline(never)]
    fn make(&self, i: usize, make: impl Fn() -> T) -> Option<&T> {
        if i >= self.end() {
            return None;
        }
        let items = boxed(self.chunk_len(i), make).ok()?;
        if i < self.paged {
            set(self.pages.get(i / N)?, items);
        } else if i < self.small {
            set(self.chunks.get((i - self.paged) / CHUNK)?, items);
        } else {
            set(self.large.get((i - self.small) / LARGE)?, items);
        }
        self.get(i)
    }
}

/// Memory that is allocated before a packet needs it: see [`crate::Forwarder::prepare`].
impl<T, const N: usize> Pool<T, N> {
    /// Makes the first `slots` slots, or all if there are fewer.
    pub(crate) fn fill(&self, slots: usize, make: impl Fn() -> T + Copy) -> Result<(), ConfigError> {
        let mut i = 0;
        while i < slots.min(self.end()) {
            self.get_or_make(i, make).ok_or(ConfigError::OutOfMemory)?;
            i += self.chunk_len(i);
        }
        Ok(())
    }

    /// Makes the next chunk once more than half of the chunk in use, or of the pages, is used.
    /// Returns true if a chunk was made.
    pub(crate) fn fill_ahead(&self, used: usize, make: impl Fn() -> T + Copy) -> Result<bool, ConfigError> {
        self.ahead(used).map_or(Ok(false), |ahead| self.fill_at(ahead, make))
    }

    /// Returns true if [`Pool::fill_ahead`] would make a chunk.
    pub(crate) fn is_behind(&self, used: usize) -> bool {
        self.ahead(used).is_some_and(|ahead| ahead < self.end() && self.get(ahead).is_none())
    }

    /// The slot that must exist when `used` slots are in use. `None` while it is in a page, which
    /// the packet that needs it makes.
    fn ahead(&self, used: usize) -> Option<usize> {
        // Half a chunk ahead, so that the next chunk exists before a packet needs it.
        let ahead = used + self.chunk_len(used.max(self.paged)) / 2;
        (ahead >= self.paged).then_some(ahead)
    }

    /// For a pool whose slots are used in any order: makes one missing large chunk, if the pool has
    /// any. Returns true if one was made.
    pub(crate) fn fill_missing(&self, make: impl Fn() -> T + Copy) -> Result<bool, ConfigError> {
        // A table that no packet has used stays without memory.
        if !self.large.iter().any(|chunk| chunk.get().is_some()) {
            return Ok(false);
        }
        let missing = self.large.iter().position(|chunk| chunk.get().is_none());
        missing.map_or(Ok(false), |i| self.fill_at(self.small + i * LARGE, make))
    }

    /// Makes `count` slots from `from` on, or as many as the pool has.
    pub(crate) fn fill_range(
        &self,
        from: usize,
        count: usize,
        make: impl Fn() -> T + Copy,
    ) -> Result<(), ConfigError> {
        let until = from.saturating_add(count);
        let mut i = from;
        while i < until {
            self.fill_at(i, make)?;
            // The last slot is visited in any case: the range may begin within one chunk and end in
            // another.
            i += if until - i == 1 { 1 } else { self.chunk_len(i).min(until - 1 - i) };
        }
        Ok(())
    }

    fn fill_at(&self, i: usize, make: impl Fn() -> T + Copy) -> Result<bool, ConfigError> {
        if i >= self.end() || self.get(i).is_some() {
            return Ok(false);
        }
        self.get_or_make(i, make).ok_or(ConfigError::OutOfMemory)?;
        Ok(true)
    }

    /// One more than the last slot.
    fn end(&self) -> usize {
        match (self.chunks.len(), self.large.len()) {
            (0, 0) => self.pages.len() * N,
            (chunks, 0) => self.paged + chunks * CHUNK,
            (_, large) => self.small + large * LARGE,
        }
    }

    /// The number of slots in the page or chunk of a slot.
    fn chunk_len(&self, i: usize) -> usize {
        if i < self.paged {
            N
        } else if i < self.small {
            CHUNK
        } else {
            LARGE
        }
    }
}

/// Publishes the slots of a page or chunk. Without a lock: of two threads that make the same one,
/// one wins and the other drops its own.
fn set<T, const N: usize>(cell: &OnceBox<[T; N]>, items: Box<[T]>) {
    let items: Result<Box<[T; N]>, _> = items.try_into();
    // As many as the page or chunk has, so this cannot fail.
    if let Ok(items) = items {
        let _ = cell.set(items);
    }
}

/// `len` values of `make`, or [`ConfigError::OutOfMemory`].
pub(crate) fn boxed<T>(len: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, ConfigError> {
    let mut values = Vec::new();
    // Reserved first, because `extend` aborts if it cannot allocate.
    values.try_reserve_exact(len).map_err(|_| ConfigError::OutOfMemory)?;
    values.extend(core::iter::repeat_with(make).take(len));
    Ok(values.into_boxed_slice())
}

/// A part of the forwarder with a heap allocation of its own: the stack never holds all parts at
/// once, and they are not moved with the forwarder.
pub(crate) struct HeapPart<T>(Box<[T; 1]>);

impl<T> HeapPart<T> {
    /// Never inlined: the frame in which the part is made is freed before the next part is made.
    #[inline(never)]
    pub(crate) fn new(make: impl FnOnce() -> Result<T, ConfigError>) -> Result<Self, ConfigError> {
        let mut items = Vec::new();
        items.try_reserve_exact(1).map_err(|_| ConfigError::OutOfMemory)?;
        items.push(make()?);
        items.into_boxed_slice().try_into().map(HeapPart).map_err(|_| ConfigError::OutOfMemory)
    }
}

impl<T> Deref for HeapPart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0[0]
    }
}

impl<T> DerefMut for HeapPart<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn a_place_exists_from_its_first_use() {
        let pool = Pool::<u32, 4>::new(5).unwrap();
        assert_eq!(pool.get(4), None);
        assert_eq!(pool.get_or_make(4, || 7), Some(&7));
        assert_eq!((pool.get(3), pool.get(7)), (None, Some(&7)));
        assert_eq!(pool.get_or_make(8, || 7), None);
        assert_eq!(pool.get_or_make(4, || 9), Some(&7), "a chunk is made once");
    }

    #[test]
    fn distant_places_lie_in_large_chunks() {
        let pool = Pool::<u32, 4>::new(LARGE + 1).unwrap();
        assert_eq!(pool.get_or_make(LARGE - 1, || 7), Some(&7));
        assert_eq!((pool.get(0), pool.get(LARGE)), (None, None), "four places were made");
        assert_eq!(pool.get_or_make(LARGE, || 8), Some(&8));
        assert_eq!((pool.get(2 * LARGE - 1), pool.get_or_make(2 * LARGE, || 9)), (Some(&8), None));
        let scattered = Pool::<u32, 4>::scattered(SCATTERED_MAX + 1).unwrap();
        assert_eq!((scattered.get_or_make(5, || 1), scattered.get(LARGE - 1)), (Some(&1), Some(&1)));
        let list = Pool::<u32, 4>::scattered(SCATTERED_MAX).unwrap();
        assert_eq!((list.get_or_make(5, || 1), list.get(8)), (Some(&1), None));
        assert_eq!(list.get_or_make(SCATTERED_MAX - 1, || 2), Some(&2));
        assert_eq!(list.get_or_make(SCATTERED_MAX, || 2), None);
    }

    /// The slots that are cleared for one slot, at each boundary of pages and chunks.
    #[test]
    fn one_slot_clears_one_page_or_chunk() {
        let pool = Pool::<u32, 4>::new(3 * LARGE).unwrap();
        let cleared = |i| {
            let count = Cell::new(0);
            let make = || {
                count.set(count.get() + 1);
                7
            };
            assert_eq!((pool.get_or_make(i, make), pool.get(i)), (Some(&7), Some(&7)));
            count.get()
        };
        for (i, slots) in [(0, 4), (3, 0), (4, 4), (CHUNK - 1, 4), (CHUNK, CHUNK), (2 * CHUNK - 1, 0)] {
            assert_eq!(cleared(i), slots, "slot {i}");
        }
        for (i, slots) in [(LARGE - 1, CHUNK), (LARGE, LARGE), (2 * LARGE - 1, 0), (2 * LARGE, LARGE)] {
            assert_eq!(cleared(i), slots, "slot {i}");
        }
        assert_eq!((pool.get(8), pool.get(2 * CHUNK), pool.get(0)), (None, None, Some(&7)));
    }

    #[test]
    fn chunks_are_made_ahead_and_pages_are_not() {
        let pool = Pool::<u32, 4>::new(2 * LARGE).unwrap();
        let half = CHUNK / 2;
        for (used, is_due) in [(0, false), (half - 1, false), (half, true)] {
            assert_eq!((pool.is_behind(used), pool.fill_ahead(used, || 7)), (is_due, Ok(is_due)), "{used}");
        }
        assert_eq!((pool.get(0), pool.get(CHUNK), pool.get(2 * CHUNK)), (None, Some(&7), None));
        assert!(!pool.is_behind(CHUNK + half - 1) && pool.is_behind(CHUNK + half));
        assert_eq!(pool.fill_ahead(LARGE - half, || 8), Ok(true));
        assert_eq!((pool.get(LARGE), pool.is_behind(LARGE + LARGE / 2)), (Some(&8), false));
        assert_eq!(Pool::<u32, 4>::new(4).unwrap().fill_ahead(4, || 7), Ok(false), "all slots are in a page");
        let scattered = Pool::<u32, 4>::scattered(SCATTERED_MAX + LARGE).unwrap();
        assert_eq!(scattered.fill_missing(|| 7), Ok(false), "an unused table stays without memory");
        scattered.get_or_make(LARGE, || 7);
        assert_eq!([(); 3].map(|()| scattered.fill_missing(|| 7)), [Ok(true), Ok(true), Ok(false)]);
    }

    #[test]
    fn all_slots_of_a_range_are_made() {
        for (from, count) in
            [(0, 1), (3, 3), (CHUNK - 2, 4), (LARGE - CHUNK - 1, CHUNK + 2), (2 * LARGE - 1, 9)]
        {
            let pool = Pool::<u32, 4>::new(2 * LARGE).unwrap();
            pool.fill_range(from, count, || 7).unwrap();
            let slots = from..(from + count).min(2 * LARGE);
            assert!(slots.clone().all(|i| pool.get(i) == Some(&7)), "{slots:?}");
            assert_eq!(pool.get(0).is_some(), from < 4);
        }
        let pool = Pool::<u32, 4>::new(LARGE + 1).unwrap();
        pool.fill(LARGE + 1, || 7).unwrap();
        assert!((0..=LARGE).all(|i| pool.get(i) == Some(&7)));
    }

    #[test]
    fn unavailable_memory_is_an_error() {
        assert!(matches!(boxed(usize::MAX, || 0u64), Err(ConfigError::OutOfMemory)));
    }
}
