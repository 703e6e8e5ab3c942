//! Errors of storing packets.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// An error of storing packets.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Environment: the disk, or this user's quota of it, is full (`ENOSPC`).
    #[error("the disk is full: {} cannot be written", .0.display())]
    NoSpace(PathBuf),
    /// Caller: this store is open already, in this process or another (`EADDRINUSE`).
    #[error("the store {} is open already", .0.display())]
    InUse(PathBuf),
    /// Caller: the limit of the store is reached (`ENOSPC`).
    #[error("the store has reached its limit of {octets_max} octets")]
    Full {
        /// The limit, octets.
        octets_max: u64,
    },
    /// Environment: a file cannot be opened, read or written (the system's error, else `EIO`).
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// Caller: the owner of the store has closed it meanwhile (`ECANCELED`).
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The error number that a system call would report.
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
