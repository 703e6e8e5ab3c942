//! Identifies the user of the router at the other end of a Unix socket. A router receives the
//! client's Interests and commands and may answer them. A client therefore must not mistake another
//! user's router for its own.
//!
//! The check uses the credentials that the kernel stored when the router began to listen, so later
//! renames or links cannot deceive it. It does not apply to routers over a network.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::paths;

/// Time for a router's Unix socket to accept.
///
/// If its owner accepts no connections, its queue stays full.
///
/// # Limit
/// There is no router at that socket.
/// - Tests: `a_connect_without_accept_times_out`
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The user of the router is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct UntrustedRouter {
    /// The user of the router.
    uid: u32,
}

impl fmt::Display for UntrustedRouter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match namely_host::users::name_of(self.uid) {
            Some(name) => {
                write!(f, "it is run by user {name} (uid {}), neither by you nor by root", self.uid)
            }
            None => write!(f, "it is run by uid {}, neither by you nor by root", self.uid),
        }
    }
}

/// Returns true if `error` reports a router of an untrusted user.
pub(crate) fn is_stranger(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<UntrustedRouter>())
}

/// Connects to the Unix socket at `path`. Its router must be run by this user, root or one of
/// `trusted`, or the socket must be at a path that only root can assign.
pub(super) fn connect(path: &str, kind: SocketType, trusted: &str) -> io::Result<OwnedFd> {
    let socket = connect_within(path, kind, CONNECT_TIMEOUT)?;
    // The connected socket is checked and not the path, which may lead to another socket by now.
    let uid = namely_host::peer::of(&socket)?.uid;
    let own = rustix::process::geteuid().as_raw();
    if uid == own || uid == 0 || is_named(uid, trusted) || is_roots_gift(Path::new(path), uid) {
        return Ok(socket);
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, UntrustedRouter { uid }))
}

fn connect_within(path: &str, kind: SocketType, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // On a Unix socket the send timeout also limits `connect`.
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|errno| match errno {
        // `connect` fails like this if the listener's queue was full for the whole timeout.
        Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "it accepts nobody"),
        errno => errno.into(),
    })?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

/// Returns true if `users`, numbers and names separated by commas, contains `uid`.
fn is_named(uid: u32, users: &str) -> bool {
    let is_it = |user: &str| match user.parse::<u32>() {
        Ok(number) => number == uid,
        Err(_) => namely_host::users::uid_of(user) == Some(uid),
    };
    users.split(',').map(str::trim).any(is_it)
}

/// Returns true if `path` is a socket of the system's routers, which may run as dedicated users,
/// and if only root can have permitted `uid` to listen there.
fn is_roots_gift(path: &Path, uid: u32) -> bool {
    paths::system_sockets().any(|socket| path == socket || path == paths::memif_beside(&socket))
        && is_trusted_folder(path, uid)
}

/// Returns true if the folder of `path` belongs to root or `uid`, and its parent belongs to root.
/// Both must be writable by their owner only.
fn is_trusted_folder(path: &Path, uid: u32) -> bool {
    let Some(folder) = path.parent() else { return false };
    let above = folder.parent().filter(|above| *above != Path::new("/")).unwrap_or(folder);
    let owner = |path: &Path| {
        // A symbolic link is not followed, because its owner could change the target.
        let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        (found.mode() & 0o022 == 0).then(|| found.uid())
    };
    owner(above) == Some(0) && owner(folder).is_some_and(|folder| folder == 0 || folder == uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_testkit::{Need, skip};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn users_are_trusted_by_number_or_name() {
        for (uid, users) in [(1001, "1001"), (0, "root"), (1001, "root, 1001 ,x")] {
            assert!(is_named(uid, users), "{users}");
        }
        for (uid, users) in [(1001, ""), (1001, "100"), (1001, "no-such-user"), (0, ",")] {
            assert!(!is_named(uid, users), "{users}");
        }
    }

    #[test]
    fn a_connect_without_accept_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.sock");
        let flags = SocketFlags::CLOEXEC;
        let full = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        rustix::net::bind(&full, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let connect =
            || connect_within(path.to_str().unwrap(), SocketType::STREAM, Duration::from_millis(50));
        let waiting = connect().unwrap();
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(waiting);
    }

    #[test]
    fn only_a_protected_folder_is_roots_gift() {
        if !rustix::process::geteuid().is_root() {
            return skip(Need::Root, "needs root, to give folders away");
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nfd");
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("nfd.sock");
        let allow = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        allow(dir.path(), 0o755);
        allow(&folder, 0o755);
        assert!(is_trusted_folder(&socket, 1001), "root's own folder");
        chown(&folder, Some(1001), None).unwrap();
        assert!(is_trusted_folder(&socket, 1001) && !is_trusted_folder(&socket, 1002), "given to one user");
        allow(&folder, 0o777);
        assert!(!is_trusted_folder(&socket, 1001), "anybody may write in the folder");
        allow(&folder, 0o755);
        allow(dir.path(), 0o1777);
        assert!(!is_trusted_folder(&socket, 1001), "anybody may make such a folder");
        assert!(!is_roots_gift(&socket, 1001), "it is none of the system's places");
    }
}
