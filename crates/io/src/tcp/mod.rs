//! TCP: connections that peers open, and connections that this router opens and, where permanent,
//! opens again.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use namely_host::shares::Holder;
use namely_wire::mgmt::FacePersistency;
use namely_wire::{Endpoint, FaceUri};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, sockopt};

use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor, NewTransport, ReadContext, Receiver};
use crate::port::FacePort;
use crate::reconnect::Reconnect;
use crate::sockets::{self, Interest};
use crate::status::{Carrier, FaceState, LinkInfo, Reach};
use crate::stream::{Partial, StreamReceiver, StreamSender};
use crate::unix::{ACCEPTS_PER_TURN_MAX, BACKLOG, accept_failed, refuses_permanent};

/// After this long without traffic the peer is asked whether it lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How long before it is asked again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How often it is asked before the connection counts as dead.
const KEEPALIVE_PROBES: u32 = 6;

impl<H: Handler> Faces<H> {
    /// Listens on an address. Port 0 takes a free one, which [`Faces::listeners`] shows.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when the port is taken; otherwise what the system says.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> Result<FaceUri, OpenError> {
        let text = uri(address).to_string();
        let socket = sockets::open(sockets::family_of(&address), SocketType::STREAM)?;
        // So that connections of an earlier run that linger do not keep the port.
        let _ = sockopt::set_socket_reuseaddr(&socket, true);
        if address.is_ipv6() {
            let _ = sockopt::set_ipv6_v6only(&socket, true);
        }
        rustix::net::bind(&socket, &address).map_err(|errno| bind_error(&text, errno))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|errno| bind_error(&text, errno))?;
        let local = sockets::local_address(&socket).unwrap_or(address);
        self.add_listener(Box::new(TcpAcceptor { socket }), uri(local))
    }

    /// Begins to connect. [`crate::Event::Up`] tells of success; a persistent face that fails
    /// is [`crate::Event::Closed`], a permanent one tries again.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], or what the system says at once.
    pub fn connect_tcp(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        persistency: FacePersistency,
    ) -> Result<Arc<FacePort<H::Packet>>, OpenError> {
        let doing = || format!("connecting to {peer}");
        self.shared.faces.check(Holder::Root).map_err(|_| OpenError::TooManyFaces)?;
        let socket = Arc::new(start(&peer, local).map_err(OpenError::system(doing()))?);
        let address = sockets::local_address(&socket).map_err(OpenError::system(doing()))?;
        let sender = Box::new(StreamSender::new(socket.clone()));
        let (partial, reconnect) = (Partial::default(), Reconnect::default());
        let port = self.add_transport(NewTransport {
            receiver: Box::new(Connection { socket: Some(socket), partial, peer, reconnect }),
            sender,
            info: LinkInfo { refuses: refuses_on_demand, ..info(peer) },
            local: uri(address),
            persistency,
            state: FaceState::Connecting,
        })?;
        let timeout_ns = self.options().tcp.connect_timeout_ns;
        self.set_port_timer(&port, self.now_ns().saturating_add(timeout_ns));
        Ok(port)
    }
}

/// What is known of a TCP connection. A peer on the loopback is an application on this machine.
fn info(peer: SocketAddr) -> LinkInfo {
    LinkInfo {
        remote: uri(peer),
        reach: if peer.ip().is_loopback() { Reach::Local } else { Reach::Neighbour },
        holder: Holder::address(peer.ip()),
        carrier: Carrier::Stream,
        mtu: None,
        path_octets: None,
        credentials: None,
        socket_inode: None,
        idle_ns: None,
        can_stall: true,
        refuses: refuses_permanent,
    }
}

pub(crate) fn refuses_on_demand(persistency: FacePersistency) -> Option<&'static str> {
    (persistency == FacePersistency::OnDemand)
        .then_some("a connection that the router opened is not on demand")
}

fn uri(address: SocketAddr) -> FaceUri {
    FaceUri::Tcp(Endpoint::Address(address))
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
    prepare(&socket);
    if let Some(local) = local {
        rustix::net::bind(&socket, &local)?;
    }
    match rustix::net::connect(&socket, peer) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Settings of every connection; where the system refuses one, the connection does without it. The
/// sizes of buffers are left to the kernel, which fits them to the path.
pub(crate) fn prepare(socket: impl AsFd) {
    let socket = socket.as_fd();
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES);
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
                    let Some(admission) = turn.admit(Holder::address(peer.ip())) else { continue };
                    prepare(&socket);
                    let (receiver, sender) = StreamReceiver::pair_of_stranger(socket);
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
    /// None while waiting to connect again.
    socket: Option<Arc<OwnedFd>>,
    partial: Partial,
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
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => (),
            Ok(Err(errno)) | Err(errno) => return Err(CloseReason::System(errno)),
        }
        self.reconnect = Reconnect::default();
        if let Ok(local) = sockets::local_address(socket) {
            turn.port.set_local(uri(local));
        }
        turn.set_timer(None);
        turn.rewatch(socket, Interest::Read);
        turn.up();
        Ok(())
    }

    /// Connecting took too long, or it is time to connect again.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        if self.socket.is_some() {
            let is_up = turn.port.state() == FaceState::Up;
            return if is_up { Ok(()) } else { Err(CloseReason::ConnectTimeout) };
        }
        self.partial = Partial::default();
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

    fn take_down(&mut self, turn: &mut ReadContext<'_, H>) -> bool {
        self.socket = None;
        self.reconnect.rest(turn);
        true
    }
}
