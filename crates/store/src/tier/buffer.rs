//! Memory that a disk can be read into past the page cache: it begins at a block.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::BLOCK_OCTETS;

/// Octets that begin at a multiple of [`BLOCK_OCTETS`] in memory, and never move.
#[derive(Debug)]
pub(crate) struct Buffer {
    octets: Box<[u8]>,
    start: usize,
    length: usize,
    /// Where its memory goes when it is dropped.
    pool: Option<Arc<Pool>>,
}

/// Octets of a buffer of a pool: the blocks that any record lies in.
const POOLED_OCTETS: usize = 4 * BLOCK_OCTETS as usize;

/// Maximum number of buffers that wait for their next use: 5 MiB.
const POOLED_MAX: usize = 256;

/// Memory of buffers that were used: to make it anew costs as much as a read does otherwise.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Box<[u8]>>>);

impl Pool {
    /// A buffer with whatever octets it had before; zeros if it is longer than those that are kept.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Buffer {
        if length > POOLED_OCTETS {
            return Buffer::new(length);
        }
        let octets = self.0.lock().pop();
        let mut buffer = octets.map_or_else(|| Buffer::new(POOLED_OCTETS), Buffer::of);
        (buffer.length, buffer.pool) = (length, Some(self.clone()));
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(pool) = self.pool.take() else { return };
        let mut kept = pool.0.lock();
        if kept.len() < POOLED_MAX {
            kept.push(std::mem::take(&mut self.octets));
        }
    }
}

impl Buffer {
    /// Zeros.
    pub(crate) fn new(length: usize) -> Self {
        let mut buffer = Buffer::of(vec![0; length + BLOCK_OCTETS as usize].into_boxed_slice());
        buffer.length = length;
        buffer
    }

    fn of(octets: Box<[u8]>) -> Self {
        // Where no such place can be told, reading past the page cache fails and is not used.
        let start = octets.as_ptr().align_offset(BLOCK_OCTETS as usize).min(BLOCK_OCTETS as usize);
        let length = octets.len() - BLOCK_OCTETS as usize;
        Buffer { octets, start, length, pool: None }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.octets[self.start..self.start + self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.octets[self.start..self.start + self.length]
    }
}

/// The blocks that hold `octets` from `offset` on: where they begin, and how many octets they are.
pub(crate) fn blocks(offset: u64, octets: usize) -> (u64, usize) {
    let start = offset / BLOCK_OCTETS * BLOCK_OCTETS;
    let end = (offset + octets as u64).next_multiple_of(BLOCK_OCTETS);
    (start, (end - start) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_buffers_is_used_again_and_so_much_of_it_kept() {
        let pool = Arc::new(Pool::default());
        let mut buffer = pool.take(8192);
        buffer.fill(7);
        let at = buffer.as_ptr().addr();
        drop(buffer);
        let buffer = pool.take(4096);
        assert_eq!((buffer.as_ptr().addr(), buffer.len(), buffer[0]), (at, 4096, 7));
        let buffers: Vec<_> = (0..POOLED_MAX + 1).map(|_| pool.take(1)).collect();
        drop(buffers);
        assert_eq!(pool.0.lock().len(), POOLED_MAX);
        drop(buffer);
        drop(pool.take(POOLED_OCTETS + 1));
        assert_eq!(pool.0.lock().len(), POOLED_MAX);
    }

    #[test]
    fn a_buffer_begins_at_a_block_and_a_record_lies_in_its_blocks() {
        for length in [1, 4096, 8820, 1 << 20] {
            let buffer = Buffer::new(length);
            assert!(buffer.as_ptr().addr().is_multiple_of(4096) && buffer.len() == length);
        }
        assert_eq!(blocks(4096, 1), (4096, 4096));
        assert_eq!(blocks(8000, 300), (4096, 8192));
    }
}
