//! UDP to one peer, over a connected socket.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::{DATAGRAMS_PER_TURN_MAX, channel, uri};
use crate::error::{CloseReason, OpenError};
use crate::event_loop::Handler;
use crate::mmsg;
use crate::options::{IoOptions, Persistency};
use crate::sockets;
use crate::transport::{Kind, Transport, TransportId};
use crate::transports::Transports;

impl<P: AsRef<[u8]> + Clone> Transports<P> {
    /// Opens a transport to one peer. It sends from `local`, or else from the address of a channel from which the
    /// peer can be reached, or else from a free port.
    ///
    /// # Errors
    /// [`OpenError::TooManyTransports`], [`OpenError::BadAddress`], or what the system says.
    pub fn open_udp(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        persistency: Persistency,
    ) -> Result<TransportId, OpenError> {
        if local.is_some_and(|local| local.is_ipv4() != peer.is_ipv4()) {
            return Err(OpenError::BadAddress("the two addresses are not of one IP version".into()));
        }
        let channel = channel::suitable(self, &peer, local);
        let local = local.or(channel.map(|(_, address)| address));
        let socket = connect(&peer, local, channel.is_some(), self.options())?;
        open(self, socket, peer, channel.map(|(id, _)| id), persistency)
    }
}

/// Makes a transport of a connected socket.
pub(crate) fn open<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    socket: OwnedFd,
    peer: SocketAddr,
    channel: Option<TransportId>,
    persistency: Persistency,
) -> Result<TransportId, OpenError> {
    let local = sockets::local_address(&socket).map_err(OpenError::system("reading a socket's address"))?;
    let kind = Kind::Udp { socket, peer, channel, active_ns: io.now_ns() };
    let id = io.add_transport(Transport::new(kind, uri(local), uri(peer), persistency))?;
    if let Some(channel) = channel {
        channel::remember(io, channel, peer, id);
    }
    if persistency == Persistency::OnDemand {
        let due_ns = io.now_ns().saturating_add(io.options().udp.idle_ns);
        io.set_timer(id, Some(due_ns));
    }
    Ok(id)
}

/// Opens a socket that exchanges datagrams with `peer` only.
pub(crate) fn connect(
    peer: &SocketAddr,
    local: Option<SocketAddr>,
    is_shared: bool,
    options: &IoOptions,
) -> Result<OwnedFd, OpenError> {
    let doing = || format!("opening a UDP socket to {peer}");
    let socket = sockets::open(sockets::family_of(peer), SocketType::DGRAM)?;
    sockets::set_buffers(&socket, options.send_buffer_octets, options.datagram_receive_buffer_octets);
    mmsg::coalesce(&socket);
    if is_shared {
        sockopt::set_socket_reuseport(&socket, true).map_err(OpenError::system(doing()))?;
    }
    if let Some(local) = local {
        if local.is_ipv6() {
            let _ = sockopt::set_ipv6_v6only(&socket, true);
        }
        rustix::net::bind(&socket, &local).map_err(OpenError::system(doing()))?;
    }
    rustix::net::connect(&socket, peer).map_err(OpenError::system(doing()))?;
    Ok(socket)
}

/// Reads a turn's worth of datagrams.
pub(crate) fn read<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    scratch: &mut [u8],
    handler: &mut impl Handler<P>,
) {
    let now_ns = io.now_ns();
    let mut count = 0;
    while count < DATAGRAMS_PER_TURN_MAX {
        let Some(transport) = io.transport_mut(id) else { return };
        let Kind::Udp { socket, active_ns, .. } = &mut transport.kind else { return };
        match mmsg::receive(&*socket, scratch, false) {
            Ok(received) => {
                *active_ns = now_ns;
                for (range, _) in received.datagrams() {
                    let Some(transport) = io.transport_mut(id) else { return };
                    transport.counters.in_frames += 1;
                    transport.counters.in_octets += range.len() as u64;
                    handler.frame(io, id, None, &scratch[range]);
                    count += 1;
                }
                if received.is_last() {
                    return;
                }
            }
            Err(Errno::AGAIN) => return,
            Err(Errno::INTR) => (),
            Err(errno) => {
                transport.counters.drops.count("refused");
                count += 1;
                // Nobody is there any more. A peer that comes back gets a new transport.
                if transport.persistency == Persistency::OnDemand {
                    io.fail(id, CloseReason::System(errno));
                }
            }
        }
    }
}

/// Closes an on-demand transport that was idle for long.
pub(crate) fn on_timer<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) {
    let (now_ns, idle_ns) = (io.now_ns(), io.options().udp.idle_ns);
    let Some(transport) = io.transport_mut(id) else { return };
    let Kind::Udp { active_ns, .. } = &transport.kind else { return };
    if transport.persistency != Persistency::OnDemand {
        return;
    }
    let due_ns = active_ns.saturating_add(idle_ns);
    if due_ns <= now_ns {
        io.fail(id, CloseReason::Idle);
    } else {
        io.set_timer(id, Some(due_ns));
    }
}
