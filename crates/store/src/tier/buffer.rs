//! Memory that a disk can be read into past the page cache: it begins at a block.

use std::ops::{Deref, DerefMut};

use super::options::BLOCK_OCTETS;

/// Octets that begin at a multiple of [`BLOCK_OCTETS`] in memory, and never move.
#[derive(Debug)]
pub(crate) struct Buffer {
    octets: Box<[u8]>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// Zeros.
    pub(crate) fn new(length: usize) -> Self {
        let octets = vec![0; length + BLOCK_OCTETS as usize].into_boxed_slice();
        // Where no such place can be told, reading past the page cache fails and is not used.
        let start = octets.as_ptr().align_offset(BLOCK_OCTETS as usize).min(BLOCK_OCTETS as usize);
        Buffer { octets, start, length }
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
    fn a_buffer_begins_at_a_block_and_a_record_lies_in_its_blocks() {
        for length in [1, 4096, 8820, 1 << 20] {
            let buffer = Buffer::new(length);
            assert!(buffer.as_ptr().addr().is_multiple_of(4096) && buffer.len() == length);
        }
        assert_eq!(blocks(4096, 1), (4096, 4096));
        assert_eq!(blocks(8000, 300), (4096, 8192));
    }
}
