//! The served directory. Only files and directories in it are opened.
//!
//! Neither `..` nor a symbolic link leads out of it, even while directories are being moved: see
//! [`open_beneath`].

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_host::disk::{Links, open_again, open_beneath, open_named};
use namely_wire::rdr::ListingEntry;
use namely_wire::{Component, types};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

/// Components of a path below the served directory.
///
/// # Limit
/// The producer denies that the path exists.
/// - Counter: `refused_paths`
/// - Tests: `a_path_with_too_many_components_is_refused`
pub(crate) const PATH_COMPONENTS_MAX: usize = 64;

/// Octets of a directory's listing.
///
/// # Limit
/// The producer denies that the listing exists.
/// - Counter: `too_large`
/// - Tests: `a_listing_names_only_servable_entries`
pub(crate) const LISTING_OCTETS_MAX: usize = 16 << 20;

/// A directory, and the rule for links in it.
#[derive(Debug)]
pub(crate) struct Root {
    directory: OwnedFd,
    /// Device and inode of the directory.
    id: (u64, u64),
    path: PathBuf,
    /// Whether symbolic links may lead out of the directory.
    links_lead_out: bool,
}

/// An open file or directory.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) fd: OwnedFd,
    pub(crate) stat: Stat,
}

impl Opened {
    pub(crate) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

/// The reason why a path is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    /// There is no entry, or the entry is neither a file nor a directory.
    Absent,
    /// The path is invalid: `..`, a slash, a zero octet, too long, or it leads out.
    BadPath,
    /// The system's error.
    System(Errno),
}

impl Root {
    pub(crate) fn open(path: &Path, links_lead_out: bool) -> io::Result<Self> {
        let directory = open_named(path, OFlags::PATH | OFlags::DIRECTORY)?;
        let found = fstat(&directory)?;
        let id = (found.st_dev, found.st_ino);
        Ok(Root { directory, id, path: path.to_owned(), links_lead_out })
    }

    /// Opens the path again. Returns the directory that is there now if it is another one: a
    /// deployment may have replaced it, or a link on the path.
    ///
    /// # Errors
    /// The directory no longer exists, or cannot be opened.
    pub(crate) fn replacement(&self) -> io::Result<Option<Self>> {
        let now = Root::open(&self.path, self.links_lead_out)?;
        Ok((now.id != self.id).then_some(now))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file or directory that `components` name.
    pub(crate) fn find<'a>(
        &self,
        components: impl Iterator<Item = Component<'a>>,
    ) -> Result<Opened, PathError> {
        self.open_at(&relative_path(components)?)
    }

    /// Opens the directory at `path` to read its entries.
    pub(crate) fn open_directory(&self, path: &Path) -> Result<Opened, PathError> {
        let opened = self.open_at(&at_root(path))?;
        if opened.is_directory() { Ok(opened) } else { Err(PathError::Absent) }
    }

    /// Opens the directory at `path` to open files relative to it.
    pub(crate) fn open_path_of_directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.open_path(&at_root(path), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)
    }

    fn open_at(&self, path: &Path) -> Result<Opened, PathError> {
        let found = self.look_at(path)?;
        // Opened again by its descriptor, so that this is the file that was checked, even if the
        // path has changed.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = if found.is_directory() {
            openat(&found.fd, ".", flags | OFlags::DIRECTORY, Mode::empty())
        } else {
            open_again(&found.fd, flags)
        };
        let fd = match fd {
            // Without /proc, open the path again and check that it is still the same file.
            Err(Errno::NOENT) => {
                let again = self.open_path(path, flags).map_err(denied)?;
                let stat = fstat(&again).map_err(PathError::System)?;
                if (stat.st_dev, stat.st_ino) != (found.stat.st_dev, found.stat.st_ino) {
                    return Err(PathError::Absent);
                }
                again
            }
            fd => fd.map_err(PathError::System)?,
        };
        Ok(Opened { fd, stat: found.stat })
    }

    /// Finds the file or directory at `path` without opening it. Opening a pipe unblocks its
    /// writer, and opening a device may have any effect.
    pub(crate) fn look_at(&self, path: &Path) -> Result<Opened, PathError> {
        let fd = self.open_path(path, OFlags::PATH | OFlags::CLOEXEC).map_err(denied)?;
        let stat = fstat(&fd).map_err(PathError::System)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => Ok(Opened { fd, stat }),
            _ => Err(PathError::Absent),
        }
    }

    fn open_path(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.links_lead_out {
            openat(&self.directory, path, flags, Mode::empty())
        } else {
            open_beneath(&self.directory, path, flags, Links::Beneath)
        }
    }

    /// Returns the listing of the directory `opened`, which is at `components`: files and
    /// directories with names that a client can request, sorted by name. Returns none if the
    /// listing exceeds `octets_max`.
    pub(crate) fn listing<'a>(
        &self,
        opened: &Opened,
        components: impl Iterator<Item = Component<'a>>,
        octets_max: usize,
    ) -> Result<Option<Vec<u8>>, PathError> {
        let mut path = relative_path(components)?;
        let mut entries = Vec::new();
        let mut octets = 0;
        let directory = rustix::fs::Dir::read_from(opened.fd.as_fd()).map_err(PathError::System)?;
        for entry in directory {
            let entry = entry.map_err(PathError::System)?;
            let name = entry.file_name().to_bytes();
            if std::str::from_utf8(name).is_err() || ListingEntry::new(name, false).is_none() {
                continue;
            }
            let is_directory = match entry.file_type() {
                FileType::RegularFile => false,
                FileType::Directory => true,
                FileType::Symlink | FileType::Unknown => {
                    path.push(OsStr::from_bytes(name));
                    let target = self.look_at(&path);
                    path.pop();
                    let Ok(target) = target else { continue };
                    target.is_directory()
                }
                _ => continue,
            };
            octets += name.len() + if is_directory { 2 } else { 1 };
            if octets > octets_max {
                return Ok(None);
            }
            entries.push((name.to_vec(), is_directory));
        }
        check_exists(&opened.fd)?;
        entries.sort_unstable();
        let listed = entries.iter().filter_map(|(name, is_directory)| ListingEntry::new(name, *is_directory));
        Ok(Some(namely_wire::rdr::encode_listing(listed)))
    }
}

/// Returns an error if the directory was removed. The kernel lists such a directory as empty, which
/// a mirror would take for the producer's state.
pub(crate) fn check_exists(directory: &OwnedFd) -> Result<(), PathError> {
    let found = fstat(directory).map_err(PathError::System)?;
    if found.st_nlink == 0 { Err(PathError::Absent) } else { Ok(()) }
}

/// Returns the path of the root itself as `.`, because an empty path cannot be opened.
fn at_root(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

fn denied(errno: Errno) -> PathError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV => PathError::Absent,
        Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG => PathError::BadPath,
        errno => PathError::System(errno),
    }
}

/// Converts name components to a path: `.` if there are none.
pub(crate) fn relative_path<'a>(
    components: impl Iterator<Item = Component<'a>>,
) -> Result<PathBuf, PathError> {
    let mut path = PathBuf::new();
    let mut count = 0;
    for component in components {
        count += 1;
        let plain =
            component.typ == types::GENERIC_COMPONENT && ListingEntry::new(component.value, false).is_some();
        if !plain || count > PATH_COMPONENTS_MAX {
            return Err(PathError::BadPath);
        }
        path.push(OsStr::from_bytes(component.value));
    }
    if count == 0 {
        path.push(".");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_host::disk::open_by_component;
    use namely_wire::Name;
    use std::os::unix::fs::symlink;

    fn find(root: &Root, uri: &str) -> Result<Opened, PathError> {
        let name: Name = uri.parse().unwrap();
        root.find(name.components())
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let served = dir.path().join("served");
        std::fs::create_dir_all(served.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::write(served.join("file"), "file").unwrap();
        std::fs::write(served.join("sub/other"), "other").unwrap();
        symlink("sub/other", served.join("inside")).unwrap();
        symlink("../secret", served.join("outside")).unwrap();
        symlink("/etc/passwd", served.join("absolute")).unwrap();
        symlink("loop", served.join("loop")).unwrap();
        dir
    }

    #[test]
    fn only_paths_beneath_the_root_are_opened() {
        let dir = tree();
        let root = Root::open(&dir.path().join("served"), false).unwrap();
        for uri in ["/file", "/sub", "/sub/other", "/inside", "/"] {
            assert!(find(&root, uri).is_ok(), "{uri}");
        }
        for uri in ["/outside", "/absolute", "/loop", "/.....", "/....", "/sub/...../..%2Fsecret", "/%2Fetc"]
        {
            assert_eq!(find(&root, uri).err(), Some(PathError::BadPath), "{uri}");
        }
        for uri in ["/a%00b", "/...", "/32=file", "/v=1"] {
            assert_eq!(find(&root, uri).err(), Some(PathError::BadPath), "{uri}");
        }
        for uri in ["/nothing", "/file/below", "/sub/nothing", "/%FF"] {
            assert_eq!(find(&root, uri).err(), Some(PathError::Absent), "{uri}");
        }
    }

    #[test]
    fn a_removed_directory_is_not_listed_as_empty() {
        let dir = tree();
        let root = Root::open(&dir.path().join("served"), false).unwrap();
        std::fs::create_dir(dir.path().join("served/empty")).unwrap();
        let opened = find(&root, "/empty").unwrap();
        let list = || root.listing(&opened, std::iter::empty(), LISTING_OCTETS_MAX);
        assert_eq!(list(), Ok(Some(Vec::new())));
        std::fs::remove_dir(dir.path().join("served/empty")).unwrap();
        assert_eq!(list(), Err(PathError::Absent));
    }

    #[test]
    fn a_replaced_root_is_detected() {
        let dir = tree();
        let served = dir.path().join("served");
        let link = dir.path().join("current");
        symlink("served", &link).unwrap();
        let roots = [&served, &link].map(|path| Root::open(path, false).unwrap());
        let is_replaced = |root: &Root| root.replacement().map(|now| now.is_some());
        assert!(roots.iter().all(|root| !is_replaced(root).unwrap()));
        std::fs::create_dir(dir.path().join("next")).unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink("next", &link).unwrap();
        assert!(!is_replaced(&roots[0]).unwrap() && is_replaced(&roots[1]).unwrap());
        std::fs::remove_dir(dir.path().join("next")).unwrap();
        assert_eq!(is_replaced(&roots[1]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn links_are_refused_without_openat2() {
        let dir = tree();
        let root = Root::open(&dir.path().join("served"), false).unwrap();
        let open = |path: &str| open_by_component(&root.directory, Path::new(path), OFlags::RDONLY).map(drop);
        assert_eq!(open("sub/other"), Ok(()));
        assert_eq!(open("."), Ok(()));
        for path in ["inside", "outside", "absolute"] {
            assert_eq!(open(path), Err(Errno::LOOP), "{path}");
        }
    }

    #[test]
    fn links_leave_the_root_only_when_allowed() {
        let dir = tree();
        let root = Root::open(&dir.path().join("served"), true).unwrap();
        assert!(find(&root, "/outside").is_ok());
        assert_eq!(find(&root, "/...../secret").err(), Some(PathError::BadPath));
    }

    #[test]
    fn pipes_and_devices_are_never_opened() {
        use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
        let dir = tree();
        let served = dir.path().join("served");
        let made = rustix::fs::mknodat(
            rustix::fs::CWD,
            served.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        );
        made.unwrap();
        symlink("pipe", served.join("to-pipe")).unwrap();
        let opens = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&opens, served.join("pipe"), WatchFlags::OPEN).unwrap();
        let mut events = [0; 256];
        for links_lead_out in [false, true] {
            let root = Root::open(&served, links_lead_out).unwrap();
            assert_eq!(find(&root, "/pipe").err(), Some(PathError::Absent));
            assert_eq!(find(&root, "/to-pipe").err(), Some(PathError::Absent));
            let opened = find(&root, "/").unwrap();
            root.listing(&opened, std::iter::empty(), LISTING_OCTETS_MAX).unwrap().unwrap();
            assert_eq!(rustix::io::read(&opens, &mut events).err(), Some(Errno::AGAIN), "it was opened");
        }
        // Verifies that the watch reports an open.
        drop(open_named(&served.join("pipe"), OFlags::RDONLY | OFlags::NONBLOCK).unwrap());
        assert!(rustix::io::read(&opens, &mut events).unwrap() > 0);
    }

    #[test]
    fn a_path_with_too_many_components_is_refused() {
        let dir = tree();
        let root = Root::open(&dir.path().join("served"), false).unwrap();
        let path = |components: usize| "/x".repeat(components);
        assert_eq!(find(&root, &path(PATH_COMPONENTS_MAX)).err(), Some(PathError::Absent));
        assert_eq!(find(&root, &path(PATH_COMPONENTS_MAX + 1)).err(), Some(PathError::BadPath));
    }

    #[test]
    fn a_listing_names_only_servable_entries() {
        let dir = tree();
        let served = dir.path().join("served");
        std::fs::write(served.join("with space & ünïcode\n"), "").unwrap();
        std::fs::write(served.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        let root = Root::open(&served, false).unwrap();
        let opened = find(&root, "/").unwrap();
        let listing = root.listing(&opened, std::iter::empty(), LISTING_OCTETS_MAX).unwrap().unwrap();
        let entries: Vec<_> = namely_wire::rdr::listing(&listing).map(Result::unwrap).collect();
        let names: Vec<(&str, bool)> =
            entries.iter().map(|e| (std::str::from_utf8(e.name).unwrap(), e.is_directory)).collect();
        let expected = [("file", false), ("inside", false), ("sub", true), ("with space & ünïcode\n", false)];
        assert_eq!(names, expected);
        let within = |octets_max| root.listing(&opened, std::iter::empty(), octets_max).unwrap();
        assert!(within(listing.len()).is_some());
        assert!(within(listing.len() - 1).is_none());
    }
}
