//! A UDP face to one peer, on a connected socket.

use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_datagrams::mmsg;
use namely_datagrams::udp::{self, UdpSender};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketType, sockopt};

use super::datagrams;
use super::identity::{inode, uri};
use super::peers::Peers;
use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler};
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::labels::sent;
use crate::options::IoOptions;
use crate::port::FaceSender;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets;
use crate::status::{Carrier, FaceState, LinkInfo, RemoteKind};

impl<H: Handler> Faces<H> {
    /// Opens a face to one peer. It sends from `local` if that is given, else from the address of a
    /// channel from which the peer can be reached, and else from a free port.
    ///
    /// # Errors
    /// [`OpenError::TooManyFaces`], [`OpenError::BadAddress`], or the system's error.
    pub fn open_udp(
        &mut self,
        peer: SocketAddr,
        local: Option<SocketAddr>,
        persistency: FacePersistency,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        if local.is_some_and(|local| local.is_ipv4() != peer.is_ipv4()) {
            return Err(OpenError::BadAddress("the two addresses are not of one IP version".into()));
        }
        let channel = self.shared.channels.find(|address| suits(address, &peer, local));
        let local = local.or(channel.as_ref().map(|(address, _)| *address));
        let socket = connect(&peer, local, channel.is_some(), self.options())?;
        let peers = channel.map(|(_, peers)| peers);
        let new = transport(socket, peer, peers.clone(), persistency, self.options())?;
        let port = self.add_transport(new)?;
        if let Some(peers) = peers {
            peers.insert(peer, &port);
        }
        Ok(port)
    }
}

/// Returns true if a channel's address is `local`, or `peer` can be reached from it.
fn suits(channel: &SocketAddr, peer: &SocketAddr, local: Option<SocketAddr>) -> bool {
    match local {
        Some(local) => *channel == local,
        None => {
            let (from, to) = (channel.ip(), peer.ip());
            channel.is_ipv4() == peer.is_ipv4()
                && (from.is_unspecified() || from.is_loopback() == to.is_loopback())
        }
    }
}

/// Makes a transport of a connected socket.
pub(crate) fn transport<H: Handler>(
    socket: OwnedFd,
    peer: SocketAddr,
    peers: Option<Arc<Peers<H::Packet>>>,
    persistency: FacePersistency,
    options: &IoOptions,
) -> Result<NewTransport<H>, OpenError> {
    let local = sockets::local_address(&socket).map_err(OpenError::system("reading a socket's address"))?;
    let info = LinkInfo {
        remote: uri(peer),
        // A peer on this machine is a neighbor too, because a source address may be forged.
        reach: RemoteKind::Neighbour,
        holder: Owner::address(peer.ip()),
        carrier: Carrier::Datagrams,
        mtu: None,
        path_octets: udp::path_octets(&socket),
        credentials: None,
        socket_inode: inode(&socket),
        idle_ns: Some(options.udp.into()),
        can_stall: false,
        refuses: |_| None,
    };
    let socket = Arc::new(socket);
    let sender = Box::new(DatagramSender::to_peer(socket.clone()));
    let receiver = Box::new(PeerReceiver { socket, peer, peers });
    Ok(NewTransport { receiver, sender, info, local: uri(local), persistency, state: FaceState::Up })
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
    udp::discover_path(&socket);
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

/// Sends datagrams to a peer without a face, from `local`, an address on which this process
/// listens. After the first datagram, those that the system refuses are lost.
///
/// # Errors
/// Environment: the system refused the socket or the first datagram.
pub fn send_beside(local: SocketAddr, peer: SocketAddr, datagrams: &[Vec<u8>]) -> Result<(), OpenError> {
    // The socket is connected to this peer, so it receives no other peer's datagrams while it
    // lives.
    let socket = connect(&peer, Some(local), true, &IoOptions::default())?;
    for (index, datagram) in datagrams.iter().enumerate() {
        match rustix::net::send(&socket, datagram, SendFlags::DONTWAIT) {
            Err(errno) if index == 0 => return Err(OpenError::system(format!("sending to {peer}"))(errno)),
            // Later datagrams may get lost, as any datagram may.
            _ => {}
        }
    }
    Ok(())
}

/// The receiving half of a transport to one peer.
struct PeerReceiver<P> {
    socket: Arc<OwnedFd>,
    peer: SocketAddr,
    /// The peers of the channel to which this peer belongs, if any.
    peers: Option<Arc<Peers<P>>>,
}

impl<H: Handler> Receiver<H> for PeerReceiver<H::Packet> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(&*self.socket, datagrams::room(scratch), false) {
                Ok(received) => {
                    for (range, _) in received.datagrams() {
                        count += 1;
                        if !turn.deliver(None, &scratch[range]) {
                            return Ok(());
                        }
                    }
                    // If datagrams are left in the socket, the next turn reads them without another
                    // poll.
                    turn.has_more = !received.is_last();
                    if received.is_last() || turn.is_over() {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => {
                    turn.has_more = false;
                    return Ok(());
                }
                Err(Errno::INTR) => (),
                // A router on the path reported that a datagram was too long for the next link.
                Err(Errno::MSGSIZE) => {
                    count += 1;
                    if let Some(octets) = udp::path_octets(&*self.socket) {
                        turn.port.follow_path(octets);
                    }
                }
                Err(errno) => {
                    turn.count(sent::REFUSED);
                    count += 1;
                    // The peer has closed its port. If it comes back, it receives a new transport.
                    if turn.port.persistency() == FacePersistency::OnDemand {
                        return Err(CloseReason::System(errno));
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends an on-demand transport that was idle for its timeout.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        turn.end_if_idle()
    }
}

impl<P> Drop for PeerReceiver<P> {
    fn drop(&mut self) {
        if let Some(peers) = &self.peers {
            // The next datagram of the peer then makes a new face.
            peers.remove(&self.peer);
        }
    }
}

/// The sending half of a socket for datagrams.
pub(super) struct DatagramSender {
    socket: Arc<OwnedFd>,
    sender: UdpSender,
    /// Whether it sends to one peer, and the MTU of the path to the peer is tracked.
    has_path: bool,
}

impl DatagramSender {
    pub(super) fn to_group(socket: Arc<OwnedFd>) -> Self {
        DatagramSender { socket, sender: UdpSender::default(), has_path: false }
    }

    pub(super) fn to_peer(socket: Arc<OwnedFd>) -> Self {
        DatagramSender { has_path: true, ..Self::to_group(socket) }
    }
}

impl<P: AsRef<[u8]>> Sender<P> for DatagramSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        let flushed = datagrams::flush(&self.socket, queue, &mut self.sender, sent);
        if self.has_path {
            // After sending, because a failed call may have reported another MTU of the path.
            sent.path_octets = self.sender.path_change(&self.socket);
        }
        flushed
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}
