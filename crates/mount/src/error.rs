//! Errors of a mount, and the error numbers that programs receive.

use std::io;
use std::path::PathBuf;

use fuser::Errno;
use namely_socket::FetchError;
use namely_wire::Name;

/// The reason for which a directory was not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Caller: the name is a file.
    #[error("{name} is not a directory")]
    NotDirectory {
        /// The name.
        name: Name,
    },
    /// Caller: there is no such directory to mount at.
    #[error("{} is not a directory", path.display())]
    NoMountPoint {
        /// The path.
        path: PathBuf,
    },
    /// Environment: the process of a mount there was killed.
    #[error("{} is a mount whose process has ended", path.display())]
    Stale {
        /// The path.
        path: PathBuf,
    },
    /// Peer or network: the directory's metadata cannot be fetched.
    #[error(transparent)]
    Fetch(FetchError),
    /// Environment: the system refuses.
    #[error("cannot mount or unmount {}: {error}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
}

impl MountError {
    /// Advice for the caller, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            MountError::NotDirectory { .. } => Some("mount its directory; `namely get` fetches one file"),
            MountError::NoMountPoint { .. } => Some("create it with `mkdir`"),
            MountError::Stale { .. } => Some("`fusermount3 -u DIR` unmounts it"),
            MountError::Fetch(error) => error.hint(),
            MountError::System { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                Some("/dev/fuse or the program fusermount3 is missing: install the package fuse3")
            }
            MountError::System { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                Some("install the package fuse3; --allow-other needs `user_allow_other` in /etc/fuse.conf")
            }
            MountError::System { .. } => None,
        }
    }
}

/// The error number of a failed fetch.
pub(crate) fn errno(error: &FetchError) -> Errno {
    Errno::from_i32(error.errno())
}

/// The error number of a failed read. The stream puts its [`FetchError`] into the error.
pub(crate) fn errno_of_read(error: &io::Error) -> Errno {
    let fetch = error.get_ref().and_then(|inner| inner.downcast_ref::<FetchError>());
    fetch.map_or_else(|| Errno::from_i32(error.raw_os_error().unwrap_or(0)), errno)
}
