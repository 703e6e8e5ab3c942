//! Why a tier cannot be opened, or cannot do what it is asked.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use namely_host::disk::{Foreign, OpenError};
use rustix::io::Errno;

use super::limits::{DEVICE_OCTETS_MIN, OCTETS_MAX, OCTETS_MIN, THREADS_MAX};

/// Why a tier cannot be opened, or cannot do what it is asked. Each says what to do.
#[derive(Debug)]
pub enum TierError {
    /// Another process, or another tier of this one, has the folder.
    InUse(PathBuf),
    /// The folder, or a file in it, is another user's, or others may write it.
    Shared {
        /// The folder or file.
        path: PathBuf,
        /// What makes it so.
        foreign: Foreign,
    },
    /// The device is in use: by another router, or it is mounted.
    Busy(PathBuf),
    /// The device holds something else than a cache, or one that cannot be read.
    Foreign {
        /// The device.
        path: PathBuf,
        /// What it holds.
        what: &'static str,
    },
    /// The device has too few octets.
    Small {
        /// The device.
        path: PathBuf,
        /// What it has.
        octets: u64,
    },
    /// It is no device, and no file that could stand for one.
    NoDevice(PathBuf),
    /// A file there is not this cache's: the folder is used for something else.
    Others(PathBuf),
    /// A file there is of another version, or of something else.
    Version(PathBuf),
    /// The disk is full.
    NoSpace(PathBuf),
    /// The file system is mounted read-only, or this user may not write there.
    ReadOnly(PathBuf),
    /// The system says something else of a file.
    Io(PathBuf, io::Error),
    /// A budget out of range.
    Octets(u64),
    /// A number of threads out of range.
    Threads(usize),
    /// The kernel refuses io_uring to this process.
    Uring(io::Error),
    /// As many prefixes are pinned, or being erased, as may be.
    TooMany {
        /// What of.
        what: &'static str,
        /// How many.
        max: usize,
    },
    /// The tier was closed.
    Closed,
}

impl TierError {
    pub(crate) fn of(path: &Path, error: OpenError) -> Self {
        match error {
            OpenError::Foreign(foreign) => TierError::Shared { path: path.to_owned(), foreign },
            OpenError::System(error) => TierError::new(path, error),
        }
    }

    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => TierError::NoSpace(path),
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => TierError::ReadOnly(path),
            _ => TierError::Io(path, error),
        }
    }
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierError::InUse(folder) => {
                let folder = folder.display();
                write!(f, "{folder} is in use by another router: stop it, or give this one another folder")
            }
            TierError::Shared { path, foreign } => {
                let path = path.display();
                write!(f, "{path} {foreign}: ")?;
                match foreign {
                    Foreign::OtherUser { .. } => {
                        write!(f, "chown it to the router's user, or give another folder")
                    }
                    Foreign::Writable { .. } => write!(
                        f,
                        "chmod go-w {path}; if a group has to write there, name it by cs.disk.group"
                    ),
                    _ => write!(f, "remove it, or give another folder"),
                }
            }
            TierError::Busy(path) => {
                let path = path.display();
                write!(f, "{path} is in use by another router, or mounted: stop that one, unmount it, ")?;
                write!(f, "or give another device")
            }
            TierError::Foreign { path, what } => {
                let path = path.display();
                write!(f, "{path} holds {what}: give another device, or format this one for a cache: ")?;
                write!(f, "what it holds is lost then")
            }
            TierError::Small { path, octets } => {
                let (path, least) = (path.display(), DEVICE_OCTETS_MIN >> 20);
                write!(f, "{path} has {octets} octets: a cache wants a device of {least} MiB at least")
            }
            TierError::NoDevice(path) => {
                write!(f, "{} is no device, and no file that stands for one: give one", path.display())
            }
            TierError::Others(path) => {
                let (path, folder) = (path.display(), path.parent().unwrap_or(path).display());
                write!(
                    f,
                    "{path} is no part of a cache, so {folder} is not taken for one: give an empty folder, "
                )?;
                write!(f, "or one that is not there yet, such as {folder}/cs")
            }
            TierError::Version(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} was not written by this version: remove the folder, which is only a cache, "
                )?;
                write!(f, "or give another one")
            }
            TierError::NoSpace(path) => {
                let path = path.display();
                write!(f, "no space left for {path}: free some, or lower the octets of the cache on disk")
            }
            TierError::ReadOnly(path) => {
                let path = path.display();
                write!(
                    f,
                    "{path} cannot be written: mount its file system for writing, or let the router's user "
                )?;
                write!(f, "write there")
            }
            TierError::Io(path, error) if error.kind() == io::ErrorKind::NotADirectory => {
                write!(f, "{} is no folder: give another one", path.display())
            }
            TierError::Io(path, error) => {
                write!(f, "{}: {error}: see the kernel's log for what the disk has", path.display())
            }
            TierError::Octets(octets) => {
                write!(f, "a cache on disk of {octets} octets: give {OCTETS_MIN} to {OCTETS_MAX}")
            }
            TierError::Threads(threads) => {
                write!(f, "{threads} threads for the disk: give 1 to {THREADS_MAX}")
            }
            TierError::Uring(error) => {
                write!(f, "the kernel refuses io_uring ({error}): take threads, or let the engine be chosen")
            }
            TierError::TooMany { what, max } => {
                write!(f, "{max} prefixes are {what} already: no more can be at a time")
            }
            TierError::Closed => f.write_str("the cache on disk was closed"),
        }
    }
}

impl std::error::Error for TierError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_of_a_file_comes_with_what_to_do() {
        let told = |errno: Errno| TierError::new(Path::new("/cs/one"), errno.into()).to_string();
        for (errnos, what) in [
            (&[Errno::NOSPC, Errno::DQUOT, Errno::FBIG][..], "no space left for /cs/one: free some"),
            (&[Errno::ROFS, Errno::ACCESS, Errno::PERM], "/cs/one cannot be written: mount its file system"),
            (&[Errno::IO, Errno::NODEV], "see the kernel's log"),
            (&[Errno::NOTDIR], "/cs/one is no folder: give another one"),
        ] {
            for errno in errnos {
                assert!(told(*errno).contains(what), "{}", told(*errno));
            }
        }
    }
}
