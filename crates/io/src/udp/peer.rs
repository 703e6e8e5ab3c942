//! A UDP face to one peer, on a connected socket.

use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use std::net::{IpAddr, SocketAddr};
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
use crate::interfaces;
use crate::kind::{NewTransport, ReadContext, Receiver};
use crate::labels::sent;
use crate::options::IoOptions;
use crate::port::FaceSender;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets::{self, Interest};
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
        let link = PeerLink { peer, bound: local, peers: peers.clone() };
        let new = transport(socket, link, persistency, self.options())?;
        let port = self.add_transport(new)?;
        if let Some(peers) = peers {
            peers.insert(peer, &port);
        }
        if persistency != FacePersistency::OnDemand {
            self.set_face_timer(&port, self.now_ns().saturating_add(self.options().udp.silence_ns));
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

/// The ends of a transport, with which its socket is opened again.
pub(super) struct PeerLink<P> {
    pub(super) peer: SocketAddr,
    /// The address to bind, if it is not up to the system.
    pub(super) bound: Option<SocketAddr>,
    /// The peers of the channel to which this peer belongs, if any. Its sockets share a port.
    pub(super) peers: Option<Arc<Peers<P>>>,
}

/// Makes a transport of a connected socket.
pub(super) fn transport<H: Handler>(
    socket: OwnedFd,
    link: PeerLink<H::Packet>,
    persistency: FacePersistency,
    options: &IoOptions,
) -> Result<NewTransport<H>, OpenError> {
    let peer = link.peer;
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
    // A face that a peer made is closed when it is idle, and the peer makes another one.
    let scope = scope_of(&peer).filter(|_| persistency != FacePersistency::OnDemand);
    let device = scope.and_then(interfaces::name_of);
    let (peer_now, socket) = (peer, Some(socket));
    let receiver = Box::new(PeerReceiver { socket, link, peer_now, device, answers: 0 });
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

/// Time after which a face that went down tries again, ns. Its former socket has released the port
/// by then.
const REOPEN_NS: u64 = 1_000_000_000;

/// Returns the address, and the interface if it is link-local, from which the system would send to
/// `peer` now. `bound` is the address that the face binds, if any. A socket with another port
/// determines it, so the port of the face receives nothing that would be lost.
fn source_towards(peer: &SocketAddr, bound: Option<SocketAddr>) -> Result<(IpAddr, Option<u32>), OpenError> {
    let doing = || format!("choosing an address towards {peer}");
    let probe = sockets::open(sockets::family_of(peer), SocketType::DGRAM)?;
    if let Some(mut address) = bound.filter(|bound| !bound.ip().is_unspecified()) {
        address.set_port(0);
        rustix::net::bind(&probe, &address).map_err(OpenError::system(doing()))?;
    }
    rustix::net::connect(&probe, peer).map_err(OpenError::system(doing()))?;
    sockets::local_address(&probe).map(|local| source_of(&local)).map_err(OpenError::system(doing()))
}

fn source_of(local: &SocketAddr) -> (IpAddr, Option<u32>) {
    (local.ip(), scope_of(local))
}

/// Returns true for the failures to reach a peer that come from this machine's addresses and
/// routes. Others, such as a lack of descriptors, prove nothing about the present socket.
fn is_unreachable(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ADDRNOTAVAIL | Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::NODEV
    )
}

/// Returns the number of the interface of an address, which a link-local address has.
fn scope_of(peer: &SocketAddr) -> Option<u32> {
    match peer {
        SocketAddr::V6(peer) => Some(peer.scope_id()).filter(|scope| *scope != 0),
        SocketAddr::V4(_) => None,
    }
}

/// The receiving half of a transport to one peer.
struct PeerReceiver<P> {
    /// `None` while no address of this machine reaches the peer.
    socket: Option<Arc<OwnedFd>>,
    link: PeerLink<P>,
    /// The peer's address with the present number of its interface.
    peer_now: SocketAddr,
    /// The name of the interface of a link-local address, whose number changes when the device is
    /// removed and added again.
    device: Option<String>,
    /// The value of [`FaceSender::answers`] at the last check.
    answers: u64,
}

impl<P: AsRef<[u8]> + Clone> PeerReceiver<P> {
    /// Opens another socket if the present one sends from an address that the system would not
    /// choose now: the address of a connected socket does not follow a change of this machine's
    /// addresses. A face that a peer made ends instead, when it is idle.
    fn follow_addresses<H: Handler<Packet = P>>(
        &mut self,
        turn: &mut ReadContext<'_, H>,
    ) -> Result<(), CloseReason> {
        if turn.port.persistency() == FacePersistency::OnDemand {
            return Ok(());
        }
        if let (SocketAddr::V6(peer), Some(device)) = (&mut self.peer_now, &self.device)
            && let Some(index) = interfaces::index_of(device)
        {
            peer.set_scope_id(index);
        }
        // Only a permanent face may be down, and it goes down once.
        let may_go_down = turn.port.persistency() == FacePersistency::Permanent && self.socket.is_some();
        let source = match source_towards(&self.peer_now, self.link.bound) {
            Ok(source) => source,
            Err(OpenError::System { errno, .. }) if may_go_down && is_unreachable(errno) => {
                return Err(CloseReason::System(errno));
            }
            Err(_) => return Ok(()),
        };
        let local = self.socket.as_ref().and_then(|socket| sockets::local_address(socket).ok());
        if local.map(|local| source_of(&local)) == Some(source) {
            return Ok(());
        }
        let is_shared = self.link.peers.is_some();
        match connect(&self.peer_now, self.link.bound, is_shared, turn.options()) {
            Ok(socket) => {
                self.replace(socket, turn);
                Ok(())
            }
            // The present socket has the port that the face binds. It is closed first.
            Err(OpenError::System { errno: Errno::ADDRINUSE, .. }) if may_go_down => {
                Err(CloseReason::System(Errno::ADDRNOTAVAIL))
            }
            Err(_) => Ok(()),
        }
    }

    /// Continues on another socket.
    fn replace<H: Handler<Packet = P>>(&mut self, socket: OwnedFd, turn: &mut ReadContext<'_, H>) {
        if let Ok(local) = sockets::local_address(&socket) {
            tracing::info!(remote = %turn.port.remote(), "the face sends from {} now", local.ip());
            turn.port.set_local(uri(local));
        }
        if let Some(inode) = inode(&socket) {
            turn.port.set_socket_inode(inode);
        }
        if let Some(octets) = udp::path_octets(&socket) {
            turn.port.follow_path(octets);
        }
        let socket = Arc::new(socket);
        turn.watch(&socket, Interest::Read);
        let sender = Box::new(DatagramSender::to_peer(socket.clone()));
        // The last reference to the former socket closes it, and ends its watch.
        self.socket = Some(socket);
        turn.bring_up(sender);
    }
}

impl<H: Handler> Receiver<H> for PeerReceiver<H::Packet> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let mut count = 0;
        while count < turn.options().read_datagrams_per_turn {
            match mmsg::receive(&**socket, datagrams::room(scratch), false) {
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
                    if let Some(octets) = udp::path_octets(&**socket) {
                        turn.port.follow_path(octets);
                    }
                }
                Err(errno) => {
                    turn.count(sent::REFUSED);
                    turn.port.count_failure();
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

    /// Ends an on-demand transport that was idle for its timeout. Checks the address of another one
    /// that receives nothing although it sends, or that is down.
    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        if turn.port.persistency() == FacePersistency::OnDemand {
            return turn.end_if_idle();
        }
        let silence_ns = turn.options().udp.silence_ns;
        turn.set_timer(Some(turn.now_ns().saturating_add(silence_ns)));
        let answers = turn.port.answers();
        let has_sent = answers != std::mem::replace(&mut self.answers, answers);
        let is_silent = turn.now_ns().saturating_sub(turn.port.active_ns()) >= silence_ns;
        if self.socket.is_none() || (has_sent && is_silent) { self.follow_addresses(turn) } else { Ok(()) }
    }

    fn addresses_changed(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        self.follow_addresses(turn)
    }

    /// No address of this machine reaches the peer. The next change of addresses may bring one.
    fn take_down(&mut self, turn: &mut ReadContext<'_, H>) -> bool {
        self.socket = None;
        turn.set_timer(Some(turn.now_ns().saturating_add(REOPEN_NS)));
        true
    }
}

impl<P> Drop for PeerReceiver<P> {
    fn drop(&mut self) {
        if let Some(peers) = &self.link.peers {
            // The next datagram of the peer then makes a new face.
            peers.remove(&self.link.peer);
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
