//! An array of a fixed size that allocates only the written chunks.

use alloc::boxed::Box;

use crate::error::ConfigError;
use crate::pool::boxed;

/// Items allocated at a time.
const CHUNK: usize = 64;

pub(super) struct Sparse<T> {
    chunks: Box<[Option<Box<[T]>>]>,
    /// One less than the number of items.
    mask: usize,
}

impl<T: Copy + Default> Sparse<T> {
    /// An array of the next power of two of `len` items.
    pub(super) fn new(len: usize) -> Result<Self, ConfigError> {
        // A power of two, so that a mask selects the item instead of a division.
        let len = len.next_power_of_two();
        Ok(Sparse { chunks: boxed(len.div_ceil(CHUNK), || None)?, mask: len - 1 })
    }

    /// Allocates all items.
    pub(super) fn prepare(&mut self) -> Result<(), ConfigError> {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.is_none()) {
            *chunk = Some(boxed(CHUNK, T::default)?);
        }
        Ok(())
    }

    /// The item that a hash selects; `None` if its chunk was never written.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<&T> {
        let i = hash as usize & self.mask;
        self.chunks[i / CHUNK].as_ref().map(|chunk| &chunk[i % CHUNK])
    }

    /// As `get`, mutable.
    #[inline]
    pub(super) fn get_mut(&mut self, hash: u64) -> Option<&mut T> {
        let i = hash as usize & self.mask;
        self.chunks[i / CHUNK].as_mut().map(|chunk| &mut chunk[i % CHUNK])
    }

    /// As `get_mut`, allocates the chunk if needed; `None` if there is no memory.
    #[inline]
    pub(super) fn get_or_make(&mut self, hash: u64) -> Option<&mut T> {
        let i = hash as usize & self.mask;
        let chunk = &mut self.chunks[i / CHUNK];
        if chunk.is_none() {
            *chunk = Some(boxed(CHUNK, T::default).ok()?);
        }
        chunk.as_mut().map(|chunk| &mut chunk[i % CHUNK])
    }

    /// The allocated items.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten().flatten()
    }
}
