//! Errors of a tier.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use namely_host::disk::{OpenError, UntrustedFile};
use rustix::io::Errno;

use super::limits::{DEVICE_OCTETS_MIN, OCTETS_MAX, OCTETS_MIN, THREADS_MAX};

/// An error of opening or using a tier. Each message includes a remedy.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// Another process, or another tier of this one, has the folder.
    #[error("{} is in use by another router: stop it, or give this one another folder", .0.display())]
    InUse(PathBuf),
    /// The folder, or a file in it, belongs to another user, or others may write it.
    #[error(fmt = shared)]
    Shared {
        /// The folder or file.
        path: PathBuf,
        /// The ownership or permission at fault.
        #[source]
        foreign: UntrustedFile,
    },
    /// The device is mounted, or another router uses it.
    #[error(
        "{} is in use by another router, or mounted: stop that one, unmount it, or give another \
         device",
        .0.display()
    )]
    Busy(PathBuf),
    /// The device holds something other than a cache, or a cache that cannot be read.
    #[error(
        "{} holds {what}: give another device, or format this one for a cache, which deletes its \
         content",
        .path.display()
    )]
    UntrustedFile {
        /// The device.
        path: PathBuf,
        /// Its content.
        what: &'static str,
    },
    /// The device is too small.
    #[error(
        "{} has {octets} octets: a cache needs a device of at least {} MiB",
        .path.display(), DEVICE_OCTETS_MIN >> 20
    )]
    Small {
        /// The device.
        path: PathBuf,
        /// Its size.
        octets: u64,
    },
    /// The path is neither a block device nor a regular file.
    #[error("{} is neither a block device nor a regular file: give one of them", .0.display())]
    NoDevice(PathBuf),
    /// The folder holds a file that is not a cache's: it is used for something else.
    #[error(
        "{} does not belong to a cache, so {folder} is not used as one: give an empty folder, or a \
         new one such as {folder}/cs",
        .0.display(), folder = .0.parent().unwrap_or(.0).display()
    )]
    Others(PathBuf),
    /// A file is of another version, or not a cache's.
    #[error(
        "{} was not written by this version: remove the folder, which is only a cache, or give \
         another one",
        .0.display()
    )]
    Version(PathBuf),
    /// The disk is full.
    #[error("no space left for {}: free some, or lower the octets of the cache on disk", .0.display())]
    NoSpace(PathBuf),
    /// The file system is mounted read-only, or this user may not write there.
    #[error(
        "{} cannot be written: mount its file system for writing, or let the router's user write \
         there",
        .0.display()
    )]
    ReadOnly(PathBuf),
    /// Any other error of the system for a file.
    #[error(fmt = io_fault)]
    Io(PathBuf, #[source] io::Error),
    /// Data written since the last synchronization may be missing on the disk, because of the
    /// error with this message.
    #[error("written data may be lost: {0}")]
    Lost(String),
    /// A budget out of range.
    #[error("a cache on disk of {0} octets: give {OCTETS_MIN} to {OCTETS_MAX}")]
    Octets(u64),
    /// A number of threads out of range.
    #[error("{0} threads for the disk: give 1 to {THREADS_MAX}")]
    Threads(usize),
    /// The kernel denies io_uring to this process.
    #[error("the kernel refuses io_uring ({0}): take threads, or let the engine be chosen")]
    Uring(#[source] io::Error),
    /// The maximum number of prefixes is pinned or being erased.
    #[error("{max} prefixes are {what} already, which is the maximum")]
    TooMany {
        /// The state of those prefixes.
        what: &'static str,
        /// The maximum.
        max: usize,
    },
    /// The tier was closed.
    #[error("the cache on disk was closed")]
    Closed,
}

impl TierError {
    pub(crate) fn of(path: &Path, error: OpenError) -> Self {
        match error {
            OpenError::UntrustedFile(foreign) => TierError::Shared { path: path.to_owned(), foreign },
            OpenError::System(error) => TierError::new(path, error),
        }
    }

    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&error) {
            // A quota and a limit of file sizes have the remedy of a full disk.
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => TierError::NoSpace(path),
            Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => TierError::ReadOnly(path),
            _ => TierError::Io(path, error),
        }
    }
}

fn shared(path: &Path, foreign: &UntrustedFile, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let path = path.display();
    write!(f, "{path} {foreign}: ")?;
    match foreign {
        UntrustedFile::OtherUser { .. } => write!(f, "chown it to the router's user, or give another folder"),
        UntrustedFile::Writable { .. } => {
            write!(f, "chmod go-w {path}; if a group has to write there, name it by cs.disk.group")
        }
        _ => write!(f, "remove it, or give another folder"),
    }
}

fn io_fault(path: &Path, error: &io::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotADirectory => write!(f, "{path} is not a folder: give another path"),
        _ => write!(f, "{path}: {error}: see the kernel's log for the disk's faults"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_errors_come_with_a_hint() {
        let told = |errno: Errno| TierError::new(Path::new("/cs/one"), errno.into()).to_string();
        for (errnos, what) in [
            (&[Errno::NOSPC, Errno::DQUOT, Errno::FBIG][..], "no space left for /cs/one: free some"),
            (&[Errno::ROFS, Errno::ACCESS, Errno::PERM], "/cs/one cannot be written: mount its file system"),
            (&[Errno::IO, Errno::NODEV], "see the kernel's log"),
            (&[Errno::NOTDIR], "/cs/one is not a folder: give another path"),
        ] {
            for errno in errnos {
                assert!(told(*errno).contains(what), "{}", told(*errno));
            }
        }
    }
}
