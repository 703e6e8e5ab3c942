//! Places for table entries: a fixed number of them, allocated a chunk at a time when the first
//! place of a chunk is needed, and then never moved or freed. A large limit costs nothing until it
//! is used, and no packet pays for an allocation but the one that opens a chunk.
//!
//! The first places are in small chunks, so that a table that is hardly used takes little. All
//! others are in large ones: a home whose allocator gives large memory huge pages spares the
//! processor most of its look-ups of addresses, which with a million entries cost as much as the
//! entries themselves.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use once_cell::race::OnceBox;

use crate::error::ConfigError;

/// Places of a small chunk.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 1024 };

/// Places of a large chunk: of a cache line each they are 2 MiB.
const LARGE: usize = 32 * CHUNK;

/// Places for `T`, counted from 0.
pub(crate) struct Pool<T, const N: usize = CHUNK> {
    small: Box<[OnceBox<[T; N]>]>,
    large: Box<[OnceBox<[T; LARGE]>]>,
    /// Places in small chunks.
    places_small: usize,
}

impl<T, const N: usize> Pool<T, N> {
    /// A pool of at least `places` places, which are used from the first on; none is allocated yet.
    pub(crate) fn new(places: usize) -> Result<Self, ConfigError> {
        Pool::with(places, LARGE)
    }

    /// The same for places that are used in any order: if they are many, all are in large chunks.
    pub(crate) fn scattered(places: usize) -> Result<Self, ConfigError> {
        Pool::with(places, if places < LARGE { LARGE } else { 0 })
    }

    fn with(places: usize, places_small: usize) -> Result<Self, ConfigError> {
        Ok(Pool {
            small: boxed(places.min(places_small).div_ceil(N), OnceBox::new)?,
            large: boxed(places.saturating_sub(places_small).div_ceil(LARGE), OnceBox::new)?,
            places_small,
        })
    }

    /// A place, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        match i.checked_sub(self.places_small) {
            None => self.small.get(i / N)?.get().map(|chunk| &chunk[i % N]),
            Some(i) => self.large.get(i / LARGE)?.get().map(|chunk| &chunk[i % LARGE]),
        }
    }

    /// A place, whose chunk is filled by `make` if it does not exist; `None` beyond the pool's end
    /// or if there is no memory.
    pub(crate) fn get_or_make(&self, i: usize, make: impl FnMut() -> T) -> Option<&T> {
        match i.checked_sub(self.places_small) {
            None => chunk_of(self.small.get(i / N)?, make).map(|chunk| &chunk[i % N]),
            Some(i) => chunk_of(self.large.get(i / LARGE)?, make).map(|chunk| &chunk[i % LARGE]),
        }
    }
}

/// Chunks that are made before a packet needs them: see `prepare`.
impl<T, const N: usize> Pool<T, N> {
    /// Makes the first `places` places, as far as there are so many.
    pub(crate) fn fill(&self, places: usize, mut make: impl FnMut() -> T) -> Result<(), ConfigError> {
        let mut i = 0;
        while i < places.min(self.end()) {
            self.get_or_make(i, &mut make).ok_or(ConfigError::OutOfMemory)?;
            i += self.chunk_len(i);
        }
        Ok(())
    }

    /// Makes the next chunk if more than half of the one that the last of `used` places is in is
    /// used, or the first one if none is; returns true if it was not there.
    pub(crate) fn fill_ahead(&self, used: usize, make: impl FnMut() -> T) -> Result<bool, ConfigError> {
        self.fill_at(self.ahead(used), make)
    }

    /// Returns true if [`Pool::fill_ahead`] would make one.
    pub(crate) fn is_behind(&self, used: usize) -> bool {
        let ahead = self.ahead(used);
        ahead < self.end() && self.get(ahead).is_none()
    }

    /// The place that is to exist when so many are used.
    fn ahead(&self, used: usize) -> usize {
        if used == 0 { 0 } else { used + self.chunk_len(used) / 2 }
    }

    /// Of a pool whose places are used in any order, makes one of the chunks that are missing, if
    /// any is there; returns true if one was.
    pub(crate) fn fill_missing(&self, make: impl FnMut() -> T) -> Result<bool, ConfigError> {
        let chunks = || self.small.iter().map(|chunk| chunk.get().is_some());
        let large = || self.large.iter().map(|chunk| chunk.get().is_some());
        if !chunks().chain(large()).any(|is_made| is_made) {
            return Ok(false);
        }
        let small = chunks().position(|is_made| !is_made).map(|i| i * N);
        let missing =
            small.or_else(|| large().position(|is_made| !is_made).map(|i| self.places_small + i * LARGE));
        missing.map_or(Ok(false), |i| self.fill_at(i, make))
    }

    /// Makes `count` places from `from` on, as far as there are so many.
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

    /// One more than the last place.
    fn end(&self) -> usize {
        match self.large.len() {
            0 => self.small.len() * N,
            large => self.places_small + large * LARGE,
        }
    }

    /// Places of the chunk of a place.
    fn chunk_len(&self, i: usize) -> usize {
        if i < self.places_small { N } else { LARGE }
    }
}

fn chunk_of<T, const N: usize>(place: &OnceBox<[T; N]>, make: impl FnMut() -> T) -> Option<&[T; N]> {
    let made = || Box::<[T; N]>::try_from(boxed(N, make).map_err(|_| ())?).map_err(|_| ());
    place.get_or_try_init(made).ok()
}

/// `len` values of `make`, or [`ConfigError::OutOfMemory`].
pub(crate) fn boxed<T>(len: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, ConfigError> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| ConfigError::OutOfMemory)?;
    values.extend(core::iter::repeat_with(make).take(len));
    Ok(values.into_boxed_slice())
}

/// A part of the forwarder that lies by itself on the heap: no stack holds all parts at once, and
/// none of them is moved when the forwarder is.
pub(crate) struct Apart<T>(Box<[T; 1]>);

impl<T> Apart<T> {
    /// Never inlined: the frame in which the part is made is gone before the next one is.
    #[inline(never)]
    pub(crate) fn new(make: impl FnOnce() -> Result<T, ConfigError>) -> Result<Self, ConfigError> {
        let mut place = Vec::new();
        place.try_reserve_exact(1).map_err(|_| ConfigError::OutOfMemory)?;
        place.push(make()?);
        place.into_boxed_slice().try_into().map(Apart).map_err(|_| ConfigError::OutOfMemory)
    }
}

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0[0]
    }
}

impl<T> DerefMut for Apart<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_exists_from_its_first_use_on_and_none_beyond_the_end() {
        let pool = Pool::<u32, 4>::new(5).unwrap();
        assert_eq!(pool.get(4), None);
        assert_eq!(pool.get_or_make(4, || 7), Some(&7));
        assert_eq!((pool.get(3), pool.get(7)), (None, Some(&7)));
        assert_eq!(pool.get_or_make(8, || 7), None);
        assert_eq!(pool.get_or_make(4, || 9), Some(&7), "a chunk is made once");
    }

    #[test]
    fn places_beyond_the_small_chunks_and_scattered_ones_are_in_large_chunks() {
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
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(matches!(boxed(usize::MAX, || 0u64), Err(ConfigError::OutOfMemory)));
    }
}
