//! A segment: a file of one size, or a region of a device, that is written in order, and thrown
//! away whole.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use namely_host::disk::{File, Folder, OpenError, Writers};
use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::above::Head;
use super::buffer::Buffer;
use super::extent::Extent;
use super::limits::BLOCK_OCTETS;
use super::place::Place;
use super::record::Key;

const MAGIC: &[u8; 16] = b"namely-segment-2";

/// A record, as the index of a segment knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) hash: u64,
    pub(crate) place: Place,
    pub(crate) expires_ms: u64,
}

/// A segment that is there.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The later it was begun, the higher.
    pub(crate) number: u64,
    /// Its place in the table of segments.
    pub(crate) slot: usize,
    pub(crate) extent: Extent,
    /// Octets that it may have.
    pub(crate) octets: u64,
    /// Octets that it has once it is sealed.
    end: AtomicU64,
    /// Groups that are not written yet.
    pub(crate) groups: AtomicUsize,
    /// All that it has is on the disk, with its index.
    pub(crate) is_sealed: AtomicBool,
    /// The records that were written while it is not sealed.
    pub(crate) records: Mutex<Vec<Recorded>>,
    /// What leads to them from names above.
    pub(crate) heads: Mutex<Vec<Head>>,
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
        }
    }

    /// Octets that count.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// It ends here: nothing is written behind it.
    pub(crate) fn cut_off(&self, octets: u64) -> io::Result<()> {
        self.extent.cut_off(octets)?;
        self.ends_at(octets);
        Ok(())
    }

    /// Nothing behind this counts.
    pub(crate) fn ends_at(&self, octets: u64) {
        self.end.store(octets, Ordering::Release);
    }

    /// Makes the file of segment `number`, with room for `octets`.
    pub(crate) fn create(
        folder: &Folder,
        (number, slot, octets): (u64, usize, u64),
        direct: bool,
        key: &Key,
    ) -> io::Result<Self> {
        let name = segment_name(number);
        let made = create_file(folder, &name, direct).and_then(|file| {
            file.allocate(octets)?;
            file.write_all_at(&header(number, key), 0)?;
            Ok(file)
        });
        // Half a segment is none.
        let file = made.inspect_err(|_| drop(folder.remove_if_there(&name)))?;
        Ok(Segment::new(number, slot, file.into(), octets, false))
    }
}

/// Opens the file of a segment, past the page cache if that is asked for and can be.
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

/// The same of one that is not there yet.
fn create_file(folder: &Folder, name: &str, direct: bool) -> io::Result<File> {
    if direct {
        match folder.create(name, OFlags::RDWR | OFlags::DIRECT, 0o600) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {
                // What was made before the flag was refused is there.
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

/// What the first block of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A segment of this folder.
    Segment,
    /// Nothing that was written whole, or that this folder's key knows.
    Broken,
    /// Of another version.
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

/// Removes a segment, and its index before it.
pub(crate) fn remove_files(folder: &Folder, number: u64) -> io::Result<()> {
    folder.remove_if_there(index_name(number))?;
    folder.remove_if_there(segment_name(number)).map(drop)
}
