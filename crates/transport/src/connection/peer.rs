//! Who runs the router at the other end of a Unix socket. Whoever answers there sees what is asked
//! for, may answer it, and is handed commands: another user's router is not taken for this user's.
//!
//! Looks at the credentials that the kernel took when the router began to listen, so that nothing
//! that is renamed or linked meanwhile deceives it. Says nothing of routers over a network.

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

/// How long a Unix socket may take to accept: one whose owner accepts nobody stays full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The router is run by a user whom nobody said to trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// Who runs it.
    uid: u32,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match namely_host::users::name_of(self.uid) {
            Some(name) => {
                write!(f, "it is run by user {name} (uid {}), neither by you nor by root", self.uid)
            }
            None => write!(f, "it is run by uid {}, neither by you nor by root", self.uid),
        }
    }
}

impl std::error::Error for Stranger {}

/// Returns true if `error` says that a router is another user's.
pub(crate) fn is_stranger(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Stranger>())
}

/// Connects to the Unix socket at `path`, whose router this user, root or one of `trusted` runs, or
/// root put where it is.
pub(super) fn connect(path: &str, kind: SocketType, trusted: &str) -> io::Result<OwnedFd> {
    let socket = connect_within(path, kind, CONNECT_TIMEOUT)?;
    let uid = namely_host::peer::of(&socket)?.uid;
    let own = rustix::process::geteuid().as_raw();
    if uid == own || uid == 0 || is_named(uid, trusted) || is_roots_gift(Path::new(path), uid) {
        return Ok(socket);
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, Stranger { uid }))
}

fn connect_within(path: &str, kind: SocketType, timeout: Duration) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|errno| match errno {
        Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "it accepts nobody"),
        errno => errno.into(),
    })?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

/// Returns true if `users`, numbers and names between commas, has `uid`.
fn is_named(uid: u32, users: &str) -> bool {
    let is_it = |user: &str| match user.parse::<u32>() {
        Ok(number) => number == uid,
        Err(_) => namely_host::users::uid_of(user) == Some(uid),
    };
    users.split(',').map(str::trim).any(is_it)
}

/// Returns true if `path` is a place of the system's routers, which may run as users of their own:
/// only root can have let `uid` listen there.
fn is_roots_gift(path: &Path, uid: u32) -> bool {
    paths::system_sockets().any(|socket| path == socket || path == paths::memif_beside(&socket))
        && is_given(path, uid)
}

/// Returns true if the folder of `path` is root's or `uid`'s, and the one above it is root's and
/// open to nobody else.
fn is_given(path: &Path, uid: u32) -> bool {
    let Some(folder) = path.parent() else { return false };
    let above = folder.parent().filter(|above| *above != Path::new("/")).unwrap_or(folder);
    let owner = |path: &Path| {
        let found = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        (found.mode() & 0o022 == 0).then(|| found.uid())
    };
    owner(above) == Some(0) && owner(folder).is_some_and(|folder| folder == 0 || folder == uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_skip::{Need, skip};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn users_are_trusted_by_number_and_by_name() {
        for (uid, users) in [(1001, "1001"), (0, "root"), (1001, "root, 1001 ,x")] {
            assert!(is_named(uid, users), "{users}");
        }
        for (uid, users) in [(1001, ""), (1001, "100"), (1001, "no-such-user"), (0, ",")] {
            assert!(!is_named(uid, users), "{users}");
        }
    }

    #[test]
    fn a_socket_whose_owner_accepts_nobody_is_given_up_in_time() {
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
    fn a_place_is_roots_gift_only_where_nobody_else_may_write() {
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
        assert!(is_given(&socket, 1001), "root's own folder");
        chown(&folder, Some(1001), None).unwrap();
        assert!(is_given(&socket, 1001) && !is_given(&socket, 1002), "given to one user");
        allow(&folder, 0o777);
        assert!(!is_given(&socket, 1001), "anybody may write in the folder");
        allow(&folder, 0o755);
        allow(dir.path(), 0o1777);
        assert!(!is_given(&socket, 1001), "anybody may make such a folder");
        assert!(!is_roots_gift(&socket, 1001), "it is none of the system's places");
    }
}
