//! Reading files of packets back: which records are whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use namely_wire::{DataView, PACKET_OCTETS_MAX};

use super::index::Entry;
use super::{MAGIC, RECORD_HEADER_OCTETS, checksum};

/// Octets read at once; a record is shorter.
const CHUNK_OCTETS: usize = 1 << 20;

/// What a file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scanned {
    pub(super) entries: Vec<Entry>,
    /// Octets up to the end of the last whole record.
    pub(super) octets: u64,
    /// Records in between that are damaged.
    pub(super) damaged: u64,
}

/// The numbers of the files of packets in `folder`, the lowest first.
pub(super) fn file_numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("packets-")?.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads a file of `octets` octets from its beginning. A damaged record with a whole one behind it is skipped; from one
/// without, the rest is a torn tail.
pub(super) fn scan(file: &File, octets: u64) -> io::Result<Scanned> {
    let mut window = Window { file, octets, start: 0, buf: Vec::new() };
    match window.at(0, MAGIC.len())? {
        Some(magic) if magic == MAGIC => {}
        // It was being made.
        None => return Ok(Scanned::default()),
        Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a file of packets")),
    }
    let mut scanned = Scanned { octets: MAGIC.len() as u64, ..Scanned::default() };
    let (mut offset, mut doubtful) = (scanned.octets, 0);
    while let Some(header) = window.at(offset, RECORD_HEADER_OCTETS)? {
        let Some(length) = record_length(header) else { break };
        let Some(octets) = window.at(offset, RECORD_HEADER_OCTETS + length)? else { break };
        let end = offset + octets.len() as u64;
        match record(octets).and_then(|packet| DataView::parse(packet).ok()) {
            Some(data) => {
                let name = data.name.as_bytes().into();
                scanned.entries.push(Entry { offset, octets: length as u32, name });
                scanned.octets = end;
                scanned.damaged += std::mem::take(&mut doubtful);
            }
            None => doubtful += 1,
        }
        offset = end;
    }
    Ok(scanned)
}

/// The packet of a record, if it is whole.
pub(super) fn record(octets: &[u8]) -> Option<&[u8]> {
    let (header, packet) = octets.split_at_checked(RECORD_HEADER_OCTETS)?;
    let (length, check) = header.split_at_checked(4)?;
    let length: [u8; 4] = length.try_into().ok()?;
    let whole = u32::from_le_bytes(length) as usize == packet.len() && checksum(length, packet) == check;
    whole.then_some(packet)
}

/// The length that a record's header says, if a packet can have it.
fn record_length(header: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*header.first_chunk()?) as usize;
    (1..=PACKET_OCTETS_MAX).contains(&length).then_some(length)
}

/// A file, read a chunk at a time.
struct Window<'a> {
    file: &'a File,
    octets: u64,
    start: u64,
    buf: Vec<u8>,
}

impl Window<'_> {
    /// `length` octets from `offset` on; none if the file ends before.
    fn at(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        if offset + length as u64 > self.octets {
            return Ok(None);
        }
        let is_inside = offset >= self.start && offset + length as u64 <= self.start + self.buf.len() as u64;
        if !is_inside {
            let chunk = CHUNK_OCTETS.max(length).min((self.octets - offset) as usize);
            self.buf.resize(chunk, 0);
            self.file.read_exact_at(&mut self.buf, offset)?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buf.get(from..from + length))
    }
}
