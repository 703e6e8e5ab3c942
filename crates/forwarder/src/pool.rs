//! Places for table entries: a fixed number of them, allocated a chunk at a time when the first place of a
//! chunk is needed, and then never moved or freed. A large limit costs nothing until it is used, and no packet
//! pays for an allocation but the one that opens a chunk.

use alloc::boxed::Box;
use alloc::vec::Vec;

use once_cell::race::OnceBox;

use crate::config::ConfigError;

/// Places of a chunk.
pub(crate) const CHUNK: usize = if cfg!(loom) { 4 } else { 1024 };

/// Places for `T`, counted from 0.
pub(crate) struct Pool<T, const N: usize = CHUNK> {
    chunks: Box<[OnceBox<[T; N]>]>,
}

impl<T, const N: usize> Pool<T, N> {
    /// A pool of at least `places` places; none is allocated yet.
    pub(crate) fn new(places: usize) -> Result<Self, ConfigError> {
        Ok(Pool { chunks: boxed(places.div_ceil(N), OnceBox::new)? })
    }

    /// A place, if its chunk exists.
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        self.chunks.get(i / N)?.get().map(|chunk| &chunk[i % N])
    }

    /// A place, whose chunk is filled by `make` if it does not exist; none beyond the pool's end or if there
    /// is no memory.
    pub(crate) fn get_or_make(&self, i: usize, make: impl FnMut() -> T) -> Option<&T> {
        let chunk = self.chunks.get(i / N)?.get_or_try_init(|| {
            let places = boxed(N, make).map_err(|_| ())?;
            Box::<[T; N]>::try_from(places).map_err(|_| ())
        });
        chunk.ok().map(|chunk| &chunk[i % N])
    }
}

/// `len` values of `make`, or [`ConfigError::OutOfMemory`].
pub(crate) fn boxed<T>(len: usize, make: impl FnMut() -> T) -> Result<Box<[T]>, ConfigError> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| ConfigError::OutOfMemory)?;
    values.extend(core::iter::repeat_with(make).take(len));
    Ok(values.into_boxed_slice())
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
    fn memory_that_cannot_be_had_is_an_error() {
        assert!(matches!(boxed(usize::MAX, || 0u64), Err(ConfigError::OutOfMemory)));
    }
}
