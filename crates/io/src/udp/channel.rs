//! A UDP port on which peers make themselves known.
//!
//! A peer's first datagram makes a socket of its own, bound to the same port and connected to the peer: from then
//! on the kernel keeps peers' datagrams apart, and a flood from one does not fill the queue of another. Only this
//! process's user can share the port, and a second router is refused all the same.

use std::collections::HashMap;
use std::net::SocketAddr;

use namely_link::stream::packet_octets;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::{DATAGRAMS_PER_TURN_MAX, peer, uri};
use crate::error::OpenError;
use crate::event_loop::{Handler, dispatch};
use crate::mmsg;
use crate::options::Persistency;
use crate::sockets;
use crate::tcp::bind_error;
use crate::transport::TransportId;
use crate::transports::{Event, Listener, ListenerKind, Transports};

/// The peers that were met at a port. There are no more than transports.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    peers: HashMap<SocketAddr, TransportId>,
}

impl<P: AsRef<[u8]> + Clone> Transports<P> {
    /// Listens on an address: each peer gets an on-demand transport. Port 0 takes a free one, which
    /// [`Transports::listeners`] shows.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when the port is taken; otherwise what the system says.
    pub fn listen_udp(&mut self, address: SocketAddr) -> Result<TransportId, OpenError> {
        let uri_text = uri(address).to_string();
        let open = |is_shared: bool, address: SocketAddr| {
            let socket = sockets::open(sockets::family_of(&address), SocketType::DGRAM)?;
            if address.is_ipv6() {
                let _ = sockopt::set_ipv6_v6only(&socket, true);
            }
            if is_shared {
                sockopt::set_socket_reuseport(&socket, true)
                    .map_err(OpenError::system(format!("listening on {uri_text}")))?;
            }
            rustix::net::bind(&socket, &address).map_err(|errno| bind_error(&uri_text, errno))?;
            Ok(socket)
        };
        // The port will be shared between sockets of this process. So that nobody else already has it, it is first
        // taken without sharing.
        let probe = open(false, address)?;
        let address = sockets::local_address(&probe).unwrap_or(address);
        drop(probe);
        let socket = open(true, address)?;
        let options = self.options();
        let wanted = options.datagram_receive_buffer_octets;
        sockets::set_buffers(&socket, options.send_buffer_octets, wanted);
        mmsg::coalesce(&socket);
        // The kernel grants twice what is asked for, to cover its own overhead.
        if sockopt::socket_recv_buffer_size(&socket).is_ok_and(|granted| granted < wanted) {
            tracing::info!(
                "{uri_text}: bursts may be lost, as the system limits receive buffers: raise net.core.rmem_max"
            );
        }
        self.add_listener(Listener {
            kind: ListenerKind::Udp(Channel::default()),
            socket,
            local: uri(address),
            drops: Default::default(),
        })
    }
}

/// The channel whose address is `local`, or from which `peer` can be reached.
pub(crate) fn suitable<P: AsRef<[u8]> + Clone>(
    io: &Transports<P>,
    peer: &SocketAddr,
    local: Option<SocketAddr>,
) -> Option<(TransportId, SocketAddr)> {
    io.udp_channels().find(|(_, address)| match local {
        Some(local) => *address == local,
        None => {
            let (from, to) = (address.ip(), peer.ip());
            address.is_ipv4() == peer.is_ipv4()
                && (from.is_unspecified() || from.is_loopback() == to.is_loopback())
        }
    })
}

pub(crate) fn remember<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    channel: TransportId,
    peer: SocketAddr,
    id: TransportId,
) {
    if let Some(channel) = channel_mut(io, channel) {
        channel.peers.insert(peer, id);
    }
}

pub(crate) fn forget<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, channel: TransportId, peer: SocketAddr) {
    if let Some(channel) = channel_mut(io, channel) {
        channel.peers.remove(&peer);
    }
}

fn channel_mut<P: AsRef<[u8]> + Clone>(io: &mut Transports<P>, id: TransportId) -> Option<&mut Channel> {
    match io.listener_mut(id).map(|listener| &mut listener.kind) {
        Some(ListenerKind::Udp(channel)) => Some(channel),
        _ => None,
    }
}

/// Reads a turn's worth of datagrams of peers that have no socket of their own yet.
pub(crate) fn read_channel<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    scratch: &mut [u8],
    handler: &mut impl Handler<P>,
) {
    let mut count = 0;
    while count < DATAGRAMS_PER_TURN_MAX {
        let Some(listener) = io.listener_mut(id) else { return };
        match mmsg::receive(&listener.socket, scratch, true) {
            Ok(received) => {
                for (range, from) in received.datagrams() {
                    count += 1;
                    if let Some(peer) = from {
                        take(io, id, peer, &scratch[range], handler);
                    }
                }
                if received.is_last() {
                    return;
                }
            }
            Err(Errno::AGAIN) => return,
            Err(_) => count += 1,
        }
    }
}

/// Hands a datagram to its peer's transport.
fn take<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    peer: SocketAddr,
    datagram: &[u8],
    handler: &mut impl Handler<P>,
) {
    let Some(transport) = transport_of(io, id, peer, datagram) else { return };
    dispatch(io, handler);
    if let Some(transport) = io.transport_mut(transport) {
        transport.counters.in_frames += 1;
        transport.counters.in_octets += datagram.len() as u64;
    }
    if io.contains(transport) {
        handler.frame(io, transport, None, datagram);
    }
}

/// The transport of a peer; a new one if the datagram is a packet, so that noise makes none.
fn transport_of<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    peer: SocketAddr,
    datagram: &[u8],
) -> Option<TransportId> {
    if let Some(known) = channel_mut(io, id).and_then(|channel| channel.peers.get(&peer).copied()) {
        return Some(known);
    }
    let is_packet = packet_octets(datagram) == Ok(Some(datagram.len()));
    let opened = if is_packet { open_on_demand(io, id, peer) } else { Err("not_a_packet") };
    match opened {
        Ok(transport) => {
            io.events.push_back(Event::Accepted { listener: id, transport });
            Some(transport)
        }
        Err(label) => {
            if let Some(listener) = io.listener_mut(id) {
                listener.drops.count(label);
            }
            None
        }
    }
}

fn open_on_demand<P: AsRef<[u8]> + Clone>(
    io: &mut Transports<P>,
    id: TransportId,
    peer: SocketAddr,
) -> Result<TransportId, &'static str> {
    if !io.has_room() {
        return Err("too_many_transports");
    }
    let options = *io.options();
    let local = io.listener_mut(id).and_then(|listener| listener.local.address());
    let socket = peer::connect(&peer, local, true, &options).map_err(|_| "accept_failed")?;
    peer::open(io, socket, peer, Some(id), Persistency::OnDemand).map_err(|_| "accept_failed")
}
