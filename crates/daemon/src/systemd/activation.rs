//! Listening sockets that a service manager passes: `sd_listen_fds(3)`, the sockets of a unit
//! `namelyd.socket`. They are open before the router starts and stay open after it stops, so that
//! programs that connect in the meantime wait instead of failing.
//!
//! Contains `unsafe` code, because a descriptor is passed as a number. Its one invariant is that no
//! other part of this process owns the descriptor. Descriptors that the process opens itself (the
//! standard library, `rustix`) have the close-on-exec flag; a passed one does not, until [`take`]
//! sets it.

use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use namely_wire::FaceUri;
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::exit::{Exit, Failure};

/// The first passed descriptor.
const FIRST: RawFd = 3;

/// Sockets that a service manager passes to the router.
///
/// # Limit
/// The router does not start, and reports the reason.
/// - Tests: `malformed_socket_announcements_are_refused`
const GIVEN_SOCKETS_MAX: usize = 16;

/// A passed listening Unix stream socket.
#[derive(Debug)]
pub(crate) struct ActivationSocket {
    /// `unix://` and its path.
    pub(crate) uri: FaceUri,
    pub(crate) socket: OwnedFd,
}

/// Takes the sockets that the environment announces for this process.
///
/// # Errors
/// [`Failure`]: the announcement is malformed, or contains a socket that a router cannot use.
pub(crate) fn take() -> Result<Vec<ActivationSocket>, Failure> {
    let read = |name: &str| std::env::var(name).ok();
    let taken = announced(read, std::process::id()).and_then(|names| {
        let numbered = (FIRST..).zip(names);
        numbered
            .map(|(number, name)| {
                let shown = if name.is_empty() { String::new() } else { format!(" ({name})") };
                take_one(number).map_err(|why| format!("descriptor {number}{shown} {why}"))
            })
            .collect()
    });
    taken.map_err(|why: String| {
        Failure::new(Exit::CannotListen, format!("socket activation: {why}"))
            .hint("hand over listening Unix stream sockets: ListenStream=/PATH in a .socket unit")
    })
}

/// The names of the descriptors announced for the process `pid`; empty without an announcement.
fn announced(read: impl Fn(&str) -> Option<String>, pid: u32) -> Result<Vec<String>, String> {
    let (Some(count), Some(of)) = (read("LISTEN_FDS"), read("LISTEN_PID")) else { return Ok(Vec::new()) };
    match of.parse::<u32>() {
        Ok(of) if of == pid => (),
        Ok(of) => {
            tracing::warn!("LISTEN_PID is {of}, another process: no sockets are taken over");
            return Ok(Vec::new());
        }
        Err(_) => return Err(format!("LISTEN_PID is {of:?}, which is not a process")),
    }
    let count = match count.parse::<usize>() {
        Ok(count) if count <= GIVEN_SOCKETS_MAX => count,
        Ok(count) => return Err(format!("LISTEN_FDS is {count}: at most {GIVEN_SOCKETS_MAX} are taken")),
        Err(_) => return Err(format!("LISTEN_FDS is {count:?}, which is not a number of descriptors")),
    };
    let names = match read("LISTEN_FDNAMES") {
        Some(names) if count > 0 => names.split(':').map(str::to_owned).collect(),
        _ => vec![String::new(); count],
    };
    if names.len() != count {
        return Err(format!("LISTEN_FDS is {count}, and LISTEN_FDNAMES has {} names", names.len()));
    }
    Ok(names)
}

fn take_one(number: RawFd) -> Result<ActivationSocket, String> {
    let socket = own(number)?;
    let uri = uri_of(&socket)?;
    // A passed socket may be in blocking mode.
    let flags = rustix::fs::fcntl_getfl(&socket).map_err(|errno| errno.to_string())?;
    rustix::fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
    Ok(ActivationSocket { uri, socket })
}

/// Makes this process the owner of a descriptor that it was started with.
fn own(number: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: fcntl(2) with F_GETFD takes a number and touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err("is not open".into());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err("is the router's own, and was not passed to it".into());
    }
    // SAFETY: it is open, and by the invariant above no part of this process owns it, because the
    // flag is not set. The flag is set below, so that a second call does not reach this point; if
    // that fails, the descriptor is closed.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|errno| errno.to_string())?;
    Ok(socket)
}

/// The address of a listening socket, if a router can use it.
fn uri_of(socket: impl AsFd) -> Result<FaceUri, String> {
    let socket = socket.as_fd();
    let Ok(kind) = sockopt::socket_type(socket) else { return Err("is not a socket".into()) };
    if sockopt::socket_domain(socket) != Ok(AddressFamily::UNIX) {
        return Err("is not a Unix socket: the router opens others itself, by `listen` under [faces]".into());
    }
    if kind != SocketType::STREAM {
        return Err("is a Unix socket of datagrams or sequenced packets, and not a stream".into());
    }
    if sockopt::socket_acceptconn(socket) != Ok(true) {
        return Err("does not listen: with Accept=yes each connection would start a router".into());
    }
    let address = rustix::net::getsockname(socket).ok().and_then(|a| SocketAddrUnix::try_from(a).ok());
    let path = address.as_ref().and_then(|address| address.path());
    path.and_then(|path| path.into_owned().into_string().ok())
        .map(FaceUri::Unix)
        .ok_or_else(|| "has no path, or one that is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    fn names(values: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let read = |name: &str| values.iter().find(|(of, _)| *of == name).map(|(_, v)| (*v).to_owned());
        announced(read, 7)
    }

    #[test]
    fn foreign_socket_announcements_are_ignored() {
        assert_eq!(names(&[]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "1")]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "nonsense"), ("LISTEN_PID", "8")]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "1"), ("LISTEN_PID", "7")]), Ok(vec![String::new()]));
        assert_eq!(names(&[("LISTEN_FDS", "0"), ("LISTEN_PID", "7"), ("LISTEN_FDNAMES", "")]), Ok(vec![]));
        let two = [("LISTEN_FDS", "2"), ("LISTEN_PID", "7"), ("LISTEN_FDNAMES", "a:b")];
        assert_eq!(names(&two), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn malformed_socket_announcements_are_refused() {
        let most = GIVEN_SOCKETS_MAX.to_string();
        assert_eq!(names(&[("LISTEN_FDS", &most), ("LISTEN_PID", "7")]).unwrap().len(), GIVEN_SOCKETS_MAX);
        for (count, pid, given, said) in [
            ("17", "7", "", "at most 16"),
            ("-1", "7", "", "not a number"),
            ("18446744073709551616", "7", "", "not a number"),
            ("1", "me", "", "not a process"),
            ("2", "7", "a", "LISTEN_FDNAMES has 1"),
        ] {
            let mut values = vec![("LISTEN_FDS", count), ("LISTEN_PID", pid)];
            values.extend((!given.is_empty()).then_some(("LISTEN_FDNAMES", given)));
            let why = names(&values).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn only_listening_unix_streams_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(uri_of(&listener), Ok(FaceUri::Unix(path.to_str().unwrap().to_owned())));
        let refused = |socket: OwnedFd, said: &str| {
            let why = uri_of(&socket).unwrap_err();
            assert!(why.contains(said), "{why}");
        };
        refused(UnixStream::connect(&path).unwrap().into(), "does not listen");
        refused(UnixDatagram::bind(dir.path().join("d")).unwrap().into(), "not a stream");
        refused(std::net::TcpListener::bind("127.0.0.1:0").unwrap().into(), "not a Unix socket");
        refused(std::fs::File::open("/dev/null").unwrap().into(), "not a socket");
    }

    #[test]
    fn the_programs_own_descriptors_are_refused() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(own(file.as_raw_fd()).unwrap_err().contains("own"));
        assert!(own(1 << 20).unwrap_err().contains("not open"));
    }
}
