//! Listening sockets that a service manager hands over: `sd_listen_fds(3)`, the sockets of a unit
//! `namelyd.socket`. They are open before the router starts and stay when it stops, so that
//! programs which connect meanwhile wait instead of failing.
//!
//! With `unsafe` code, as a descriptor comes as a number: the one invariant is that nobody else in
//! this process owns it. What the process opens itself (the standard library, `rustix`) is closed
//! on exec; what was handed over is not, until [`take`] marks it.

use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use namely_wire::FaceUri;
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::exit::{Exit, Failure};

/// The first descriptor that is handed over.
const FIRST: RawFd = 3;

/// Most sockets that are taken.
const GIVEN_SOCKETS_MAX: usize = 16;

/// A listening Unix stream socket that was handed over.
#[derive(Debug)]
pub(crate) struct GivenSocket {
    /// `unix://` and the path that it is bound to.
    pub(crate) uri: FaceUri,
    pub(crate) socket: OwnedFd,
}

/// Takes what the environment announces for this process.
///
/// # Errors
/// [`Failure`]: the announcement is not well formed, or of what a router cannot listen on.
pub(crate) fn take() -> Result<Vec<GivenSocket>, Failure> {
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

/// The names of the descriptors that are announced for the process `pid`: empty where none are.
fn announced(read: impl Fn(&str) -> Option<String>, pid: u32) -> Result<Vec<String>, String> {
    let (Some(count), Some(of)) = (read("LISTEN_FDS"), read("LISTEN_PID")) else { return Ok(Vec::new()) };
    match of.parse::<u32>() {
        Ok(of) if of == pid => (),
        Ok(of) => {
            tracing::warn!("LISTEN_PID is {of}, another process: no sockets are taken over");
            return Ok(Vec::new());
        }
        Err(_) => return Err(format!("LISTEN_PID is {of:?}, which is no process")),
    }
    let count = match count.parse::<usize>() {
        Ok(count) if count <= GIVEN_SOCKETS_MAX => count,
        Ok(count) => return Err(format!("LISTEN_FDS is {count}: at most {GIVEN_SOCKETS_MAX} are taken")),
        Err(_) => return Err(format!("LISTEN_FDS is {count:?}, which is no number of descriptors")),
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

fn take_one(number: RawFd) -> Result<GivenSocket, String> {
    let socket = own(number)?;
    let uri = uri_of(&socket)?;
    // Whoever hands it over may have it block.
    let flags = rustix::fs::fcntl_getfl(&socket).map_err(|errno| errno.to_string())?;
    rustix::fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK).map_err(|errno| errno.to_string())?;
    Ok(GivenSocket { uri, socket })
}

/// Makes this process the owner of a descriptor with which it was started.
fn own(number: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: fcntl(2) with F_GETFD takes a number and touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err("is not open".into());
    }
    if flags & libc::FD_CLOEXEC != 0 {
        return Err("is the router's own, and was not handed over".into());
    }
    // SAFETY: it is open and nobody here owns it, by the invariant above: the flag is not set. It
    // is set below, so that a second call does not get here; where that fails, it is closed.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).map_err(|errno| errno.to_string())?;
    Ok(socket)
}

/// Where a socket listens, if a router can take it.
fn uri_of(socket: impl AsFd) -> Result<FaceUri, String> {
    let socket = socket.as_fd();
    let Ok(kind) = sockopt::socket_type(socket) else { return Err("is no socket".into()) };
    if sockopt::socket_domain(socket) != Ok(AddressFamily::UNIX) {
        return Err("is no Unix socket: the router opens others itself, by `listen` under [faces]".into());
    }
    if kind != SocketType::STREAM {
        return Err("is a Unix socket of datagrams or sequenced packets, and not a stream".into());
    }
    if sockopt::socket_acceptconn(socket) != Ok(true) {
        return Err("does not listen: with Accept=yes each connection would have a router".into());
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
    fn what_is_announced_for_another_process_is_left() {
        assert_eq!(names(&[]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "1")]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "nonsense"), ("LISTEN_PID", "8")]), Ok(vec![]));
        assert_eq!(names(&[("LISTEN_FDS", "1"), ("LISTEN_PID", "7")]), Ok(vec![String::new()]));
        assert_eq!(names(&[("LISTEN_FDS", "0"), ("LISTEN_PID", "7"), ("LISTEN_FDNAMES", "")]), Ok(vec![]));
        let two = [("LISTEN_FDS", "2"), ("LISTEN_PID", "7"), ("LISTEN_FDNAMES", "a:b")];
        assert_eq!(names(&two), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn an_announcement_of_too_many_or_of_no_number_is_refused() {
        let most = GIVEN_SOCKETS_MAX.to_string();
        assert_eq!(names(&[("LISTEN_FDS", &most), ("LISTEN_PID", "7")]).unwrap().len(), GIVEN_SOCKETS_MAX);
        for (count, pid, given, said) in [
            ("17", "7", "", "at most 16"),
            ("-1", "7", "", "no number"),
            ("18446744073709551616", "7", "", "no number"),
            ("1", "me", "", "no process"),
            ("2", "7", "a", "LISTEN_FDNAMES has 1"),
        ] {
            let mut values = vec![("LISTEN_FDS", count), ("LISTEN_PID", pid)];
            values.extend((!given.is_empty()).then_some(("LISTEN_FDNAMES", given)));
            let why = names(&values).unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn only_a_listening_unix_stream_with_a_path_is_taken() {
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
        refused(std::net::TcpListener::bind("127.0.0.1:0").unwrap().into(), "no Unix socket");
        refused(std::fs::File::open("/dev/null").unwrap().into(), "no socket");
    }

    #[test]
    fn a_descriptor_of_the_program_itself_is_not_taken() {
        use std::os::fd::AsRawFd;
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(own(file.as_raw_fd()).unwrap_err().contains("own"));
        assert!(own(1 << 20).unwrap_err().contains("not open"));
    }
}
