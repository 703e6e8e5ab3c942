//! The small files of a tree as one object: each is a record, an octet that says what follows and
//! as many octets as the index says that the file has.
//!
//! Files are read when their part of the pack is asked for. A file that is not what the index says
//! has a record of zeros that says so, and its client asks for it by its own name.

use std::cell::RefCell;
use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use namely_wire::tree_index::IndexEntry;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, pread};

use crate::content::{Mark, ReadError};
use crate::index::{PackedFile, Told, TreeIndex};
use crate::root::Root;

/// The first octet of a record: content follows.
pub(crate) const RECORD_CONTENT: u8 = 0;
/// The file is another by now; zeros follow.
pub(crate) const RECORD_CHANGED: u8 = 1;
/// The producer cannot read it; zeros follow.
pub(crate) const RECORD_UNREADABLE: u8 = 2;

/// The pack of one version of an index.
pub(crate) struct Pack {
    root: Arc<Root>,
    index: Arc<TreeIndex>,
    /// The directory of the file read last: files of a directory lie together.
    directory: RefCell<Option<(u32, OwnedFd)>>,
    /// What was read of a file, or zeros.
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

    /// Fills `parts` with what lies from `offset` on. An error if a file changed whose content was
    /// sent before: this version can be sent no longer.
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
            self.read_record(file, (at - start, upto - start), &mut out)?;
            at = upto;
            next += 1;
        }
        Ok(())
    }

    /// Writes octets `from` to `to` of the record of `file`.
    fn read_record(
        &self,
        file: &PackedFile,
        (from, to): (u64, u64),
        out: &mut Scatter<'_, '_>,
    ) -> Result<(), ReadError> {
        let mut buffer = self.buffer.borrow_mut();
        // At most a record of a small file.
        let octets = (to - from.max(1)) as usize;
        buffer.clear();
        buffer.resize(octets, 0);
        let told = match file.told() {
            before @ (Told::Changed | Told::Unreadable) => before,
            before => match (self.read_file(file, from.max(1) - 1, &mut buffer), before) {
                (Ok(()), _) => Told::Content,
                (Err(_), Told::Content) => return Err(ReadError::Changed),
                (Err(ReadError::Changed), _) => Told::Changed,
                (Err(ReadError::System(errno)), _) => {
                    tracing::debug!(%errno, "a file of a pack cannot be read");
                    Told::Unreadable
                }
            },
        };
        file.set_told(told);
        if told != Told::Content {
            buffer.fill(0);
        }
        if from == 0 {
            out.put(&[match told {
                Told::Content | Told::Nothing => RECORD_CONTENT,
                Told::Changed => RECORD_CHANGED,
                Told::Unreadable => RECORD_UNREADABLE,
            }]);
        }
        out.put(&buffer);
        Ok(())
    }

    fn read_file(&self, file: &PackedFile, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let (id, path, entry) = self.index.place_of(file).ok_or(ReadError::Changed)?;
        let mut directory = self.directory.borrow_mut();
        let directory = match &*directory {
            Some((open, fd)) if *open == id => fd,
            _ => {
                let opened = self.root.open_path_of_directory(&path).map_err(read_error)?;
                &directory.insert((id, opened)).1
            }
        };
        // Looked at first, so that a pipe that has taken its place is not opened.
        let found = statat(directory, entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(read_error)?;
        expect_same(&found, &entry)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(directory, entry.name, flags, Mode::empty()).map_err(read_error)?;
        read_all(&fd, offset, buffer)?;
        // Looked at after reading: a file that changed before or meanwhile shows it now.
        expect_same(&fstat(&fd).map_err(ReadError::System)?, &entry)
    }
}

fn expect_same(found: &Stat, entry: &IndexEntry<'_>) -> Result<(), ReadError> {
    let mark = Mark::of(found);
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    let is_same = is_file && mark.mtime_ns == entry.mtime_ns && mark.size() == entry.octets;
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

/// What is there no longer has changed; what may not be read is said to be unreadable.
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
    /// Writes `octets`, which have room.
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
