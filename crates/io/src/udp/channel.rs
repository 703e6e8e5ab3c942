//! A channel, which is a UDP port that accepts peers.
//!
//! When a peer's first datagram arrives, the channel opens a socket for that peer, bound to the
//! same port and connected to the peer. From then on the kernel separates the peers' datagrams, and
//! a flood from one peer does not fill the queue of another. The kernel lets only processes of one
//! user share a port. A second router of the same user fails to bind it, too.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::Subnet;
use namely_host::shares::Owner;
use namely_link::stream::packet_octets;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::datagrams;
use super::identity::uri;
use super::peer::{self, PeerLink};
use super::peers::Peers;
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor};
use crate::labels::listener;
use crate::sockets;
use crate::tcp::bind_error;

impl<H: Handler> Faces<H> {
    /// Listens on an address. Each peer receives an on-demand face. With port 0 the system chooses
    /// a free port, which the result and [`Faces::listeners`] report.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if the port is in use, otherwise the system's error.
    pub fn listen_udp(&mut self, address: SocketAddr) -> Result<FaceUri, OpenError> {
        self.listen_udp_from(address, Arc::default())
    }

    /// Listens for peers of some networks, or of all networks if the list is empty. Datagrams from
    /// other networks are dropped.
    ///
    /// # Errors
    /// The errors of [`Faces::listen_udp`].
    pub fn listen_udp_from(
        &mut self,
        address: SocketAddr,
        networks: Arc<[Subnet]>,
    ) -> Result<FaceUri, OpenError> {
        let (socket, address) = bind(address)?;
        let uri_text = uri(address).to_string();
        let options = self.options();
        let wanted = options.datagram_receive_buffer_octets;
        sockets::set_buffers(&socket, options.send_buffer_octets, wanted);
        mmsg::coalesce(&socket);
        // The kernel grants twice the requested size, to cover its own overhead.
        if sockopt::socket_recv_buffer_size(&socket).is_ok_and(|granted| granted < wanted) {
            tracing::info!(
                "{uri_text}: bursts may be lost, as the system limits receive buffers: raise net.core.rmem_max"
            );
        }
        let peers = Arc::<Peers<H::Packet>>::default();
        self.shared.channels.add(address, &peers);
        self.add_listener(Box::new(Channel { socket, address, networks, peers }), uri(address))
    }
}

/// Binds a socket that this process may share with its peers' sockets. Returns it with its address.
///
/// Sharing is permitted after the socket is bound: `bind` then fails if another process uses the
/// port, and the port has an owner from the first moment on.
fn bind(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), OpenError> {
    let uri_text = uri(address).to_string();
    let socket = sockets::open(sockets::family_of(&address), SocketType::DGRAM)?;
    if address.is_ipv6() {
        // A channel for IPv4 may use the same port.
        let _ = sockopt::set_ipv6_v6only(&socket, true);
    }
    rustix::net::bind(&socket, &address).map_err(|errno| bind_error(&uri_text, errno))?;
    sockopt::set_socket_reuseport(&socket, true)
        .map_err(OpenError::system(format!("listening on {uri_text}")))?;
    let address = sockets::local_address(&socket).unwrap_or(address);
    Ok((socket, address))
}

struct Channel<P> {
    socket: OwnedFd,
    address: SocketAddr,
    /// The networks of permitted peers. If the list is empty, all peers are permitted.
    networks: Arc<[Subnet]>,
    peers: Arc<Peers<P>>,
}

impl<H: Handler> Acceptor<H> for Channel<H::Packet> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads the datagrams of one turn, from peers that have no socket yet.
    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, scratch: &mut [u8]) {
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(&self.socket, datagrams::room(scratch), true) {
                Ok(received) => {
                    for (range, from) in received.datagrams() {
                        count += 1;
                        if let Some(peer) = from {
                            self.take(turn, peer, &scratch[range]);
                        }
                    }
                    if received.is_last() || turn.is_over() {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                // Counted, so that repeated errors end the turn.
                Err(_) => count += 1,
            }
        }
    }
}

impl<P: Buffer> Channel<P> {
    /// Delivers a datagram to its peer's transport. Makes a new transport only if the datagram is a
    /// packet, so that noise makes none.
    fn take<H: Handler<Packet = P>>(
        &self,
        turn: &mut AcceptContext<'_, H>,
        peer: SocketAddr,
        datagram: &[u8],
    ) {
        // Datagrams that arrived before the peer's own socket was connected are in this socket.
        if let Some(port) = self.peers.get(&peer) {
            return turn.deliver(&port, datagram);
        }
        if !self.networks.is_empty() && !self.networks.iter().any(|network| network.contains(peer.ip())) {
            return turn.count(listener::FOREIGN_NETWORK);
        }
        if packet_octets(datagram) != Ok(Some(datagram.len())) {
            return turn.count(listener::NOT_A_PACKET);
        }
        let Some(admission) = turn.admit(Owner::address(peer.ip())) else { return };
        let Ok(unproven) = turn.unproven(Owner::address(peer.ip())) else {
            return turn.count(listener::ACCEPT_FAILED);
        };
        let options = *turn.options();
        let opened = peer::connect(&peer, Some(self.address), true, &options).and_then(|socket| {
            let link = PeerLink { peer, bound: Some(self.address), peers: Some(self.peers.clone()) };
            peer::transport(socket, link, FacePersistency::OnDemand, &options)
        });
        match opened {
            Ok(new) => turn.adopt(new, admission, Some(datagram), |port| {
                if let Some(unproven) = unproven {
                    port.must_prove(unproven);
                }
                self.peers.insert(peer, port);
            }),
            Err(_) => turn.count(listener::ACCEPT_FAILED),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_chosen_port_has_one_owner() {
        let (_channel, address) = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        assert_ne!(address.port(), 0);
        assert_eq!(bind(address).unwrap_err(), OpenError::InUse(uri(address).to_string()));
        // A peer's socket shares the port.
        let peer = sockets::open(sockets::family_of(&address), SocketType::DGRAM).unwrap();
        sockopt::set_socket_reuseport(&peer, true).unwrap();
        rustix::net::bind(&peer, &address).unwrap();
        assert!(bind(address).is_err());
    }
}
