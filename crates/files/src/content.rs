//! The content of an object: a file that is read on request, or octets in memory.

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
    /// A file, or a range of it. The file must not change after it was opened.
    File {
        fd: OwnedFd,
        /// Detects changes of the file.
        mark: FileStamp,
        /// Start of the content in the file, and its octets.
        range: (u64, u64),
    },
    /// Octets in memory.
    Memory(Vec<u8>),
    /// The index of a tree.
    Index(Arc<TreeIndex>),
    /// The small files of a tree.
    Pack(Pack),
}

/// Attributes that change when a file changes. The inode's change time is not among them: it also
/// changes when a file is unlinked, and fetches in progress may still finish then. A user who
/// changes a file and restores its time deceives the server; clients then find that segments and
/// manifest do not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) mtime_ns: u64,
    size: u64,
    device: u64,
    inode: u64,
}

impl FileStamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        FileStamp {
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

/// An error of reading content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The file has changed.
    Changed,
    /// The system's error.
    System(Errno),
}

impl Content {
    /// Creates the content of a file in its present state.
    pub(crate) fn file(fd: OwnedFd, stat: &Stat) -> Self {
        let mark = FileStamp::of(stat);
        Content::File { fd, mark, range: (0, mark.size()) }
    }

    /// Octets of a byte range of a file.
    ///
    /// Creates the content of a range of a file in its present state. Returns none if the range
    /// begins after the end of the file.
    ///
    /// # Limit
    /// The range is cut at the end of the file; the producer denies a range that begins after it.
    /// - Value: those of the file from its beginning on
    /// - Counter: `past_end`, `refused_ranges`
    /// - Tests: `a_file_range_arrives_verified`,
    ///   `an_invalid_range_is_denied`
    pub(crate) fn range(fd: OwnedFd, stat: &Stat, range: ByteRange) -> Option<Self> {
        let mark = FileStamp::of(stat);
        Some(Content::File { fd, mark, range: range.within(mark.size())? })
    }

    /// Returns the octets of the whole content.
    pub(crate) fn octets(&self) -> u64 {
        match self {
            Content::File { range: (_, octets), .. } => *octets,
            Content::Memory(octets) => octets.len() as u64,
            Content::Index(index) => index.octets.len() as u64,
            Content::Pack(pack) => pack.octets(),
        }
    }

    /// Appends exactly `octets` octets from `offset` on. After an error, the octets appended to
    /// `out` are invalid.
    pub(crate) fn read(&self, offset: u64, octets: usize, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let start = out.len();
        out.resize(start + octets, 0);
        self.read_into(offset, &mut [IoSliceMut::new(&mut out[start..])])
    }

    /// Fills all of `parts`, one after the other, with the octets from `offset` on. After an error,
    /// their octets are invalid.
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
                // Checked after reading, so that a change before or during the read is detected.
                if FileStamp::of(&fstat(fd).map_err(ReadError::System)?) == *mark {
                    Ok(())
                } else {
                    Err(ReadError::Changed)
                }
            }
        }
    }

    /// Returns true if the content has not changed.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            // Segments of a pack that were sent stay valid.
            Content::Memory(_) | Content::Index(_) | Content::Pack(_) => true,
            Content::File { fd, mark, .. } => fstat(fd).is_ok_and(|stat| FileStamp::of(&stat) == *mark),
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
    // Skips parts without octets.
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
    fn file_content_is_read_until_it_changes() {
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
    fn a_file_range_is_read_exactly() {
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
    fn a_truncated_file_counts_as_changed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let content = content(&file);
        file.set_len(4).unwrap();
        assert_eq!(content.read(2, 3, &mut Vec::new()), Err(ReadError::Changed));
    }

    #[test]
    fn memory_content_is_read_within_bounds() {
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
