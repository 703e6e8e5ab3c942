//! What an object is made of: a file that is read when it is asked for, or octets in memory.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use namely_wire::ByteRange;
use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, preadv};

use crate::index::TreeIndex;
use crate::pack::Pack;

/// The content of one version of an object.
#[derive(Debug)]
pub(crate) enum Content {
    /// A file, or a range of it. It must stay as it was when it was opened.
    File {
        /// The file.
        fd: OwnedFd,
        /// What tells whether it is still the same.
        mark: Mark,
        /// Where the content begins in it, and its octets.
        range: (u64, u64),
    },
    /// Octets.
    Memory(Vec<u8>),
    /// The index of a tree.
    Index(Arc<TreeIndex>),
    /// The small files of a tree.
    Pack(Pack),
}

/// What changes when a file changes. Not the inode's own time: that changes too when a file loses
/// its name, and what was begun to be fetched may be fetched to the end. Who changes a file and
/// sets its time back deceives the server; a client then finds that segments and manifest do not
/// agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) mtime_ns: u64,
    size: u64,
    device: u64,
    inode: u64,
}

impl Mark {
    pub(crate) fn of(stat: &Stat) -> Self {
        Mark {
            mtime_ns: time_ns(stat.st_mtime, stat.st_mtime_nsec),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// Octets of the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// Nanoseconds since the Unix epoch; times before it become 0.
pub(crate) fn time_ns(seconds: i64, nanoseconds: u64) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Why content cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The file is another by now.
    Changed,
    /// The system does not read it.
    System(Errno),
}

impl Content {
    /// A file as it is now.
    pub(crate) fn file(fd: OwnedFd, stat: &Stat) -> Self {
        let mark = Mark::of(stat);
        Content::File { fd, mark, range: (0, mark.size()) }
    }

    /// A range of a file as it is now; none if the file ends before it.
    pub(crate) fn range(fd: OwnedFd, stat: &Stat, range: ByteRange) -> Option<Self> {
        let mark = Mark::of(stat);
        Some(Content::File { fd, mark, range: range.within(mark.size())? })
    }

    /// Octets in all.
    pub(crate) fn octets(&self) -> u64 {
        match self {
            Content::File { range: (_, octets), .. } => *octets,
            Content::Memory(octets) => octets.len() as u64,
            Content::Index(index) => index.octets.len() as u64,
            Content::Pack(pack) => pack.octets(),
        }
    }

    /// Appends exactly `octets` from `offset` on. Whatever was appended to `out` when this fails is
    /// no content.
    pub(crate) fn read(&self, offset: u64, octets: usize, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let start = out.len();
        out.resize(start + octets, 0);
        self.read_into(offset, &mut [IoSliceMut::new(&mut out[start..])])
    }

    /// Fills all of `parts`, one after the other, with what lies from `offset` on. When this fails,
    /// what they hold is no content.
    pub(crate) fn read_into(&self, offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
        match self {
            Content::Memory(content) => copy(content, offset, parts),
            Content::Index(index) => copy(&index.octets, offset, parts),
            Content::Pack(pack) => pack.read_into(offset, parts),
            Content::File { fd, mark, range: (start, octets) } => {
                let wanted: usize = parts.iter().map(|part| part.len()).sum();
                let end = offset.checked_add(wanted as u64).filter(|end| end <= octets);
                end.ok_or(ReadError::Changed)?;
                read_file(fd, start + offset, parts)?;
                // Looked at after reading: a file that changed before or meanwhile shows it now.
                if Mark::of(&fstat(fd).map_err(ReadError::System)?) == *mark {
                    Ok(())
                } else {
                    Err(ReadError::Changed)
                }
            }
        }
    }

    /// Returns true if it is still what it was.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            // What was sent of a pack stays what it was.
            Content::Memory(_) | Content::Index(_) | Content::Pack(_) => true,
            Content::File { fd, mark, .. } => fstat(fd).is_ok_and(|stat| Mark::of(&stat) == *mark),
        }
    }
}

fn copy(content: &[u8], offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
    let start = usize::try_from(offset).map_err(|_| ReadError::Changed)?;
    let mut rest = content.get(start..).ok_or(ReadError::Changed)?;
    for part in parts {
        let (from, others) = rest.split_at_checked(part.len()).ok_or(ReadError::Changed)?;
        part.copy_from_slice(from);
        rest = others;
    }
    Ok(())
}

fn read_file(fd: impl AsFd, mut offset: u64, mut parts: &mut [IoSliceMut<'_>]) -> Result<(), ReadError> {
    // Passes by parts without octets.
    IoSliceMut::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match preadv(&fd, parts, offset) {
            Ok(0) => return Err(ReadError::Changed),
            Ok(read) => {
                offset += read as u64;
                IoSliceMut::advance_slices(&mut parts, read);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError::System(errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    fn content(file: &std::fs::File) -> Content {
        let fd: OwnedFd = file.try_clone().unwrap().into();
        let stat = fstat(&fd).unwrap();
        Content::file(fd, &stat)
    }

    #[test]
    fn a_file_is_read_anywhere_until_it_changes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let content = content(&file);
        assert_eq!(content.octets(), 10);
        let mut out = b"before ".to_vec();
        content.read(2, 3, &mut out).unwrap();
        assert_eq!(out, b"before 234");
        let (mut first, mut second) = ([0; 2], [0; 3]);
        let parts = &mut [&mut [][..], &mut first, &mut second].map(IoSliceMut::new);
        content.read_into(5, parts).unwrap();
        assert_eq!((&first, &second), (b"56", b"789"));
        assert!(content.is_unchanged());

        file.write_all_at(b"x", 5).unwrap();
        assert!(!content.is_unchanged());
        assert_eq!(content.read(2, 3, &mut Vec::new()), Err(ReadError::Changed));
    }

    #[test]
    fn a_range_of_a_file_is_read_and_nothing_around_it() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let of = |range: &str| {
            let fd: OwnedFd = file.try_clone().unwrap().into();
            let stat = fstat(&fd).unwrap();
            Content::range(fd, &stat, range.parse().unwrap())
        };
        let content = of("2-5").unwrap();
        let mut out = Vec::new();
        content.read(1, 3, &mut out).unwrap();
        assert_eq!((content.octets(), &out[..]), (4, &b"345"[..]));
        assert_eq!(content.read(1, 4, &mut out), Err(ReadError::Changed));
        assert_eq!(content.read(u64::MAX, 1, &mut out), Err(ReadError::Changed));
        assert_eq!(of("8-100").unwrap().octets(), 2);
        assert!(of("10-").is_none());
        file.write_all_at(b"x", 9).unwrap();
        assert!(!content.is_unchanged(), "the whole file has another version");
    }

    #[test]
    fn a_file_that_was_cut_short_is_changed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let content = content(&file);
        file.set_len(4).unwrap();
        assert_eq!(content.read(2, 3, &mut Vec::new()), Err(ReadError::Changed));
    }

    #[test]
    fn memory_is_read_within_its_bounds() {
        let content = Content::Memory(b"0123".to_vec());
        let mut out = Vec::new();
        content.read(1, 3, &mut out).unwrap();
        assert_eq!(out, b"123");
        assert!(content.read(1, 4, &mut out).is_err());
        let (mut first, mut second) = ([0; 2], [0; 1]);
        let parts = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        content.read_into(1, parts).unwrap();
        assert_eq!((&first, &second), (b"12", b"3"));
        assert!(content.read(u64::MAX, 1, &mut out).is_err());
    }
}
