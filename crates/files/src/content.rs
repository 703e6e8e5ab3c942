//! The content of an object: a file that is read on request, or octets in memory.

use std::cell::Cell;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use namely_wire::ByteRange;
use namely_wire::tree_index::EntryStamp;
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
        mark: Cell<FileStamp>,
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

/// A time of a file, as the kernel gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileTime {
    /// Since the Unix epoch; negative before it.
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u64,
}

impl FileTime {
    /// Nanoseconds since the Unix epoch. Returns none for a time before 1970, or after 2554: such a
    /// time is unknown to clients rather than another one.
    pub(crate) fn ns(self) -> Option<u64> {
        let seconds = u64::try_from(self.seconds).ok()?;
        let ns = seconds.checked_mul(1_000_000_000)?.checked_add(self.nanoseconds)?;
        // The greatest number stands for an unknown time in indexes.
        (ns < u64::MAX).then_some(ns)
    }
}

/// Attributes that change when a file changes.
///
/// Programs set the time of the last change as they like, and a rename puts another file at a path.
/// Only the kernel sets the change time and the number of the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Last change of the content, as far as programs did not set it.
    pub(crate) mtime: FileTime,
    /// Last change of the inode.
    pub(crate) ctime: FileTime,
    /// Names of the inode.
    pub(crate) links: u64,
}

impl FileStamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        FileStamp {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime: FileTime { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec },
            ctime: FileTime { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec },
            links: number(stat.st_nlink),
        }
    }

    /// Octets of the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Nanoseconds since the Unix epoch, if the time fits.
    pub(crate) fn mtime_ns(&self) -> Option<u64> {
        self.mtime.ns()
    }

    /// Returns the values that identify the content beside time and size, unless the kernel set
    /// both times at once: then nothing else than writing changed the file.
    pub(crate) fn entry_stamp(&self) -> Option<EntryStamp> {
        let changed_ns = self.ctime.ns().unwrap_or(0);
        (self.ctime != self.mtime).then_some(EntryStamp { changed_ns, inode: self.inode })
    }

    /// Returns true if an open file whose stamp was `before` has the same content now.
    ///
    /// A removal of one of the file's names, and a new name, change the change time alone. A fetch
    /// in progress may finish then.
    fn has_content_of(&self, before: &FileStamp) -> bool {
        let renamed = FileStamp { ctime: self.ctime, links: self.links, ..*before };
        self == before || (self.links != before.links && *self == renamed)
    }
}

/// The width of some fields of `stat` differs between processors.
fn number(number: impl Into<u64>) -> u64 {
    number.into()
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
        Content::File { fd, mark: Cell::new(mark), range: (0, mark.size()) }
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
        Some(Content::File { fd, mark: Cell::new(mark), range: range.within(mark.size())? })
    }

    /// Reads a file of at most `octets_max` to memory, so that this version can be served after the
    /// file has changed. Other content is returned as it is, and so is a file that changes
    /// meanwhile.
    pub(crate) fn into_snapshot(self, octets_max: u64) -> Self {
        let octets = self.octets();
        if !matches!(self, Content::File { .. }) || octets > octets_max {
            return self;
        }
        let mut copy = Vec::new();
        // `octets` is at most the limit, which fits.
        match self.read(0, octets as usize, &mut copy) {
            Ok(()) => Content::Memory(copy),
            Err(_) => self,
        }
    }

    /// Octets of memory that the content takes by itself. An index is counted where it is cached.
    pub(crate) fn memory_octets(&self) -> usize {
        if let Content::Memory(octets) = self { octets.len() } else { 0 }
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
                check_same(&fstat(fd).map_err(ReadError::System)?, mark)
            }
        }
    }

    /// Returns true if the content has not changed.
    pub(crate) fn is_unchanged(&self) -> bool {
        match self {
            // Segments of a pack that were sent stay valid.
            Content::Memory(_) | Content::Index(_) | Content::Pack(_) => true,
            Content::File { fd, mark, .. } => fstat(fd).is_ok_and(|stat| check_same(&stat, mark).is_ok()),
        }
    }
}

/// Returns an error if the file of status `found` has another content than at `mark`. If only its
/// names have changed, they are the new mark.
fn check_same(found: &Stat, mark: &Cell<FileStamp>) -> Result<(), ReadError> {
    let found = FileStamp::of(found);
    if !found.has_content_of(&mark.get()) {
        return Err(ReadError::Changed);
    }
    mark.set(found);
    Ok(())
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
    fn a_restored_time_does_not_hide_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "0123456789").unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        file.set_modified(time).unwrap();
        let content = content(&file);
        file.write_all_at(b"x", 5).unwrap();
        // The kernel's clock of changes moves in ticks.
        namely_testkit::until("another change time", || {
            file.set_modified(time).unwrap();
            (!content.is_unchanged()).then_some(())
        });
        assert_eq!(content.read(0, 10, &mut Vec::new()), Err(ReadError::Changed));
    }

    #[test]
    fn an_unlinked_open_file_keeps_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, "0123456789").unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let content = content(&file);
        std::fs::remove_file(&path).unwrap();
        assert!(content.is_unchanged());
        namely_testkit::until("a change after the removal", || {
            file.write_all_at(b"x", 5).unwrap();
            (!content.is_unchanged()).then_some(())
        });
    }

    #[test]
    fn a_snapshot_outlives_changes_of_its_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let snapshot = content(&file).into_snapshot(10);
        file.write_all(b"more").unwrap();
        let mut out = Vec::new();
        snapshot.read(0, 10, &mut out).unwrap();
        assert_eq!((snapshot.octets(), &out[..]), (10, &b"0123456789"[..]));
        assert!(matches!(content(&file).into_snapshot(13), Content::File { .. }), "it is larger");
    }

    #[test]
    fn file_times_are_kept_or_unknown() {
        let ns = |seconds, nanoseconds| FileTime { seconds, nanoseconds }.ns();
        assert_eq!(ns(0, 0), Some(0));
        assert_eq!(ns(1_700_000_000, 5), Some(1_700_000_000_000_000_005));
        assert_eq!(ns(18_446_744_073, 709_551_614), Some(u64::MAX - 1));
        for (seconds, nanoseconds) in [(-1, 999_999_999), (18_446_744_073, 709_551_615), (i64::MAX, 0)] {
            assert_eq!(ns(seconds, nanoseconds), None, "{seconds}");
        }
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
