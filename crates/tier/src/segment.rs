//! A segment: a file of one size, or a region of a device, that is written in order and evicted
//! whole.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use namely_host::disk::{File, Folder, OpenError, Writers};
use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::above::PrefixEntry;
use super::buffer::Buffer;
use super::extent::Extent;
use super::limits::BLOCK_OCTETS;
use super::place::RecordPosition;
use super::record::Key;

const MAGIC: &[u8; 16] = b"namely-segment-2";

/// A record, as an entry of a segment's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub(crate) hash: u64,
    pub(crate) place: RecordPosition,
    pub(crate) expires_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Segment {
    /// Segments are numbered in the order in which they are made.
    pub(crate) number: u64,
    /// Its slot in the table of segments.
    pub(crate) slot: usize,
    pub(crate) extent: Extent,
    /// Capacity in octets.
    pub(crate) octets: u64,
    /// Octets in use once the segment is sealed.
    end: AtomicU64,
    /// Groups that are not written yet.
    pub(crate) groups: AtomicUsize,
    /// Whether the segment accepts no more records and all its records are written.
    pub(crate) is_sealed: AtomicBool,
    /// Records written so far. Sealing moves them into the segment's index.
    pub(crate) records: Mutex<Vec<IndexRecord>>,
    /// Names above the records, which find them, too.
    pub(crate) heads: Mutex<Vec<PrefixEntry>>,
    /// Offsets of records that were erased before the segment was sealed. Its index leaves them
    /// out.
    pub(crate) erased: Mutex<BTreeSet<u64>>,
}

impl Segment {
    pub(crate) fn new(number: u64, slot: usize, extent: Extent, octets: u64, is_sealed: bool) -> Self {
        Segment {
            number,
            slot,
            extent,
            octets,
            end: AtomicU64::new(octets),
            groups: AtomicUsize::new(0),
            is_sealed: AtomicBool::new(is_sealed),
            records: Mutex::new(Vec::new()),
            heads: Mutex::new(Vec::new()),
            erased: Mutex::default(),
        }
    }

    /// Returns the octets in use.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Ends the segment after `octets` octets: no record is written after them.
    pub(crate) fn cut_off(&self, octets: u64) -> io::Result<()> {
        // Until this succeeds, all octets of the segment are in use.
        self.extent.cut_off(octets)?;
        self.ends_at(octets);
        Ok(())
    }

    /// Marks the octets after the first `octets` as unused.
    pub(crate) fn ends_at(&self, octets: u64) {
        // Release pairs with the Acquire in `end`, so that a cut of the file precedes the new end.
        self.end.store(octets, Ordering::Release);
    }

    /// Makes the file of segment `number`, with room for `octets`.
    pub(crate) fn create(
        folder: &Folder,
        number: u64,
        slot: usize,
        octets: u64,
        direct: bool,
        key: &Key,
    ) -> io::Result<Self> {
        let name = segment_name(number);
        let made = create_file(folder, &name, direct).and_then(|file| {
            // A full disk is detected here, and not by a later write of records.
            file.allocate(octets)?;
            file.write_all_at(&header(number, key), 0)?;
            Ok(file)
        });
        // Remove a segment that was not made whole.
        let file = made.inspect_err(|_| drop(folder.remove_if_there(&name)))?;
        Ok(Segment::new(number, slot, file.into(), octets, false))
    }
}

/// Opens the file of a segment, past the page cache if `direct` and if the file system supports
/// that.
pub(crate) fn open_file(
    folder: &Folder,
    name: &str,
    direct: bool,
    writers: Writers,
) -> Result<Option<File>, OpenError> {
    if direct {
        match folder.open_file(name, OFlags::RDWR | OFlags::DIRECT, writers) {
            Err(OpenError::System(error)) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
            opened => return opened,
        }
    }
    folder.open_file(name, OFlags::RDWR, writers)
}

/// Creates the file of a segment, past the page cache under the same conditions.
fn create_file(folder: &Folder, name: &str, direct: bool) -> io::Result<File> {
    if direct {
        match folder.create(name, OFlags::RDWR | OFlags::DIRECT, 0o600) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                // The file was created although the flag was refused.
                folder.remove_if_there(name)?;
            }
            created => return created,
        }
    }
    folder.create(name, OFlags::RDWR, 0o600)
}

/// The first block of a segment.
///
/// ```text
/// 0                       16           24                            4096
/// | "namely-segment-2" (16) | number (8) | keyed BLAKE3 of both (32) | 0 |
/// ```
fn header(number: u64, key: &Key) -> Buffer {
    let mut block = Buffer::new(BLOCK_OCTETS as usize);
    block[..16].copy_from_slice(MAGIC);
    block[16..24].copy_from_slice(&number.to_le_bytes());
    let digest = key.digest(&block[..24]);
    block[24..56].copy_from_slice(&digest);
    block
}

/// The kind of a file by its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A segment of this folder.
    Segment,
    /// Not written whole, or not made with this folder's key.
    Broken,
    /// A segment of another version.
    Other,
}

pub(crate) fn kind(block: &[u8], number: u64, key: &Key) -> Kind {
    if block[..56] == header(number, key)[..56] {
        return Kind::Segment;
    }
    let is_other = block.starts_with(b"namely-segment-") && !block.starts_with(MAGIC);
    if is_other { Kind::Other } else { Kind::Broken }
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("segment-{number:010}.log")
}

pub(crate) fn index_name(number: u64) -> String {
    format!("segment-{number:010}.index")
}

#[cfg(test)]
pub(crate) fn segment_path(folder: &std::path::Path, number: u64) -> std::path::PathBuf {
    folder.join(segment_name(number))
}

#[cfg(test)]
pub(crate) fn index_path(folder: &std::path::Path, number: u64) -> std::path::PathBuf {
    folder.join(index_name(number))
}

/// Removes a segment. Its index is removed first.
pub(crate) fn remove_files(folder: &Folder, number: u64) -> io::Result<()> {
    folder.remove_if_there(index_name(number))?;
    folder.remove_if_there(segment_name(number)).map(drop)
}
