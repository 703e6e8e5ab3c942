//! The directory that a tree is fetched into, and the operations in it.
//!
//! Everything is reached from the directory's descriptor without following links below it. Small
//! files receive their names in one step, with content, permissions and time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::disk::{File, Folder, OpenError, Writers};
use namely_transport::object::Object;
use namely_wire::tree_index::IndexEntry;
use rustix::fs::{
    FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, fstat, fstatvfs, fsync, futimens,
};
use rustix::io::{Errno, write};

use crate::content::FileStamp;
use crate::get::version::{is_newer_than, is_of_stamp, note_stamp, noted_version};
use crate::get::{PART_SUFFIX, own};

/// Depth of directories whose entries are counted before they are deleted.
const DEPTH_MAX: usize = 128;

/// Maximum number of names that are tried for a file that is being written.
const NAMES_MAX: usize = 16;

/// The target directory of a tree.
#[derive(Clone, Debug)]
pub(super) struct TargetDirectory {
    /// None if the directory does not exist and must not be made.
    top: Option<Arc<Folder>>,
    path: PathBuf,
    dry_run: bool,
    writers: Writers,
    /// The directory opened last, by its path below the top.
    last: Option<(PathBuf, Arc<Folder>)>,
    part: OsString,
}

/// A directory below the target that was entered.
pub(super) struct OpenedDirectory {
    /// Whether the directory did not exist before, and is therefore empty.
    pub(super) is_new: bool,
}

impl TargetDirectory {
    /// Opens the directory `path`. Makes it if there is none, except in a dry run.
    pub(super) fn new(path: &Path, dry_run: bool) -> Result<Self, OpenError> {
        let top = match dry_run {
            false => Some(Folder::open_or_make(path, 0o777)?),
            true => match Folder::open(path) {
                Err(OpenError::System(error)) if error.kind() == io::ErrorKind::NotFound => None,
                opened => Some(opened?),
            },
        };
        let part = OsString::from(format!(".{}{PART_SUFFIX}", std::process::id()));
        let writers = Writers::this_user();
        Ok(TargetDirectory {
            top: top.map(Arc::new),
            path: path.to_owned(),
            dry_run,
            writers,
            last: None,
            part,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Enters the directory `below` in an existing parent; makes it with permissions `mode` if
    /// there is none. With `replace` an existing file of that name is removed.
    pub(super) fn enter(&mut self, below: &Path, mode: u16, replace: bool) -> io::Result<OpenedDirectory> {
        if self.dry_run {
            return Ok(OpenedDirectory { is_new: self.open(below).is_err() });
        }
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Ok(OpenedDirectory { is_new: false });
        };
        let parent = self.open(parent)?;
        let mode = u32::from(mode) & 0o777 | 0o700;
        let mut made = parent.make_folder(name, mode);
        if already_exists(&made) && replace {
            let is_directory = |found: Stat| FileType::from_raw_mode(found.st_mode) == FileType::Directory;
            if !parent.look(name)?.is_some_and(is_directory) {
                parent.remove_if_there(name)?;
                made = parent.make_folder(name, mode);
            }
        }
        if already_exists(&made) {
            self.last = Some((below.to_owned(), Arc::new(parent.below(Path::new(name))?)));
            return Ok(OpenedDirectory { is_new: false });
        }
        made.map(|()| OpenedDirectory { is_new: true })
    }

    /// Opens the directory `below` without following links on the way.
    pub(super) fn open(&mut self, below: &Path) -> io::Result<Arc<Folder>> {
        let top = self.top.as_ref().ok_or(Errno::NOENT)?;
        if below.as_os_str().is_empty() {
            return Ok(top.clone());
        }
        match &self.last {
            Some((path, folder)) if path == below => Ok(folder.clone()),
            _ => {
                let folder = Arc::new(top.below(below)?);
                self.last = Some((below.to_owned(), folder.clone()));
                Ok(folder)
            }
        }
    }

    /// Returns whether `entry` is in the directory `below` with the producer's size, time and
    /// stamp, and only this user may have written it. If so, the file receives the producer's
    /// permissions.
    pub(super) fn is_there(&mut self, below: &Path, entry: &IndexEntry<'_>) -> bool {
        let name = OsStr::from_bytes(entry.name);
        let Ok(folder) = self.open(below) else { return false };
        let Ok(Some(found)) = folder.look(name) else { return false };
        if !is_of(&found, entry.octets, entry.mtime_ns) || self.writers.check_file(&found).is_err() {
            return false;
        }
        let is_same = match entry.stamp {
            Some(stamp) => {
                self.open_found(&folder, name, &found).is_some_and(|file| is_of_stamp(&*file, &found, stamp))
            }
            None => entry.mtime_ns.is_some(),
        };
        if !is_same {
            return false;
        }
        let mode = own::permissions(Some(u32::from(entry.mode)), true);
        found.st_mode & 0o777 == mode || self.dry_run || self.set_mode(&folder, name, &found, mode).is_ok()
    }

    /// Returns whether the file at `path` below the target has the version of `object`, or at least
    /// its size and time, and only this user may have written it.
    pub(super) fn holds(&mut self, path: &Path, object: &Object) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let (Ok(folder), Some(metadata)) = (self.open(parent), &object.metadata) else { return false };
        let Some(octets) = metadata.size_octets else { return false };
        let Ok(Some(found)) = folder.look(name) else { return false };
        if !is_of(&found, octets, metadata.mtime_ns) || self.writers.check_file(&found).is_err() {
            return false;
        }
        let Some(file) = self.open_found(&folder, name, &found) else { return false };
        let unversioned = object.name.as_name().without_last(1);
        match noted_version(&*file).filter(|there| there.as_name().without_last(1) == unversioned) {
            Some(there) => there == object.name,
            // The kernel sets both times at once if nothing but writing changed the file.
            None => match metadata.ctime_ns.filter(|_| metadata.ctime_ns != metadata.mtime_ns) {
                Some(changed_ns) => is_newer_than(&found, changed_ns),
                None => metadata.mtime_ns.is_some(),
            },
        }
    }

    /// Returns whether the file at `path` below the target has the size and the time of `object`,
    /// and only this user may have written it.
    pub(super) fn has_size_and_time(&mut self, path: &Path, object: &Object) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let (Ok(folder), Some(metadata)) = (self.open(parent), &object.metadata) else { return false };
        let Ok(Some(found)) = folder.look(name) else { return false };
        let is_equal = metadata.size_octets.is_some_and(|octets| is_of(&found, octets, metadata.mtime_ns));
        is_equal && metadata.mtime_ns.is_some() && self.writers.check_file(&found).is_ok()
    }

    /// Opens the file at `path` below the target to read it, if only this user may have written it.
    /// Returns it with its octets.
    pub(super) fn open_own(&mut self, path: &Path) -> Option<(File, u64)> {
        let folder = self.open(path.parent()?).ok()?;
        let file = folder.open_file(path.file_name()?, OFlags::RDONLY, self.writers).ok()??;
        let octets = file.metadata().ok()?.len();
        Some((file, octets))
    }

    /// Returns whether `entry` of the directory `below` has this content, and only this user may
    /// have written it. If so, the file receives the producer's permissions and time.
    pub(super) fn has_content(&mut self, below: &Path, entry: &IndexEntry<'_>, content: &[u8]) -> bool {
        let path = below.join(OsStr::from_bytes(entry.name));
        let Some((file, octets)) = self.open_own(&path) else { return false };
        let mut there = vec![0; content.len()];
        let is_equal =
            octets == content.len() as u64 && file.read_exact_at(&mut there, 0).is_ok() && there == content;
        if is_equal && !self.dry_run {
            if let Some(stamp) = entry.stamp {
                note_stamp(&*file, stamp);
            }
            set_times(&file, entry.mtime_ns);
            set_mode(&file, u32::from(entry.mode));
        }
        is_equal
    }

    /// Opens the file `name` of `folder`, if it is still the `found` one.
    fn open_found(&self, folder: &Folder, name: &OsStr, found: &Stat) -> Option<File> {
        let file = folder.open_file(name, OFlags::RDONLY, self.writers).ok()??;
        let held = fstat(&*file).ok()?;
        ((held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)).then_some(file)
    }

    /// Returns whether `name` in the directory `below` is a link of this user with this target.
    pub(super) fn is_link(&mut self, below: &Path, name: &OsStr, target: &[u8]) -> bool {
        let Ok(folder) = self.open(below) else { return false };
        let is_own = folder.look(name).ok().flatten().is_some_and(|found| self.is_own(&found));
        let there = folder.link_target(name).ok().flatten();
        is_own && there.is_some_and(|there| there.as_bytes() == target)
    }

    /// Makes `name` in the directory `below` a symbolic link, in place of an existing file or link.
    pub(super) fn make_link(&mut self, below: &Path, name: &OsStr, target: &[u8]) -> io::Result<()> {
        let folder = self.open(below)?;
        let mut part = self.part.clone();
        let mut attempt = 0;
        loop {
            match folder.make_link(&part, OsStr::from_bytes(target)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAMES_MAX => {
                    attempt += 1;
                }
                made => break made?,
            }
            part = OsString::from(format!(".{}-{attempt}{PART_SUFFIX}", std::process::id()));
        }
        let placed = folder.rename(&part, name);
        if placed.is_err() {
            let _ = folder.remove(&part);
        }
        placed
    }

    /// Returns whether the file of this status is this user's.
    pub(super) fn is_own(&self, found: &Stat) -> bool {
        self.writers.is_owner(found.st_uid)
    }

    /// Changes the permissions of the `found` file, but not of a file that has replaced it.
    fn set_mode(&self, folder: &Folder, name: &OsStr, found: &Stat, mode: u32) -> Result<(), OpenError> {
        let file = folder.open_file(name, OFlags::RDONLY, self.writers)?.ok_or(Errno::NOENT)?;
        let held = fstat(&*file)?;
        if (held.st_dev, held.st_ino) != (found.st_dev, found.st_ino) {
            return Err(Errno::STALE.into());
        }
        Ok(fchmod(&*file, Mode::from_raw_mode(mode))?)
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
        let folder = self.open(below)?;
        let mode = u32::from(entry.mode) & 0o755;
        // Attributes can be set only while this user may write the file.
        let is_closed = entry.stamp.is_some() && mode & 0o200 == 0;
        let mode = if is_closed { mode | 0o200 } else { mode };
        let mut attempt = 0;
        let file = loop {
            match folder.create(&part, OFlags::WRONLY, mode) {
                // A process with the same id was interrupted and left this file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAMES_MAX => {
                    attempt += 1
                }
                opened => break opened?,
            }
            part = OsString::from(format!(".{}-{attempt}{PART_SUFFIX}", std::process::id()));
        };
        let mut filled = fill(&file, content, entry.mtime_ns);
        if let (Some(stamp), Ok(())) = (entry.stamp, &filled) {
            note_stamp(&*file, stamp);
            if is_closed {
                let mode = own::permissions(Some(u32::from(entry.mode)), true);
                filled = fchmod(&*file, Mode::from_raw_mode(mode));
            }
        }
        if sync {
            filled = filled.and_then(|()| fsync(&*file));
        }
        let placed = filled
            .map_err(io::Error::from)
            .and_then(|()| folder.rename_file(&*file, &part, OsStr::from_bytes(entry.name)));
        if placed.is_err() {
            let _ = folder.remove(&part);
        }
        placed
    }

    /// Sets the time of the directory `below` to `mtime_ns`.
    pub(super) fn set_time(&mut self, below: &Path, mtime_ns: u64) {
        if let Ok(folder) = self.open(below) {
            let _ = futimens(&*folder, &times(mtime_ns));
        }
    }

    /// Returns the names in the directory `below`, sorted.
    pub(super) fn names(&mut self, below: &Path) -> io::Result<Vec<OsString>> {
        let mut names = self.open(below)?.names()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Returns whether `name` in the directory `below` is a directory, and no link to one.
    pub(super) fn is_directory(&mut self, below: &Path, name: &OsStr) -> bool {
        let found = self.open(below).and_then(|folder| folder.look(name));
        found.ok().flatten().is_some_and(|found| is_of_type(&found, FileType::Directory))
    }

    /// Returns the number of entries in `name` of the directory `below`, and in the directories in
    /// it; 0 for another file.
    pub(super) fn entries_in(&mut self, below: &Path, name: &OsStr) -> u64 {
        self.open(below).map_or(0, |folder| entries_in(&folder, name, DEPTH_MAX))
    }

    /// Returns the folder of the target, unless it does not exist.
    pub(super) fn top(&self) -> Option<&Folder> {
        self.top.as_deref()
    }

    /// Removes `name` from the directory `below`, with its content; links are removed, never
    /// followed.
    pub(super) fn remove(&mut self, below: &Path, name: &OsStr) -> io::Result<()> {
        if self.dry_run {
            return Ok(());
        }
        let folder = self.open(below)?;
        // It may be the directory that was opened last.
        self.last = None;
        folder.remove_all(name)
    }

    /// Returns true if the target's disk is known to have no room for `octets`.
    pub(super) fn lacks_room(&self, octets: u64) -> bool {
        self.top.as_ref().and_then(|top| fstatvfs(top).ok()).is_some_and(|disk| {
            // Some file systems do not report their size.
            disk.f_blocks > 0 && octets > disk.f_bavail.saturating_mul(disk.f_frsize)
        })
    }
}

fn already_exists(made: &io::Result<()>) -> bool {
    made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}

fn is_of_type(found: &Stat, of: FileType) -> bool {
    FileType::from_raw_mode(found.st_mode) == of
}

/// Returns whether the file has this size, and this time if that is known.
fn is_of(found: &Stat, octets: u64, mtime_ns: Option<u64>) -> bool {
    let stamp = FileStamp::of(found);
    is_of_type(found, FileType::RegularFile)
        && stamp.size() == octets
        && mtime_ns.is_none_or(|ns| stamp.mtime_ns() == Some(ns))
}

/// Counts the entries of the directory `name`, and of at most `depth` directories in each other.
fn entries_in(folder: &Folder, name: &OsStr, depth: usize) -> u64 {
    let is_directory = |found: Stat| is_of_type(&found, FileType::Directory);
    if depth == 0 || !folder.look(name).ok().flatten().is_some_and(is_directory) {
        return 0;
    }
    let Ok(inside) = folder.below(Path::new(name)) else { return 0 };
    let names = inside.names().unwrap_or_default();
    let below: u64 = names.iter().map(|name| entries_in(&inside, name, depth - 1)).sum();
    names.len() as u64 + below
}

fn fill(file: &File, mut content: &[u8], mtime_ns: Option<u64>) -> Result<(), Errno> {
    while !content.is_empty() {
        match write(&**file, content) {
            Ok(written) => content = content.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    mtime_ns.map_or(Ok(()), |ns| futimens(&**file, &times(ns)))
}

/// Sets the permissions of a file to the producer's, within the limits of this user.
pub(super) fn set_mode(file: &File, mode: u32) {
    let _ = fchmod(&**file, Mode::from_raw_mode(own::permissions(Some(mode), true)));
}

/// Sets the time of a file to the producer's, if that is known.
pub(super) fn set_times(file: &File, mtime_ns: Option<u64>) {
    if let Some(ns) = mtime_ns {
        let _ = futimens(&**file, &times(ns));
    }
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
