//! Why packets could not be stored.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why packets could not be stored.
#[derive(Debug)]
pub enum StoreError {
    /// Environment: the disk, or the part of it that this user may have, is full (`ENOSPC`).
    NoSpace(PathBuf),
    /// Caller: this store is open already, in this process or another (`EADDRINUSE`).
    InUse(PathBuf),
    /// Caller: the limit of the store is reached (`ENOSPC`).
    Full {
        /// The limit, octets.
        octets_max: u64,
    },
    /// Environment: a file cannot be opened, read or written (what the system said, else `EIO`).
    Io(PathBuf, io::Error),
    /// Caller: whoever owns the store has closed it meanwhile (`ECANCELED`).
    Closed,
}

impl StoreError {
    /// The number by which a system call would tell it.
    pub fn errno(&self) -> i32 {
        match self {
            StoreError::NoSpace(_) | StoreError::Full { .. } => Errno::NOSPC.raw_os_error(),
            StoreError::InUse(_) => Errno::ADDRINUSE.raw_os_error(),
            StoreError::Io(_, error) => error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
            StoreError::Closed => Errno::CANCELED.raw_os_error(),
        }
    }

    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => StoreError::NoSpace(path.to_owned()),
            _ => StoreError::Io(path.to_owned(), error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NoSpace(path) => write!(f, "the disk is full: {} cannot be written", path.display()),
            StoreError::InUse(path) => write!(f, "the store {} is open already", path.display()),
            StoreError::Full { octets_max } => {
                write!(f, "the store has reached its limit of {octets_max} octets")
            }
            StoreError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            StoreError::Closed => f.write_str("the store is closed"),
        }
    }
}

impl std::error::Error for StoreError {}
