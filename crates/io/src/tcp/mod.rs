//! TCP connections that peers open, and those that this router opens. A permanent face connects
//! again after its connection was lost.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::{Endpoint, FaceUri};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, sockopt};

use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor, NewTransport, ReadContext, Receiver};
use crate::port::FaceSender;
use crate::reconnect::Reconnect;
use crate::sockets::{self, Interest};
use crate::status::{FaceState, LinkInfo, RemoteKind};
use crate::stream::{PartialPacket, StreamReceiver, StreamSender};
use crate::unix::{ACCEPTS_PER_TURN_MAX, BACKLOG, accept_failed, refuses_permanent};

/// The time without traffic after which the kernel probes the peer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// The interval between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The number of unanswered probes after which the connection is dead.
const KEEPALIVE_PROBES: u32 = 3;

/// The time for which sent octets stay unacknowledged before the connection is dead
/// (TCP_USER_TIMEOUT, tcp(7)). The kernel's own limit is about 15 minutes.
const USER_TIMEOUT: Duration = Duration::from_secs(30);

// The kernel ends an idle connection at the first unanswered probe after the user timeout, whatever
// the number of probes. A shorter timeout would let one lost probe end it.
const _: () = assert!(
    USER_TIMEOUT.as_secs()
        >= KEEPALIVE_IDLE.as_secs() + KEEPALIVE_PROBES as u64 * KEEPALIVE_INTERVAL.as_secs()
);

impl<H: Handler> Faces<H> {
    /// Listens on an address. With port 0 the system chooses a free port, which the result and
    /// [`Faces::listeners`] report.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if the port is in use, otherwise the system's error.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> Result<FaceUri, OpenError> {
        let (socket, local) = listen(address, uri)?;
        self.add_listener(Box::new(TcpAcceptor { socket }), local)
    }

    /// Begins to connect. [`crate::Event::Up`] reports success. [`crate::Event::Closed`] reports
    /// the failure of a persistent face. A permanent face tries again.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], or the system's immediate error.
    pub fn connect_tcp(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        persistency: FacePersistency,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        let doing = || format!("connecting to {peer}");
        // Checked first, so that a refused face sends no connection request.
        self.shared.faces.check(Owner::Root).map_err(|_| OpenError::TooManyFaces)?;
        let socket = Arc::new(start(&peer, local).map_err(OpenError::system(doing()))?);
        let address = sockets::local_address(&socket).map_err(OpenError::system(doing()))?;
        let sender = Box::new(StreamSender::new(socket.clone()));
        let (partial, reconnect) = (PartialPacket::default(), Reconnect::default());
        let port = self.add_transport(NewTransport {
            receiver: Box::new(Connection { socket: Some(socket), partial, peer, reconnect }),
            sender,
            info: LinkInfo { refuses: refuses_on_demand, ..info(peer) },
            local: uri(address),
            persistency,
            state: FaceState::Connecting,
        })?;
        let timeout_ns = self.options().tcp.connect_timeout_ns;
        self.set_face_timer(&port, self.now_ns().saturating_add(timeout_ns));
        Ok(port)
    }
}

/// Returns the properties of a TCP connection. A peer on the loopback is a local application.
fn info(peer: SocketAddr) -> LinkInfo {
    let reach = if peer.ip().is_loopback() { RemoteKind::Local } else { RemoteKind::Neighbour };
    LinkInfo::connection(uri(peer), reach, Owner::address(peer.ip()), refuses_permanent)
}

pub(crate) fn refuses_on_demand(persistency: FacePersistency) -> Option<&'static str> {
    (persistency == FacePersistency::OnDemand)
        .then_some("a connection that the router opened is not on demand")
}

fn uri(address: SocketAddr) -> FaceUri {
    FaceUri::Tcp(Endpoint::Address(address))
}

/// Opens a listening socket. Returns it with its address, of which `uri` makes the URI.
pub(crate) fn listen(
    address: SocketAddr,
    uri: fn(SocketAddr) -> FaceUri,
) -> Result<(OwnedFd, FaceUri), OpenError> {
    let text = uri(address).to_string();
    let socket = sockets::open(sockets::family_of(&address), SocketType::STREAM)?;
    // Lingering connections of an earlier run must not block the port.
    let _ = sockopt::set_socket_reuseaddr(&socket, true);
    if address.is_ipv6() {
        // A listener for IPv4 may use the same port.
        let _ = sockopt::set_ipv6_v6only(&socket, true);
    }
    rustix::net::bind(&socket, &address).map_err(|errno| bind_error(&text, errno))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|errno| bind_error(&text, errno))?;
    let local = sockets::local_address(&socket).unwrap_or(address);
    Ok((socket, uri(local)))
}

pub(crate) fn bind_error(uri: &str, errno: Errno) -> OpenError {
    match errno {
        Errno::ADDRINUSE => OpenError::InUse(uri.to_string()),
        errno => OpenError::system(format!("listening on {uri}"))(errno),
    }
}

/// Opens a socket and begins to connect it.
fn start(peer: &SocketAddr, local: Option<SocketAddr>) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(sockets::family_of(peer), SocketType::STREAM, flags, None)?;
    // Set before connecting, so that the options apply from the first segment.
    prepare(&socket);
    if let Some(local) = local {
        rustix::net::bind(&socket, &local)?;
    }
    match rustix::net::connect(&socket, peer) {
        // The socket becomes writable when the attempt has ended (connect(2)).
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Sets the options of a connection. An option that the system refuses is skipped. The kernel sizes
/// the buffers to the path.
pub(crate) fn prepare(socket: impl AsFd) {
    let socket = socket.as_fd();
    // A small Interest must not wait for the acknowledgment of the previous one (RFC 896).
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES);
    let _ = sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT.as_millis() as u32);
}

/// Returns false if this machine no longer has the address. A connection from it is lost, and the
/// kernel would report that only after the timeout above.
fn has_address(local: SocketAddr) -> bool {
    let Ok(probe) = sockets::open(sockets::family_of(&local), SocketType::DGRAM) else { return true };
    let any_port = SocketAddr::new(local.ip(), 0);
    rustix::net::bind(&probe, &any_port) != Err(Errno::ADDRNOTAVAIL)
}

struct TcpAcceptor {
    socket: OwnedFd,
}

impl<H: Handler> Acceptor<H> for TcpAcceptor {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _: &mut [u8]) {
        for _ in 0..ACCEPTS_PER_TURN_MAX {
            if turn.is_over() {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::acceptfrom_with(&self.socket, flags) {
                Ok((socket, peer)) => {
                    let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { continue };
                    let Ok(local) = sockets::local_address(&socket) else { continue };
                    let Some(admission) = turn.admit(Owner::address(peer.ip())) else { continue };
                    prepare(&socket);
                    // A web page can make a browser connect to this port (`PartialPacket::read`).
                    let (receiver, sender) = StreamReceiver::untrusted_pair(socket);
                    let (persistency, state) = (FacePersistency::OnDemand, FaceState::Up);
                    let (info, local) = (info(peer), uri(local));
                    let new = NewTransport { receiver, sender, info, local, persistency, state };
                    turn.adopt(new, admission, None, |_| ());
                }
                Err(errno) if accept_failed(turn, &self.socket, errno) => return,
                Err(_) => (),
            }
        }
    }
}

/// The receiving half of a connection that this end opens.
struct Connection {
    /// `None` while it waits to connect again.
    socket: Option<Arc<OwnedFd>>,
    partial: PartialPacket,
    peer: SocketAddr,
    reconnect: Reconnect,
}

impl<H: Handler> Receiver<H> for Connection {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        match &self.socket {
            Some(socket) => self.partial.read(&**socket, turn, scratch),
            None => Ok(()),
        }
    }

    fn connected(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        let Some(socket) = &self.socket else { return Ok(()) };
        // SO_ERROR has the result of the attempt (connect(2)).
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => (),
            Ok(Err(errno)) | Err(errno) => return Err(CloseReason::System(errno)),
        }
        self.reconnect = Reconnect::default();
        // Each connection has another local port.
        if let Ok(local) = sockets::local_address(socket) {
            turn.port.set_local(uri(local));
        }
        turn.set_timer(None);
        turn.rewatch(socket, Interest::Read);
        turn.up();
        Ok(())
    }

    /// Ends an attempt to connect that took too long, or connects again.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        if self.socket.is_some() {
            let is_up = turn.port.state() == FaceState::Up;
            return if is_up { Ok(()) } else { Err(CloseReason::ConnectTimeout) };
        }
        // The new connection does not continue a packet of the lost one.
        self.partial = PartialPacket::default();
        match start(&self.peer, None) {
            Ok(socket) => {
                let socket = Arc::new(socket);
                turn.port.set_sender(Box::new(StreamSender::new(socket.clone())));
                turn.watch(&socket, Interest::Write);
                self.socket = Some(socket);
                let timeout_ns = turn.options().tcp.connect_timeout_ns;
                turn.set_timer(Some(turn.now_ns().saturating_add(timeout_ns)));
            }
            Err(_) => self.reconnect.rest(turn),
        }
        Ok(())
    }

    /// Ends a permanent connection from an address that this machine has no more. Connects at once
    /// if the connection is down.
    fn addresses_changed(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        if turn.port.persistency() != FacePersistency::Permanent {
            return Ok(());
        }
        let Some(socket) = &self.socket else {
            self.reconnect = Reconnect::default();
            turn.set_timer(Some(turn.now_ns()));
            return Ok(());
        };
        match sockets::local_address(socket) {
            Ok(local) if !has_address(local) => Err(CloseReason::System(Errno::ADDRNOTAVAIL)),
            _ => Ok(()),
        }
    }

    fn take_down(&mut self, turn: &mut ReadContext<'_, H>) -> bool {
        self.socket = None;
        self.reconnect.rest(turn);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_limit_unacknowledged_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let opened = start(&listener.local_addr().unwrap(), None).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        prepare(&accepted);
        for socket in [opened.as_fd(), accepted.as_fd()] {
            assert_eq!(sockopt::tcp_user_timeout(socket), Ok(30_000));
            assert_eq!(sockopt::tcp_keepidle(socket), Ok(KEEPALIVE_IDLE));
        }
    }
}
