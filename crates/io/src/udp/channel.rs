//! A UDP port on which peers make themselves known.
//!
//! A peer's first datagram makes a socket of its own, bound to the same port and connected to the
//! peer: from then on the kernel keeps peers' datagrams apart, and a flood from one does not fill
//! the queue of another. Only this process's user can share the port, and a second router is
//! refused all the same.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_host::Subnet;
use namely_host::shares::Holder;
use namely_link::stream::packet_octets;
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;
use rustix::net::{SocketType, sockopt};

use super::datagrams;
use super::identity::uri;
use super::peer;
use super::peers::Peers;
use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::faces::{Faces, Handler};
use crate::kind::{AcceptContext, Acceptor};
use crate::sockets;
use crate::tcp::bind_error;

impl<H: Handler> Faces<H> {
    /// Listens on an address: each peer gets an on-demand face. Port 0 takes a free one, which
    /// [`Faces::listeners`] shows.
    ///
    /// # Errors
    /// [`OpenError::InUse`] when the port is taken; otherwise what the system says.
    pub fn listen_udp(&mut self, address: SocketAddr) -> Result<FaceUri, OpenError> {
        self.listen_udp_from(address, Arc::default())
    }

    /// The same for peers of some networks; of all where there are none. What others send is
    /// dropped.
    ///
    /// # Errors
    /// As [`Faces::listen_udp`]'s.
    pub fn listen_udp_from(
        &mut self,
        address: SocketAddr,
        networks: Arc<[Subnet]>,
    ) -> Result<FaceUri, OpenError> {
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
        // The port will be shared between sockets of this process. So that nobody else already has
        // it, it is first taken without sharing.
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
        let peers = Arc::<Peers<H::Packet>>::default();
        self.shared.channels.add(address, &peers);
        self.add_listener(Box::new(Channel { socket, address, networks, peers }), uri(address))
    }
}

struct Channel<P> {
    socket: OwnedFd,
    address: SocketAddr,
    /// Where peers may be; anywhere if there are none.
    networks: Arc<[Subnet]>,
    peers: Arc<Peers<P>>,
}

impl<H: Handler> Acceptor<H> for Channel<H::Packet> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads a turn's worth of datagrams of peers that have no socket of their own yet.
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
                Err(_) => count += 1,
            }
        }
    }
}

impl<P: Buffer> Channel<P> {
    /// Hands a datagram to its peer's transport; a new one if the datagram is a packet, so that
    /// noise makes none.
    fn take<H: Handler<Packet = P>>(
        &self,
        turn: &mut AcceptContext<'_, H>,
        peer: SocketAddr,
        datagram: &[u8],
    ) {
        if let Some(port) = self.peers.get(&peer) {
            return turn.deliver(&port, datagram);
        }
        if !self.networks.is_empty() && !self.networks.iter().any(|network| network.contains(peer.ip())) {
            return turn.count("foreign_network");
        }
        if packet_octets(datagram) != Ok(Some(datagram.len())) {
            return turn.count("not_a_packet");
        }
        let Some(admission) = turn.admit(Holder::address(peer.ip())) else { return };
        let Ok(unproven) = turn.unproven(Holder::address(peer.ip())) else {
            return turn.count("accept_failed");
        };
        let options = *turn.options();
        let opened = peer::connect(&peer, Some(self.address), true, &options).and_then(|socket| {
            let peers = Some(self.peers.clone());
            peer::transport(socket, peer, peers, FacePersistency::OnDemand, &options)
        });
        match opened {
            Ok(new) => turn.adopt(new, admission, Some(datagram), |port| {
                if let Some(unproven) = unproven {
                    port.must_prove(unproven);
                }
                self.peers.insert(peer, port);
            }),
            Err(_) => turn.count("accept_failed"),
        }
    }
}
