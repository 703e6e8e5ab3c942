//! The directory that a tree is fetched into, and what is written there.
//!
//! Everything is reached from the directory's descriptor without following links below it; small
//! files get their names in one step, with content, permissions and time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_wire::tree_index::IndexEntry;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, UTIME_OMIT, chmodat,
    fsync, futimens, mkdirat, openat, openat2, renameat, statat, unlinkat,
};
use rustix::io::{Errno, write};

use crate::content::time_ns;
use crate::get::{PART_SUFFIX, own};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How many names are tried for a file that is being written.
const NAMES_MAX: usize = 16;

/// Directories within directories that are removed.
const REMOVE_DEPTH_MAX: usize = 128;

/// Where a tree goes.
#[derive(Debug)]
pub(super) struct Place {
    /// None if nothing is there, and nothing is to be made.
    top: Option<OwnedFd>,
    path: PathBuf,
    dry_run: bool,
    /// The directory opened last, by its path below the top.
    last: Option<(PathBuf, OwnedFd)>,
    part: OsString,
}

/// A directory of the place.
pub(super) struct Entered {
    /// Whether nothing is in it.
    pub(super) is_new: bool,
}

impl Place {
    /// The directory `path`, which is made if there is none, unless it is only looked at.
    pub(super) fn new(path: &Path, dry_run: bool) -> io::Result<Self> {
        if !dry_run {
            std::fs::create_dir_all(path)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = match openat(CWD, path, flags, Mode::empty()) {
            Ok(top) => Some(top),
            Err(Errno::NOENT) if dry_run => None,
            Err(errno) => return Err(errno.into()),
        };
        let part = OsString::from(format!(".{}{PART_SUFFIX}", std::process::id()));
        Ok(Place { top, path: path.to_owned(), dry_run, last: None, part })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes into the directory `below`, whose parent is there; makes it with permissions `mode` if
    /// there is none. With `replace` what is there and no directory goes.
    pub(super) fn enter(&mut self, below: &Path, mode: u16, replace: bool) -> io::Result<Entered> {
        if self.dry_run {
            return Ok(Entered { is_new: self.open(below).is_err() });
        }
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Ok(Entered { is_new: false });
        };
        let parent = self.open(parent)?;
        let mode = Mode::from_raw_mode(u32::from(mode) & 0o777 | 0o700);
        let mut made = mkdirat(parent, name, mode);
        if made == Err(Errno::EXIST) && replace {
            let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
                unlinkat(parent, name, AtFlags::empty())?;
                made = mkdirat(parent, name, mode);
            }
        }
        match made {
            Ok(()) => Ok(Entered { is_new: true }),
            Err(Errno::EXIST) => {
                openat(parent, name, DIRECTORY, Mode::empty())?;
                Ok(Entered { is_new: false })
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The directory `below`; links on the way are not followed.
    pub(super) fn open(&mut self, below: &Path) -> io::Result<BorrowedFd<'_>> {
        let Some(top) = &self.top else { return Err(Errno::NOENT.into()) };
        if below.as_os_str().is_empty() {
            return Ok(top.as_fd());
        }
        let is_last = self.last.as_ref().is_some_and(|(path, _)| path == below);
        if !is_last {
            let opened = open_beneath(top.as_fd(), below)?;
            self.last = Some((below.to_owned(), opened));
        }
        self.last.as_ref().map(|(_, fd)| fd.as_fd()).ok_or_else(|| Errno::NOENT.into())
    }

    /// Whether `entry` is in the directory `below` with the size and time that the producer tells;
    /// it then gets the producer's permissions.
    pub(super) fn is_there(&mut self, below: &Path, entry: &IndexEntry<'_>) -> bool {
        let dry_run = self.dry_run;
        let Ok(directory) = self.open(below) else { return false };
        let Ok(found) = statat(directory, entry.name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        if !is_same(&found, entry) {
            return false;
        }
        let mode = own::permissions(Some(u32::from(entry.mode)));
        if found.st_mode & 0o777 != mode && !dry_run {
            let name = OsStr::from_bytes(entry.name);
            // Another user's file keeps what it has.
            let _ = chmodat(directory, name, Mode::from_raw_mode(mode), AtFlags::empty());
        }
        true
    }

    /// Writes `content` as `entry` of the directory `below`.
    pub(super) fn write(
        &mut self,
        below: &Path,
        entry: &IndexEntry<'_>,
        content: &[u8],
        sync: bool,
    ) -> io::Result<()> {
        let mut part = self.part.clone();
        let directory = self.open(below)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(u32::from(entry.mode) & 0o777);
        let mut attempt = 0;
        let file = loop {
            match openat(directory, &part, flags, mode) {
                // Somebody was stopped in the middle.
                Err(Errno::EXIST) if attempt < NAMES_MAX => attempt += 1,
                opened => break opened?,
            }
            part = OsString::from(format!(".{}-{attempt}{PART_SUFFIX}", std::process::id()));
        };
        let mut filled = fill(&file, content, entry.mtime_ns);
        if sync {
            filled = filled.and_then(|()| fsync(&file));
        }
        let placed = filled.and_then(|()| renameat(directory, &part, directory, entry.name));
        if placed.is_err() {
            let _ = unlinkat(directory, &part, AtFlags::empty());
        }
        Ok(placed?)
    }

    /// Gives the directory `below` the time `mtime_ns`.
    pub(super) fn set_time(&mut self, below: &Path, mtime_ns: u64) {
        if let Ok(directory) = self.open(below) {
            let _ = futimens(directory, &times(mtime_ns));
        }
    }

    /// What is in the directory `below` and whose name `is_known` does not know.
    pub(super) fn others(
        &mut self,
        below: &Path,
        is_known: &dyn Fn(&[u8]) -> bool,
    ) -> io::Result<Vec<OsString>> {
        let directory = self.open(below)?;
        let mut others = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") && !is_known(name) {
                others.push(OsStr::from_bytes(name).to_owned());
            }
        }
        others.sort_unstable();
        Ok(others)
    }

    /// Removes `name` from the directory `below`, with all that is in it; links are removed, never
    /// followed.
    pub(super) fn remove(&mut self, below: &Path, name: &OsStr) -> io::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        remove(self.open(below)?, name, REMOVE_DEPTH_MAX)
    }
}

fn remove(directory: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        // Linux says the former, others the latter, of a directory.
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        other => return Ok(other?),
    }
    let inside = openat(directory, name, DIRECTORY, Mode::empty())?;
    for entry in Dir::read_from(&inside)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            remove(inside.as_fd(), OsStr::from_bytes(name), depth - 1)?;
        }
    }
    Ok(unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

/// Opens the directory `below`, step by step where the kernel does not look after links.
fn open_beneath(top: BorrowedFd<'_>, below: &Path) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    loop {
        match openat2(top, below, DIRECTORY, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => break,
            opened => return Ok(opened?),
        }
    }
    let mut at = openat(top, ".", DIRECTORY, Mode::empty())?;
    for component in below.components() {
        at = openat(&at, component.as_os_str(), DIRECTORY, Mode::empty())?;
    }
    Ok(at)
}

fn is_same(found: &Stat, entry: &IndexEntry<'_>) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        && u64::try_from(found.st_size) == Ok(entry.octets)
        && time_ns(found.st_mtime, found.st_mtime_nsec) == entry.mtime_ns
}

fn fill(file: &OwnedFd, mut content: &[u8], mtime_ns: u64) -> Result<(), Errno> {
    while !content.is_empty() {
        match write(file, content) {
            Ok(written) => content = content.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    futimens(file, &times(mtime_ns))
}

fn times(mtime_ns: u64) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: (mtime_ns / 1_000_000_000) as i64,
            tv_nsec: (mtime_ns % 1_000_000_000) as _,
        },
    }
}

/// Returns true if the disk of `path` is known to have no room for `octets`.
pub(super) fn lacks_room(path: &Path, octets: u64) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|disk| {
        // Some file systems do not count.
        disk.f_blocks > 0 && octets > disk.f_bavail.saturating_mul(disk.f_frsize)
    })
}
