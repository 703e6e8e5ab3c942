//! Unix stream sockets: the faces of local applications.

mod socket_file;

use std::os::fd::AsRawFd;
use std::path::Path;

use namely_wire::face_uri::FaceUri;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::error::OpenError;
use crate::options::Persistency;
use crate::sockets;
use crate::stream::Partial;
use crate::transport::{Credentials, Kind, Transport, TransportId};
use crate::transports::{Event, Listener, ListenerKind, Transports};
pub(crate) use socket_file::SocketFile;

/// Connections that wait to be accepted.
pub(crate) const BACKLOG: i32 = 1024;

/// Connections accepted per listener and turn.
pub(crate) const ACCEPTS_PER_TURN_MAX: usize = 64;

/// How long a listener rests when the process has no file descriptor left, ns.
const ACCEPT_REST_NS: u64 = 100_000_000;

impl<P: AsRef<[u8]> + Clone> Transports<P> {
    /// Listens on a path with the given file mode. A stale socket file is replaced.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when another process listens there, [`OpenError::NotASocket`] when the path holds
    /// something else; otherwise what the system says.
    pub fn listen_unix(&mut self, path: &Path, mode: u32) -> Result<TransportId, OpenError> {
        let shown = path.display().to_string();
        let address =
            SocketAddrUnix::new(path).map_err(OpenError::system(format!("using the path {shown}")))?;
        SocketFile::make_room(path, &address)?;
        let socket = sockets::open(AddressFamily::UNIX, SocketType::STREAM)?;
        rustix::net::bind(&socket, &address)
            .map_err(OpenError::system(format!("making the socket {shown}")))?;
        let file = SocketFile::made(path);
        rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(mode))
            .map_err(OpenError::system(format!("setting the mode of {shown}")))?;
        rustix::net::listen(&socket, BACKLOG).map_err(OpenError::system(format!("listening on {shown}")))?;
        self.add_listener(Listener {
            kind: ListenerKind::Unix { _file: file },
            socket,
            local: FaceUri::Unix(shown),
            drops: Default::default(),
        })
    }
}

/// Takes up applications that connect.
pub(crate) fn accept<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    for _ in 0..ACCEPTS_PER_TURN_MAX {
        let Some(listener) = io.listener_mut(id) else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::accept_with(&listener.socket, flags) {
            Ok(socket) => {
                let local = listener.local.clone();
                let credentials = sockopt::socket_peercred(&socket).ok().map(|peer| Credentials {
                    uid: peer.uid.as_raw(),
                    gid: peer.gid.as_raw(),
                    pid: rustix::process::Pid::as_raw(Some(peer.pid)),
                });
                let options = io.options();
                sockets::set_buffers(
                    &socket,
                    options.send_buffer_octets,
                    options.stream_receive_buffer_octets,
                );
                let remote = FaceUri::Fd(socket.as_raw_fd() as u64);
                let kind = Kind::Stream { socket, partial: Partial::default() };
                let mut transport = Transport::new(kind, local, remote, Persistency::OnDemand);
                transport.credentials = credentials;
                welcome(io, id, transport);
            }
            Err(errno) if accept_failed(io, id, errno) => return,
            Err(_) => (),
        }
    }
}

/// Takes up an accepted transport; one too many is closed again.
pub(crate) fn welcome<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    listener: TransportId,
    transport: Transport<P>,
) {
    match io.add_transport(transport) {
        Ok(transport) => io.events.push_back(Event::Accepted { listener, transport }),
        Err(error) => {
            if let Some(listener) = io.listener_mut(listener) {
                listener.drops.count(match error {
                    OpenError::TooManyTransports => "too_many_transports",
                    _ => "accept_failed",
                });
            }
        }
    }
}

/// Whether accepting ends for this turn. Without file descriptors the listener rests: the connection stays in the
/// queue, and the loop must not spin on it.
pub(crate) fn accept_failed<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    errno: Errno,
) -> bool {
    match errno {
        Errno::AGAIN => return true,
        Errno::INTR | Errno::CONNABORTED => return false,
        _ => (),
    }
    let due_ns = io.now_ns().saturating_add(ACCEPT_REST_NS);
    io.rest_listener(id, due_ns);
    true
}
