//! Opens paths below a directory. No path can lead out of it.
//!
//! The kernel resolves the path (`openat2`, RESOLVE_BENEATH), which is safe while other processes
//! move directories. If the call is missing or a sandbox refuses it, the path is opened component
//! by component, and a link is refused.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::step;

/// Maximum number of attempts to resolve a path through `..`, because the kernel may fail to do so
/// during a concurrent rename.
const UNSURE_MAX: usize = 16;

/// The links through which a path may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// None.
    Refuse,
    /// Links that stay below the directory; none if `openat2` is not available.
    Beneath,
}

/// Opens `path` below `directory`.
///
/// # Errors
/// The system's; LOOP or XDEV for a link, and XDEV for `..` or an absolute path.
pub fn open_beneath(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH
        | match links {
            Links::Refuse => ResolveFlags::NO_SYMLINKS,
            Links::Beneath => ResolveFlags::NO_MAGICLINKS,
        };
    for _ in 0..UNSURE_MAX {
        step("openat2");
        match openat2(&directory, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // A concurrent rename in the tree made the kernel give up.
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => break,
            opened => return opened,
        }
    }
    open_by_component(directory, path, flags)
}

/// The same without `openat2`: a path with a link is refused.
///
/// # Errors
/// As of [`open_beneath`].
pub fn open_by_component(directory: impl AsFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut at = None;
    let mut components = path.components().filter(|part| *part != Component::CurDir).peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(Errno::XDEV) };
        let is_last = components.peek().is_none();
        let flags = if is_last { flags | OFlags::NOFOLLOW | OFlags::CLOEXEC } else { STEP };
        step("openat");
        let opened = match &at {
            None => openat(&directory, name, flags, Mode::empty()),
            Some(at) => openat(at, name, flags, Mode::empty()),
        };
        match opened {
            opened if is_last => return opened,
            opened => at = Some(opened?),
        }
    }
    step("openat");
    openat(&directory, ".", flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens again a file that was opened with O_PATH, even if its name has changed.
///
/// # Errors
/// The system's; NOENT without `/proc`.
pub fn open_again(opened: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_open_only_paths_beneath() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("sub/deep")).unwrap();
        std::fs::write(top.join("sub/file"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        symlink("sub", top.join("inside")).unwrap();
        symlink("../secret", top.join("outside")).unwrap();
        symlink("sub/file", top.join("to-file")).unwrap();
        let fd = rustix::fs::open(&top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let both = |path: &str| {
            let (path, flags) = (Path::new(path), OFlags::RDONLY | OFlags::NONBLOCK);
            let first = open_beneath(&fd, path, flags, Links::Refuse).map(drop);
            let second = open_by_component(&fd, path, flags).map(drop);
            assert_eq!(first.is_ok(), second.is_ok(), "{path:?}: {first:?}, {second:?}");
            first.is_ok()
        };
        for path in [".", "sub", "sub/file", "sub/./deep", "sub/deep"] {
            assert!(both(path), "{path}");
        }
        for path in ["inside", "inside/file", "outside", "to-file", "..", "sub/../..", "/etc", "nothing"] {
            assert!(!both(path), "{path}");
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        assert!(open_beneath(&fd, Path::new("inside/file"), flags, Links::Beneath).is_ok());
        assert!(open_beneath(&fd, Path::new("outside"), flags, Links::Beneath).is_err());
    }
}
