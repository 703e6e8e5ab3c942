//! Slots for table entries. Their number is fixed. A chunk of them is allocated when its first slot
//! is needed, and is then never moved or freed. A large limit costs nothing until it is used, and
//! only the packet that needs a new chunk pays for an allocation.
//!
//! The first slots are in small chunks, so that a nearly empty table takes little memory. All
//! others are in large ones: with huge pages from the allocator, the processor has far fewer TLB
//! misses, which with a million entries cost as much as the entries themselves.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use once_cell::race::OnceBox;

use crate::error::ConfigError;

/// Slots of a small chunk.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 1024 };

/// Slots of a large chunk: with a cache line each they are 2 MiB.
const LARGE: usize = 32 * CHUNK;

/// Slots for `T`, counted from 0.
pub(crate) struct Pool<T, const N: usize = CHUNK> {
    small: Box<[OnceBox<[T; N]>]>,
    large: Box<[OnceBox<[T; LARGE]>]>,
    /// Slots in small chunks.
    slots_small: usize,
}

impl<T, const N: usize> Pool<T, N> {
    /// A pool of at least `slots` slots, which are used from the first on; none is allocated yet.
    pub(crate) fn new(slots: usize) -> Result<Self, ConfigError> {
        Pool::with(slots, LARGE)
    }

    /// As `new`, for slots that are used in any order: if there are many, all are in large chunks.
    pub(crate) fn scattered(slots: usize) -> Result<Self, ConfigError> {
        // With fewer slots than a large chunk has, most of that chunk would stay unused.
        Pool::with(slots, if slots < LARGE { LARGE } else { 0 })
    }

    fn with(slots: usize, slots_small: usize) -> Result<Self, ConfigError> {
        Ok(Pool {
            // Only references to chunks, which cost little for slots that are never used.
            small: boxed(slots.min(slots_small).div_ceil(N), OnceBox::new)?,
            large: boxed(slots.saturating_sub(slots_small).div_ceil(LARGE), OnceBox::new)?,
            slots_small,
        })
    }

    /// A slot, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        match i.checked_sub(self.slots_small) {
            None => self.small.get(i / N)?.get().map(|chunk| &chunk[i % N]),
            Some(i) => self.large.get(i / LARGE)?.get().map(|chunk| &chunk[i % LARGE]),
        }
    }

    /// A slot. `make` fills its chunk if it does not exist; `None` beyond the pool's end or if
    /// there is no memory.
    pub(crate) fn get_or_make(&self, i: usize, make: impl FnMut() -> T) -> Option<&T> {
        match i.checked_sub(self.slots_small) {
            None => chunk_of(self.small.get(i / N)?, make).map(|chunk| &chunk[i % N]),
            Some(i) => chunk_of(self.large.get(i / LARGE)?, make).map(|chunk| &chunk[i % LARGE]),
        }
    }
}

/// Chunks that are allocated before a packet needs them: see [`crate::Forwarder::prepare`].
impl<T, const N: usize> Pool<T, N> {
    /// Makes the first `slots` slots, or all if there are fewer.
    pub(crate) fn fill(&self, slots: usize, mut make: impl FnMut() -> T) -> Result<(), ConfigError> {
        let mut i = 0;
        while i < slots.min(self.end()) {
            self.get_or_make(i, &mut make).ok_or(ConfigError::OutOfMemory)?;
            i += self.chunk_len(i);
        }
        Ok(())
    }

    /// Makes the next chunk once more than half of the chunk in use is used, or the first chunk if
    /// no slot is used. Returns true if a chunk was made.
    pub(crate) fn fill_ahead(&self, used: usize, make: impl FnMut() -> T) -> Result<bool, ConfigError> {
        self.fill_at(self.ahead(used), make)
    }

    /// Returns true if [`Pool::fill_ahead`] would make a chunk.
    pub(crate) fn is_behind(&self, used: usize) -> bool {
        let ahead = self.ahead(used);
        ahead < self.end() && self.get(ahead).is_none()
    }

    /// The slot that must exist when `used` slots are in use.
    fn ahead(&self, used: usize) -> usize {
        // Half a chunk ahead, so that the next chunk exists before a packet needs it.
        if used == 0 { 0 } else { used + self.chunk_len(used) / 2 }
    }

    /// For a pool whose slots are used in any order: makes one missing chunk, if the pool has any
    /// chunk. Returns true if one was made.
    pub(crate) fn fill_missing(&self, make: impl FnMut() -> T) -> Result<bool, ConfigError> {
        let chunks = || self.small.iter().map(|chunk| chunk.get().is_some());
        let large = || self.large.iter().map(|chunk| chunk.get().is_some());
        // A table that no packet has used stays without memory.
        if !chunks().chain(large()).any(|is_made| is_made) {
            return Ok(false);
        }
        let small = chunks().position(|is_made| !is_made).map(|i| i * N);
        let missing =
            small.or_else(|| large().position(|is_made| !is_made).map(|i| self.slots_small + i * LARGE));
        missing.map_or(Ok(false), |i| self.fill_at(i, make))
    }

    /// Makes `count` slots from `from` on, or as many as the pool has.
    pub(crate) fn fill_range(
        &self,
        from: usize,
        count: usize,
        mut make: impl FnMut() -> T,
    ) -> Result<(), ConfigError> {
        let until = from.saturating_add(count);
        let mut i = from;
        while i < until {
            self.fill_at(i, &mut make)?;
            // The last slot is visited in any case: the range may begin within one chunk and end in
            // another.
            i += if until - i == 1 { 1 } else { self.chunk_len(i).min(until - 1 - i) };
        }
        Ok(())
    }

    fn fill_at(&self, i: usize, make: impl FnMut() -> T) -> Result<bool, ConfigError> {
        if i >= self.end() || self.get(i).is_some() {
            return Ok(false);
        }
        self.get_or_make(i, make).ok_or(ConfigError::OutOfMemory)?;
        Ok(true)
    }

    /// One more than the last slot.
    fn end(&self) -> usize {
        match self.large.len() {
            0 => self.small.len() * N,
            large => self.slots_small + large * LARGE,
        }
    }

    /// The number of slots in the chunk of a slot.
    fn chunk_len(&self, i: usize) -> usize {
        if i < self.slots_small { N } else { LARGE }
    }
}

fn chunk_of<T, const N: usize>(cell: &OnceBox<[T; N]>, make: impl FnMut() -> T) -> Option<&[T; N]> {
    let made = || Box::<[T; N]>::try_from(boxed(N, make).map_err(|_| ())?).map_err(|_| ());
    // Without a lock: of two threads that make the same chunk, one wins and the other drops its
    // own.
    cell.get_or_try_init(made).ok()
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
        let scattered = Pool::<u32, 4>::scattered(LARGE).unwrap();
        assert_eq!((scattered.get_or_make(5, || 1), scattered.get(LARGE - 1)), (Some(&1), Some(&1)));
        let list = Pool::<u32, 4>::scattered(LARGE - 1).unwrap();
        assert_eq!((list.get_or_make(5, || 1), list.get(8)), (Some(&1), None));
    }

    #[test]
    fn unavailable_memory_is_an_error() {
        assert!(matches!(boxed(usize::MAX, || 0u64), Err(ConfigError::OutOfMemory)));
    }
}
