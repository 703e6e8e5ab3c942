//! The small files of a tree as one object. Each file is a record: an octet for its kind, and as
//! many octets as the file has according to the index.
//!
//! Files are read when their part of the pack is requested. A file that differs from the index has
//! a record of the kind of changed files, with zeros. The client requests such a file by its own
//! name.

use std::cell::RefCell;
use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use namely_wire::tree_index::IndexEntry;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, pread};

use crate::content::{FileStamp, ReadError};
use crate::index::{PackRecord, PackedFile, TreeIndex};
use crate::root::Root;

/// The first octet of a record: content follows.
pub(crate) const RECORD_CONTENT: u8 = 0;
/// The file has changed; zeros follow.
pub(crate) const RECORD_CHANGED: u8 = 1;
/// The producer cannot read the file; zeros follow.
pub(crate) const RECORD_UNREADABLE: u8 = 2;

/// The pack of one version of an index.
pub(crate) struct Pack {
    root: Arc<Root>,
    index: Arc<TreeIndex>,
    /// The directory of the file read last: files of a directory lie together in the pack.
    directory: RefCell<Option<(u32, OwnedFd)>>,
    /// Octets read from a file, or zeros.
    buffer: RefCell<Vec<u8>>,
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({}, {} files)", self.index.path.display(), self.index.packed.len())
    }
}

impl Pack {
    pub(crate) fn new(root: Arc<Root>, index: Arc<TreeIndex>) -> Self {
        Pack { root, index, directory: RefCell::new(None), buffer: RefCell::default() }
    }

    pub(crate) fn octets(&self) -> u64 {
        self.index.pack_octets()
    }

    /// Fills `parts` with the octets from `offset` on. Returns an error if a file changed after
    /// some of its content was sent: this version can no longer be served.
    pub(crate) fn read_into(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
        let wanted: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = offset.checked_add(wanted).filter(|end| *end <= self.octets()).ok_or(ReadError::Changed)?;
        let mut out = Scatter { parts, part: 0, at: 0 };
        let mut at = offset;
        let mut next = self.index.packed.partition_point(|file| file.end <= offset);
        while at < end {
            let file = self.index.packed.get(next).ok_or(ReadError::Changed)?;
            let start = next.checked_sub(1).and_then(|i| self.index.packed.get(i)).map_or(0, |f| f.end);
            let upto = end.min(file.end);
            self.read_record(file, at - start, upto - start, &mut out)?;
            at = upto;
            next += 1;
        }
        Ok(())
    }

    /// Writes octets `from` to `to` of the record of `file`.
    fn read_record(
        &self,
        file: &PackedFile,
        from: u64,
        to: u64,
        out: &mut Scatter<'_, '_>,
    ) -> Result<(), ReadError> {
        let mut buffer = self.buffer.borrow_mut();
        // At most a record of a small file.
        let octets = (to - from.max(1)) as usize;
        buffer.clear();
        buffer.resize(octets, 0);
        let record = match file.sent_record() {
            before @ (PackRecord::Changed | PackRecord::Unreadable) => before,
            before => match (self.read_file(file, from.max(1) - 1, &mut buffer), before) {
                (Ok(()), _) => PackRecord::Content,
                (Err(_), PackRecord::Content) => return Err(ReadError::Changed),
                (Err(ReadError::Changed), _) => PackRecord::Changed,
                (Err(ReadError::System(errno)), _) => {
                    tracing::debug!(%errno, "a file of a pack cannot be read");
                    PackRecord::Unreadable
                }
            },
        };
        file.set_record(record);
        if record != PackRecord::Content {
            buffer.fill(0);
        }
        if from == 0 {
            out.put(&[match record {
                PackRecord::Content | PackRecord::Nothing => RECORD_CONTENT,
                PackRecord::Changed => RECORD_CHANGED,
                PackRecord::Unreadable => RECORD_UNREADABLE,
            }]);
        }
        out.put(&buffer);
        Ok(())
    }

    fn read_file(&self, file: &PackedFile, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let (id, path, entry) = self.index.locate(file).ok_or(ReadError::Changed)?;
        let mut directory = self.directory.borrow_mut();
        let directory = match &*directory {
            Some((open, fd)) if *open == id => fd,
            _ => {
                let opened = self.root.open_path_of_directory(&path).map_err(read_error)?;
                &directory.insert((id, opened)).1
            }
        };
        // Checked first, so that a pipe that has replaced the file is not opened.
        let found = statat(directory, entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(read_error)?;
        expect_same(&found, &entry)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(directory, entry.name, flags, Mode::empty()).map_err(read_error)?;
        read_all(&fd, offset, buffer)?;
        // Checked after reading, so that a change before or during the read is detected.
        expect_same(&fstat(&fd).map_err(ReadError::System)?, &entry)
    }
}

fn expect_same(found: &Stat, entry: &IndexEntry<'_>) -> Result<(), ReadError> {
    let mark = FileStamp::of(found);
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_same = is_file
        && mark.mtime_ns() == entry.mtime_ns
        && mark.size() == entry.octets
        && mark.entry_stamp() == entry.stamp;
    if is_same { Ok(()) } else { Err(ReadError::Changed) }
}

fn read_all(fd: &OwnedFd, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), ReadError> {
    while !buffer.is_empty() {
        match pread(fd, &mut *buffer, offset) {
            Ok(0) => return Err(ReadError::Changed),
            Ok(read) => {
                offset += read as u64;
                buffer = buffer.get_mut(read..).unwrap_or_default();
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError::System(errno)),
        }
    }
    Ok(())
}

/// A file that no longer exists counts as changed; a file without read permission as unreadable.
fn read_error(errno: Errno) -> ReadError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO => ReadError::Changed,
        errno => ReadError::System(errno),
    }
}

/// Buffers that are filled one after the other.
struct Scatter<'a, 'b> {
    parts: &'a mut [IoSliceMut<'b>],
    part: usize,
    at: usize,
}

impl Scatter<'_, '_> {
    /// Writes `octets`; the caller ensures that there is room.
    fn put(&mut self, mut octets: &[u8]) {
        while let Some(part) = self.parts.get_mut(self.part) {
            let room = part.get_mut(self.at..).unwrap_or_default();
            let fits = room.len().min(octets.len());
            let (now, later) = octets.split_at(fits);
            room[..fits].copy_from_slice(now);
            octets = later;
            self.at += fits;
            if octets.is_empty() {
                return;
            }
            self.part += 1;
            self.at = 0;
        }
    }
}
