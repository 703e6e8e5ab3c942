//! Reads files of packets and finds their whole records.

use std::io;

use namely_host::disk::{File, Folder};
use namely_wire::{DataView, PACKET_OCTETS_MAX};

use crate::format::{Format, MAGIC, checksum};
use crate::index::Entry;

/// Octets read at a time; a record is shorter.
const CHUNK_OCTETS: usize = 1 << 20;

/// The records of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) entries: Vec<Entry>,
    /// Octets up to the end of the last whole record.
    pub(crate) octets: u64,
    /// Damaged records before that end.
    pub(crate) damaged: u64,
}

/// The numbers of the files of packets in `folder`, in ascending order.
pub(crate) fn file_numbers(folder: &Folder) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for name in folder.names()? {
        let number = name.to_str().and_then(|name| name.strip_prefix("packets-")?.strip_suffix(".log"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the format of a file of `octets` octets, and whether its creation was interrupted. The
/// store begins such a file again.
pub(crate) fn format(file: &File, octets: u64) -> io::Result<(Format, bool)> {
    let mut magic = *MAGIC;
    if octets < magic.len() as u64 {
        return Ok((Format::Two, true));
    }
    file.read_exact_at(&mut magic, 0)?;
    if octets == magic.len() as u64 && is_half_written(&magic) {
        return Ok((Format::Two, true));
    }
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "it is not a file of packets");
    Ok((Format::of(&magic).ok_or_else(strange)?, false))
}

/// Returns true for a beginning of [`MAGIC`] followed by zeros, which a power cut may leave.
fn is_half_written(octets: &[u8; 16]) -> bool {
    let written = octets.iter().zip(MAGIC).take_while(|(octet, expected)| octet == expected).count();
    octets[written..].iter().all(|octet| *octet == 0) && written < MAGIC.len()
}

/// Reads a file of `octets` octets from its beginning. A damaged record is skipped if a whole one
/// follows; otherwise it begins a torn tail.
pub(crate) fn scan(file: &File, octets: u64) -> io::Result<Scanned> {
    let mut window = Window { file, octets, start: 0, buf: Vec::new() };
    let (format, is_interrupted) = format(file, octets)?;
    if is_interrupted {
        return Ok(Scanned::default());
    }
    let header_octets = format.header_octets();
    let mut scanned = Scanned { octets: MAGIC.len() as u64, ..Scanned::default() };
    let (mut offset, mut doubtful) = (scanned.octets, 0);
    while let Some(header) = window.at(offset, header_octets)? {
        let Some(length) = record_length(header) else { break };
        let Some(octets) = window.at(offset, header_octets + length)? else { break };
        let end = offset + octets.len() as u64;
        let whole = record(octets, format);
        match whole.and_then(|(packet, expires_ms)| Some((DataView::parse(packet).ok()?, expires_ms))) {
            Some((data, expires_ms)) => {
                let name = data.name.as_bytes().into();
                scanned.entries.push(Entry { offset, octets: length as u32, expires_ms, name });
                scanned.octets = end;
                scanned.damaged += std::mem::take(&mut doubtful);
            }
            None => doubtful += 1,
        }
        offset = end;
    }
    Ok(scanned)
}

/// Returns the packet of a record and its expiry, if the record is whole.
pub(crate) fn record(octets: &[u8], format: Format) -> Option<(&[u8], u64)> {
    let (header, packet) = octets.split_at_checked(format.header_octets())?;
    let (length, rest) = header.split_first_chunk::<4>()?;
    let (expires, check) = match format {
        Format::One => ([0; 8], rest),
        Format::Two => rest.split_first_chunk::<8>().map(|(expires, check)| (*expires, check))?,
    };
    let is_whole =
        u32::from_le_bytes(*length) as usize == packet.len() && checksum(*length, expires, packet) == check;
    is_whole.then_some((packet, u64::from_le_bytes(expires)))
}

/// The length in a record's header, if it is a valid packet size.
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
    /// Returns `length` octets from `offset` on; none if the file is shorter.
    fn at(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        if offset + length as u64 > self.octets {
            return Ok(None);
        }
        let is_inside = offset >= self.start && offset + length as u64 <= self.start + self.buf.len() as u64;
        if !is_inside {
            // Read at least the requested octets, and none past the end of the file.
            let chunk = CHUNK_OCTETS.max(length).min((self.octets - offset) as usize);
            self.buf.resize(chunk, 0);
            self.file.read_exact_at(&mut self.buf, offset)?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(self.buf.get(from..from + length))
    }
}
