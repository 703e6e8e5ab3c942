//! TCP: connections that peers open, and connections that this router opens and, where permanent, opens again.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use namely_wire::face_uri::{Endpoint, FaceUri};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, sockopt};

use crate::error::{CloseReason, OpenError};
use crate::options::{IoOptions, Persistency};
use crate::sockets::{self, Interest};
use crate::stream::Partial;
use crate::transport::{Kind, Transport, TransportId, TransportState};
use crate::transports::{Event, Listener, ListenerKind, Transports};
use crate::unix::{ACCEPTS_PER_TURN_MAX, BACKLOG, accept_failed, welcome};

/// After this long without traffic the peer is asked whether it lives.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// How long before it is asked again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How often it is asked before the connection counts as dead.
const KEEPALIVE_PROBES: u32 = 6;

/// The wait before the next attempt to connect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reconnect {
    wait_ns: u64,
}

impl Reconnect {
    /// The wait after another failure: twice the last one, within the limits.
    fn next_wait_ns(&mut self, options: &IoOptions) -> u64 {
        let tcp = &options.tcp;
        self.wait_ns = (self.wait_ns * 2).clamp(tcp.reconnect_ns_min, tcp.reconnect_ns_max);
        self.wait_ns
    }
}

impl<P: AsRef<[u8]> + Clone> Transports<P> {
    /// Listens on an address. Port 0 takes a free one, which [`Transports::listeners`] shows.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when the port is taken; otherwise what the system says.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> Result<TransportId, OpenError> {
        let uri = FaceUri::Tcp(Endpoint::Address(address)).to_string();
        let socket = sockets::open(sockets::family_of(&address), SocketType::STREAM)?;
        // So that connections of an earlier run that linger do not keep the port.
        let _ = sockopt::set_socket_reuseaddr(&socket, true);
        if address.is_ipv6() {
            let _ = sockopt::set_ipv6_v6only(&socket, true);
        }
        rustix::net::bind(&socket, &address).map_err(|errno| bind_error(&uri, errno))?;
        rustix::net::listen(&socket, BACKLOG).map_err(|errno| bind_error(&uri, errno))?;
        let local = sockets::local_address(&socket).unwrap_or(address);
        self.add_listener(Listener {
            kind: ListenerKind::Tcp,
            socket,
            local: FaceUri::Tcp(Endpoint::Address(local)),
            drops: Default::default(),
        })
    }

    /// Begins to connect. [`Event::Up`] tells of success; a persistent transport that fails is
    /// [`Event::Closed`], a permanent one tries again.
    ///
    /// # Errors
    /// [`OpenError::TooManyTransports`], or what the system says at once.
    pub fn connect_tcp(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        persistency: Persistency,
    ) -> Result<TransportId, OpenError> {
        let doing = || format!("connecting to {peer}");
        if !self.has_room() {
            return Err(OpenError::TooManyTransports);
        }
        let socket = start(&peer, local).map_err(OpenError::system(doing()))?;
        let address = sockets::local_address(&socket).map_err(OpenError::system(doing()))?;
        let kind = Kind::Tcp {
            socket: Some(socket),
            partial: Partial::default(),
            peer,
            reconnect: Reconnect::default(),
        };
        let (local, remote) = (uri(address), uri(peer));
        let mut transport = Transport::new(kind, local, remote, persistency);
        transport.state = TransportState::Connecting;
        let id = self.add_transport(transport)?;
        let timeout_ns = self.options().tcp.connect_timeout_ns;
        self.set_timer(id, Some(self.now_ns().saturating_add(timeout_ns)));
        Ok(id)
    }
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

/// Settings of every connection; where the system refuses one, the connection does without it. The sizes of buffers
/// are left to the kernel, which fits them to the path.
fn prepare(socket: impl AsFd) {
    let socket = socket.as_fd();
    let _ = sockopt::set_tcp_nodelay(socket, true);
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE);
    let _ = sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(socket, KEEPALIVE_PROBES);
}

/// Takes up peers that connect.
pub(crate) fn accept<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    for _ in 0..ACCEPTS_PER_TURN_MAX {
        let Some(listener) = io.listener_mut(id) else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match rustix::net::acceptfrom_with(&listener.socket, flags) {
            Ok((socket, peer)) => {
                let Some(peer) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) else { continue };
                let Ok(local) = sockets::local_address(&socket) else { continue };
                prepare(&socket);
                let kind = Kind::Stream { socket, partial: Partial::default() };
                welcome(io, id, Transport::new(kind, uri(local), uri(peer), Persistency::OnDemand));
            }
            Err(errno) if accept_failed(io, id, errno) => return,
            Err(_) => (),
        }
    }
}

/// A connection attempt came to its end, one way or the other.
pub(crate) fn on_connected<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    let Some(transport) = io.transport_mut(id) else { return };
    let Kind::Tcp { socket: Some(socket), reconnect, .. } = &mut transport.kind else { return };
    match sockopt::socket_error(&*socket) {
        Ok(Ok(())) => (),
        Ok(Err(errno)) | Err(errno) => return io.fail(id, CloseReason::System(errno)),
    }
    *reconnect = Reconnect::default();
    let local = sockets::local_address(&*socket).map(uri);
    transport.state = TransportState::Up;
    if let Ok(local) = local {
        transport.local = local;
    }
    io.set_timer(id, None);
    io.watch_transport(id, Interest::Read, false);
    io.events.push_back(Event::Up(id));
}

/// Connecting took too long, or it is time to connect again.
pub(crate) fn on_timer<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    let options = *io.options();
    let now_ns = io.now_ns();
    let Some(transport) = io.transport_mut(id) else { return };
    let Kind::Tcp { socket, peer, partial, .. } = &mut transport.kind else { return };
    if socket.is_some() {
        if transport.state != TransportState::Up {
            io.fail(id, CloseReason::ConnectTimeout);
        }
        return;
    }
    *partial = Partial::default();
    match start(peer, None) {
        Ok(connecting) => {
            *socket = Some(connecting);
            io.watch_transport(id, Interest::Write, true);
            io.set_timer(id, Some(now_ns.saturating_add(options.tcp.connect_timeout_ns)));
        }
        Err(_) => rest(io, id),
    }
}

/// A permanent transport lost its connection, or did not get one.
pub(crate) fn take_down<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    reason: CloseReason,
) {
    io.clear_queue(id, "down");
    let Some(transport) = io.transport_mut(id) else { return };
    let was_down = transport.state == TransportState::Down;
    transport.state = TransportState::Down;
    if let Kind::Tcp { socket, .. } = &mut transport.kind {
        *socket = None;
    }
    rest(io, id);
    if !was_down {
        io.events.push_back(Event::Down(id, reason));
    }
}

/// Waits before the next attempt.
fn rest<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    let options = *io.options();
    let now_ns = io.now_ns();
    let Some(transport) = io.transport_mut(id) else { return };
    let Kind::Tcp { reconnect, .. } = &mut transport.kind else { return };
    let wait_ns = reconnect.next_wait_ns(&options);
    io.set_timer(id, Some(now_ns.saturating_add(wait_ns)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit() {
        let options = IoOptions::default();
        let mut reconnect = Reconnect::default();
        let waits: Vec<u64> = (0..10).map(|_| reconnect.next_wait_ns(&options) / 1_000_000).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
    }
}
