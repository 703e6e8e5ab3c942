//! Unix stream sockets, for faces of local applications.

mod socket_file;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use namely_host::closing::{Closer, DeferredDescriptor};
use namely_host::rights;
use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor, NewTransport};
use crate::program::ProgramName;
use crate::sockets;
use crate::status::{Credentials, FaceState, LinkInfo, RemoteKind};
use crate::stream::StreamReceiver;
pub(crate) use socket_file::SocketFile;

/// Maximum connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 1024;

/// Maximum connections that a listener accepts in one turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 64;

impl<H: Handler> Faces<H> {
    /// Listens on a path with the given file mode. A stale socket file is replaced.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if another process listens on the path, [`OpenError::NotASocket`] if
    /// the path is not a socket, otherwise the system's error.
    pub fn listen_unix(&mut self, path: &Path, mode: u32) -> Result<FaceUri, OpenError> {
        let (socket, file) = listen(path, mode, SocketType::STREAM)?;
        let local = FaceUri::Unix(path.display().to_string());
        let refuses_rights = self.options().refuses_rights && rights::refuse(&socket);
        let closer = self.shared.closer.clone();
        let acceptor =
            UnixAcceptor { socket, local: local.clone(), refuses_rights, closer, _file: Some(file) };
        self.add_listener(Box::new(acceptor), local)
    }

    /// Accepts connections on a non-blocking socket that was bound to `local` elsewhere and listens
    /// already. The socket file stays when the listener is closed.
    ///
    /// # Errors
    /// The system's error.
    pub fn listen_passed(&mut self, socket: OwnedFd, local: FaceUri) -> Result<FaceUri, OpenError> {
        // Connections may have queued before this process could refuse descriptors.
        let refuses_rights = false;
        let closer = self.shared.closer.clone();
        let acceptor = UnixAcceptor { socket, local: local.clone(), refuses_rights, closer, _file: None };
        self.add_listener(Box::new(acceptor), local)
    }
}

/// Opens a listening socket of the given kind on a path. Also returns its file.
pub(crate) fn listen(path: &Path, mode: u32, kind: SocketType) -> Result<(OwnedFd, SocketFile), OpenError> {
    let shown = path.display();
    let address = SocketAddrUnix::new(path).map_err(OpenError::system(format!("using the path {shown}")))?;
    SocketFile::make_room(path, &address, kind)?;
    let socket = sockets::open(AddressFamily::UNIX, kind)?;
    rustix::net::bind(&socket, &address).map_err(OpenError::system(format!("making the socket {shown}")))?;
    // Made before the next step can fail, so that a failure removes the file.
    let file = SocketFile::made(path);
    // Set before `listen`, so that no peer connects while the file has the mode of the umask.
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))
        .map_err(OpenError::system(format!("setting the mode of {shown}")))?;
    rustix::net::listen(&socket, BACKLOG).map_err(OpenError::system(format!("listening on {shown}")))?;
    Ok((socket, file))
}

struct UnixAcceptor {
    socket: OwnedFd,
    local: FaceUri,
    /// Whether the kernel refuses descriptors on the connections.
    refuses_rights: bool,
    /// Closes descriptors if the kernel does not refuse them.
    closer: Closer,
    /// The file, if it is removed with the listener.
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
                // A refused connection may hold descriptors, too.
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
                        Connection::DeferredDescriptor(DeferredDescriptor::new(
                            socket,
                            self.closer.clone(),
                            holder,
                        ))
                    };
                    // Admitted after the connection belongs to the closer, because a refused
                    // connection may hold descriptors, too.
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

/// The uid used for peers whose credentials the system does not report: the user `nobody`.
const UID_UNKNOWN: u32 = 65_534;

/// Returns the owner to whose quota an application's face counts.
pub(crate) fn holder(credentials: Option<Credentials>) -> Owner {
    Owner::uid(credentials.map_or(UID_UNKNOWN, |credentials| credentials.uid))
}

/// Returns the credentials of the process at the other end of a Unix socket.
pub(crate) fn credentials(socket: &OwnedFd) -> Option<Credentials> {
    let peer = namely_host::peer::of(socket).ok()?;
    let pid = peer.pid.unwrap_or_default();
    Some(Credentials { uid: peer.uid, gid: peer.gid, pid, program: ProgramName::of(pid) })
}

/// A connection of an application.
enum Connection {
    /// The kernel refuses descriptors on it.
    Plain(OwnedFd),
    /// Descriptors may arrive on it, and may still be queued in it when it is closed.
    DeferredDescriptor(DeferredDescriptor),
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Connection::Plain(socket) => socket.as_fd(),
            Connection::DeferredDescriptor(socket) => socket.as_fd(),
        }
    }
}

/// Makes the transport of an application that connected.
fn application<H: Handler>(
    connection: Connection,
    credentials: Option<Credentials>,
    local: FaceUri,
) -> NewTransport<H> {
    let remote = FaceUri::Fd(connection.as_fd().as_raw_fd() as u64);
    let info = LinkInfo::connection(remote, RemoteKind::Local, holder(credentials), refuses_permanent);
    let info = LinkInfo { credentials, ..info };
    let (persistency, state) = (FacePersistency::OnDemand, FaceState::Up);
    match connection {
        Connection::Plain(socket) => {
            let (receiver, sender) = StreamReceiver::pair(socket);
            NewTransport { receiver, sender, info, local, persistency, state }
        }
        Connection::DeferredDescriptor(socket) => {
            let (receiver, sender) = StreamReceiver::pair(socket);
            NewTransport { receiver, sender, info, local, persistency, state }
        }
    }
}

/// Refuses the persistency "permanent", because this end cannot open the peer's connection again.
pub(crate) fn refuses_permanent(persistency: FacePersistency) -> Option<&'static str> {
    (persistency == FacePersistency::Permanent)
        .then_some("a connection that the peer opened cannot be permanent")
}

/// Handles an error of accept(2). Returns true if the listener accepts no more in this turn. After
/// an error such as a lack of file descriptors, the connection stays in the queue, and the listener
/// pauses so that the loop does not spin on it.
pub(crate) fn accept_failed<H: Handler>(
    turn: &mut AcceptContext<'_, H>,
    socket: impl AsFd,
    errno: Errno,
) -> bool {
    match errno {
        Errno::AGAIN => return true,
        // Another connection may wait, even if this one is gone.
        Errno::INTR | Errno::CONNABORTED => return false,
        _ => (),
    }
    turn.rest(socket);
    true
}
