//! The process at the other end of a Unix socket (`SO_PEERCRED`, unix(7)): the one that connected,
//! or began to listen.
//!
//! For a process in another PID namespace, as in another container, the kernel returns the user and
//! the process id 0. `rustix` cannot represent that answer: it treats 0 as an invalid process id,
//! and returns an error whose number is the user's.
//!
//! The one invariant: getsockopt(2) writes no more than the given length, and keeps no pointer.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A process's user, group and id, as they were when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id; `None` of a process that this one does not see.
    pub pid: Option<i32>,
}

/// Returns the process at the other end.
///
/// # Errors
///
/// Those of getsockopt(2): not a connected Unix socket.
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut octets = size_of_val(&found) as libc::socklen_t;
    // SAFETY: the value has as many octets as the length states, and any octets are a valid
    // `ucred`. Both are live and not shared. The descriptor is borrowed, hence open.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut octets,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // A socket of another family has no such peer, which is reported as an invalid user.
    if found.uid == u32::MAX {
        return Err(io::Error::from(io::ErrorKind::NotConnected));
    }
    Ok(Peer { uid: found.uid, gid: found.gid, pid: Some(found.pid).filter(|pid| *pid > 0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_pair_has_this_process_as_peer() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = Peer {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: Some(std::process::id() as i32),
        };
        assert_eq!(of(&one).unwrap(), own);
        assert_eq!(of(&other).unwrap(), own);
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(of(&datagrams).is_err());
        assert!(of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
