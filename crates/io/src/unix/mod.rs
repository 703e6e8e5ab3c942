//! Unix stream sockets: the faces of local applications.

mod socket_file;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use namely_host::closing::{Closer, Entrusted};
use namely_host::rights;
use namely_host::shares::Holder;
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor, NewTransport};
use crate::sockets;
use crate::status::{Carrier, Credentials, FaceState, LinkInfo, Reach};
use crate::stream::StreamReceiver;
pub(crate) use socket_file::SocketFile;

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 1024;

/// Connections accepted per listener and turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 64;

impl<H: Handler> Faces<H> {
    /// Listens on a path with the given file mode. A stale socket file is replaced.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when another process listens there, [`OpenError::NotASocket`] when the
    /// path holds something else; otherwise what the system says.
    pub fn listen_unix(&mut self, path: &Path, mode: u32) -> Result<FaceUri, OpenError> {
        let (socket, file) = listen(path, mode, SocketType::STREAM)?;
        let local = FaceUri::Unix(path.display().to_string());
        let refuses_rights = self.options().refuses_rights && rights::refuse(&socket);
        let closer = self.shared.closer.clone();
        let acceptor =
            UnixAcceptor { socket, local: local.clone(), refuses_rights, closer, _file: Some(file) };
        self.add_listener(Box::new(acceptor), local)
    }

    /// Accepts on a socket that somebody else has bound to `local` and that listens already. It
    /// must not block; its file stays when it is closed.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen_given(&mut self, socket: OwnedFd, local: FaceUri) -> Result<FaceUri, OpenError> {
        // Who waits in its queue may have connected before descriptors could be refused.
        let refuses_rights = false;
        let closer = self.shared.closer.clone();
        let acceptor = UnixAcceptor { socket, local: local.clone(), refuses_rights, closer, _file: None };
        self.add_listener(Box::new(acceptor), local)
    }
}

/// A listening socket of the given kind on a path, and its file.
pub(crate) fn listen(path: &Path, mode: u32, kind: SocketType) -> Result<(OwnedFd, SocketFile), OpenError> {
    let shown = path.display();
    let address = SocketAddrUnix::new(path).map_err(OpenError::system(format!("using the path {shown}")))?;
    SocketFile::make_room(path, &address, kind)?;
    let socket = sockets::open(AddressFamily::UNIX, kind)?;
    rustix::net::bind(&socket, &address).map_err(OpenError::system(format!("making the socket {shown}")))?;
    let file = SocketFile::made(path);
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))
        .map_err(OpenError::system(format!("setting the mode of {shown}")))?;
    rustix::net::listen(&socket, BACKLOG).map_err(OpenError::system(format!("listening on {shown}")))?;
    Ok((socket, file))
}

struct UnixAcceptor {
    socket: OwnedFd,
    local: FaceUri,
    /// The kernel refuses descriptors on the connections.
    refuses_rights: bool,
    /// Closes them where it does not.
    closer: Closer,
    /// The file, where it goes with the listener.
    _file: Option<SocketFile>,
}

impl<H: Handler> Acceptor<H> for UnixAcceptor {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _: &mut [u8]) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if turn.is_over() {
                return;
            }
            if !self.refuses_rights && self.closer.is_swamped() {
                // A connection that is refused may hold descriptors too.
                return turn.rest(&self.socket);
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => {
                    let credentials = credentials(&socket);
                    let holder = holder(credentials);
                    let connection = if self.refuses_rights {
                        Connection::Plain(socket)
                    } else {
                        Connection::Entrusted(Entrusted::new(socket, self.closer.clone(), holder))
                    };
                    let Some(admission) = turn.admit(holder) else { continue };
                    let options = turn.options();
                    let (send, receive) = (options.send_buffer_octets, options.stream_receive_buffer_octets);
                    sockets::set_buffers(&connection, send, receive);
                    let new = application(connection, credentials, self.local.clone());
                    turn.adopt(new, admission, None, |_| ());
                }
                Err(errno) if accept_failed(turn, &self.socket, errno) => return,
                Err(_) => (),
            }
        }
    }
}

/// The user for whom a system that does not say who connected has things counted: nobody.
const UID_UNKNOWN: u32 = 65_534;

/// Who an application's face is counted for.
pub(crate) fn holder(credentials: Option<Credentials>) -> Holder {
    Holder::uid(credentials.map_or(UID_UNKNOWN, |credentials| credentials.uid))
}

/// The user at the other end of a Unix socket.
pub(crate) fn credentials(socket: &OwnedFd) -> Option<Credentials> {
    let peer = namely_host::peer::of(socket).ok()?;
    Some(Credentials { uid: peer.uid, gid: peer.gid, pid: peer.pid.unwrap_or_default() })
}

/// A connection of an application.
enum Connection {
    /// No descriptors come over it.
    Plain(OwnedFd),
    /// Descriptors may come, and lie in it when it is closed.
    Entrusted(Entrusted),
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Plain(socket) => socket.as_fd(),
            Connection::Entrusted(socket) => socket.as_fd(),
        }
    }
}

/// The transport of an application that connected.
fn application<H: Handler>(
    connection: Connection,
    credentials: Option<Credentials>,
    local: FaceUri,
) -> NewTransport<H> {
    let info = LinkInfo {
        remote: FaceUri::Fd(connection.as_fd().as_raw_fd() as u64),
        reach: Reach::Local,
        holder: holder(credentials),
        carrier: Carrier::Stream,
        mtu: None,
        path_octets: None,
        credentials,
        socket_inode: None,
        idle_ns: None,
        can_stall: true,
        refuses: refuses_permanent,
    };
    let (persistency, state) = (FacePersistency::OnDemand, FaceState::Up);
    match connection {
        Connection::Plain(socket) => {
            let (receiver, sender) = StreamReceiver::pair(socket);
            NewTransport { receiver, sender, info, local, persistency, state }
        }
        Connection::Entrusted(socket) => {
            let (receiver, sender) = StreamReceiver::pair(socket);
            NewTransport { receiver, sender, info, local, persistency, state }
        }
    }
}

/// A connection that the peer opened cannot be opened again from here.
pub(crate) fn refuses_permanent(persistency: FacePersistency) -> Option<&'static str> {
    (persistency == FacePersistency::Permanent)
        .then_some("a connection that the peer opened cannot be permanent")
}

/// Returns true if accepting ends for this turn. Without file descriptors the listener rests: the
/// connection stays in the queue, and the loop must not spin on it.
pub(crate) fn accept_failed<H: Handler>(
    turn: &mut AcceptContext<'_, H>,
    socket: impl AsFd,
    errno: Errno,
) -> bool {
    match errno {
        Errno::AGAIN => return true,
        Errno::INTR | Errno::CONNABORTED => return false,
        _ => (),
    }
    turn.rest(socket);
    true
}
