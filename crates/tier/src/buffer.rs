//! Memory aligned to blocks, as reads past the page cache require.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::BLOCK_OCTETS;

/// Octets that begin at a multiple of [`BLOCK_OCTETS`] in memory and never move.
#[derive(Debug)]
pub(crate) struct Buffer {
    octets: Box<[u8]>,
    start: usize,
    length: usize,
    /// The pool to which the memory returns when the buffer is dropped.
    pool: Option<Arc<Pool>>,
}

/// Octets of a pooled buffer: enough for the blocks of any record.
const POOLED_OCTETS: usize = 4 * BLOCK_OCTETS as usize;

/// Maximum number of idle buffers: 5 MiB.
const POOLED_MAX: usize = 256;

/// Memory of used buffers. Without the pool, each read would spend as much time on allocation as on
/// the read itself.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Box<[u8]>>>);

impl Pool {
    /// Returns a buffer with stale content, or a new buffer of zeros if `length` exceeds the pooled
    /// size.
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
    /// Creates a buffer of zeros.
    pub(crate) fn new(length: usize) -> Self {
        // One block more than requested, so that the memory contains an aligned start.
        let mut buffer = Buffer::of(vec![0; length + BLOCK_OCTETS as usize].into_boxed_slice());
        buffer.length = length;
        buffer
    }

    fn of(octets: Box<[u8]>) -> Self {
        // If the alignment cannot be computed, reads past the page cache fail and are not used.
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

/// Returns the blocks that hold `octets` octets from `offset` on: their start and their length.
pub(crate) fn blocks(offset: u64, octets: usize) -> (u64, usize) {
    let start = offset / BLOCK_OCTETS * BLOCK_OCTETS;
    let end = (offset + octets as u64).next_multiple_of(BLOCK_OCTETS);
    (start, (end - start) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_memory_is_reused_up_to_a_limit() {
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
    fn buffers_and_records_are_block_aligned() {
        for length in [1, 4096, 8820, 1 << 20] {
            let buffer = Buffer::new(length);
            assert!(buffer.as_ptr().addr().is_multiple_of(4096) && buffer.len() == length);
        }
        assert_eq!(blocks(4096, 1), (4096, 4096));
        assert_eq!(blocks(8000, 300), (4096, 8192));
    }
}
