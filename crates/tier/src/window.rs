//! Reads a segment from its beginning to its end, in large parts.

use std::io;

use super::buffer::{Buffer, blocks};
use super::extent::Extent;
use super::limits::BLOCK_OCTETS;
use super::place::UNIT_OCTETS;
use super::record::{self, Checks, HEADER_OCTETS, Header, RECORD_OCTETS_MAX, Record};

/// Octets read at once.
const WINDOW_OCTETS: usize = 1 << 20;

/// The part of a segment that is in memory. It moves forward.
pub(crate) struct Window<'a> {
    extent: &'a Extent,
    octets: u64,
    start: u64,
    length: usize,
    buffer: Buffer,
}

impl<'a> Window<'a> {
    /// Creates a window on a segment of `octets`, a multiple of a block.
    pub(crate) fn new(extent: &'a Extent, octets: u64) -> Self {
        let buffer = Buffer::new(WINDOW_OCTETS.min(octets as usize));
        Window { extent, octets, start: 0, length: 0, buffer }
    }

    /// Returns `length` octets from `offset` on, fewer at the end of the segment.
    pub(crate) fn at(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let length = length.min(self.octets.saturating_sub(offset) as usize);
        let is_inside = offset >= self.start && offset + length as u64 <= self.start + self.length as u64;
        if !is_inside {
            let (start, _) = blocks(offset, length);
            let octets = (self.octets - start).min(self.buffer.len() as u64) as usize;
            // If the read fails, the content of the buffer is unknown.
            self.length = 0;
            self.extent.read_exact_at(&mut self.buffer[..octets], start)?;
            (self.start, self.length) = (start, octets);
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from..from + length])
    }

    /// Calls `found` with each whole record and its offset. Returns the number of damaged records.
    pub(crate) fn records(
        &mut self,
        checks: &Checks,
        mut found: impl FnMut(u64, Record<'_>),
    ) -> io::Result<u64> {
        let (mut offset, mut damaged) = (BLOCK_OCTETS, 0);
        while offset + (HEADER_OCTETS as u64) < self.octets {
            let octets = self.at(offset, RECORD_OCTETS_MAX)?;
            let Some(header) = Header::read(octets) else { break };
            match record::read(checks, octets) {
                Some(whole) => {
                    let octets = record::record_octets(whole.packet.len()) as u64;
                    found(offset, whole);
                    offset += octets;
                }
                // The start of the next record is unknown. The next group starts at a multiple of a
                // block.
                None => {
                    damaged += u64::from(!header.is_empty());
                    offset = (offset + UNIT_OCTETS as u64).next_multiple_of(BLOCK_OCTETS);
                }
            }
        }
        Ok(damaged)
    }
}
