//! The file of a listening Unix socket.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

use crate::error::OpenError;
use crate::sockets;

/// A socket file that this process made. It is removed when dropped, unless another file has
/// replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Removes a socket file on which no process listens.
    pub(crate) fn make_room(
        path: &Path,
        address: &SocketAddrUnix,
        kind: SocketType,
    ) -> Result<(), OpenError> {
        let shown = || path.display().to_string();
        // A symbolic link is no socket, even if it leads to one, and is not removed.
        let metadata = match std::fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(OpenError::std(format!("looking at {}", shown()))(error)),
        };
        if !metadata.file_type().is_socket() {
            return Err(OpenError::NotASocket(shown()));
        }
        let probe = sockets::open(AddressFamily::UNIX, kind)?;
        match rustix::net::connect(&probe, address) {
            Err(Errno::CONNREFUSED) => std::fs::remove_file(path)
                .map_err(OpenError::std(format!("removing the stale socket {}", shown()))),
            // EAGAIN: a process listens, and is too busy to accept.
            Ok(()) | Err(Errno::AGAIN) => Err(OpenError::InUse(format!("unix://{}", shown()))),
            Err(errno) => Err(OpenError::system(format!("looking at {}", shown()))(errno)),
        }
    }

    /// Remembers the file just made at `path`.
    pub(crate) fn made(path: &Path) -> Self {
        SocketFile { path: path.to_path_buf(), identity: identity(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // The next listener replaces a file that remains.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
