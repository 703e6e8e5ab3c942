//! A socket of a face: what all kinds have in common.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use namely_link::DropCounters;
use namely_wire::face_uri::FaceUri;

use crate::options::Persistency;
use crate::queue::FrameQueue;
use crate::stream::Partial;
use crate::tcp::Reconnect;

/// A listener or transport of one event loop. An id is never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TransportId(pub(crate) u64);

impl TransportId {
    pub(crate) fn new(index: usize, generation: u32) -> Self {
        TransportId(u64::from(generation) << 32 | index as u64)
    }

    /// The place in the loop's table: small, and reused after the transport has gone.
    pub fn index(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Whether a transport can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportState {
    /// Connecting for the first time.
    Connecting,
    /// Frames pass.
    Up,
    /// A permanent transport without its peer.
    Down,
}

/// Who is at the other end of a Unix socket (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id at the time of connecting.
    pub pid: i32,
}

/// What a transport has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportCounters {
    /// Frames received.
    pub in_frames: u64,
    /// Octets of the frames received.
    pub in_octets: u64,
    /// Frames sent.
    pub out_frames: u64,
    /// Octets of the frames sent.
    pub out_octets: u64,
    /// Drops by reason.
    pub drops: DropCounters,
}

/// What can be seen of a transport.
#[derive(Clone, Debug)]
pub struct TransportStatus {
    /// The far end.
    pub remote: FaceUri,
    /// The near end.
    pub local: FaceUri,
    /// Whether it can send.
    pub state: TransportState,
    /// Persistency.
    pub persistency: Persistency,
    /// The peer's user, on Unix sockets.
    pub credentials: Option<Credentials>,
    /// Octets that wait to be sent.
    pub queue_octets: usize,
    /// When an idle on-demand transport is closed, ns of [`crate::clock`].
    pub expires_ns: Option<u64>,
    /// Inode of a datagram socket, by which [`crate::udp::kernel_drops`] knows it.
    pub socket_inode: Option<u64>,
    /// Counters.
    pub counters: TransportCounters,
}

#[derive(Debug)]
pub(crate) struct Transport<P> {
    pub(crate) kind: Kind,
    pub(crate) local: FaceUri,
    pub(crate) remote: FaceUri,
    pub(crate) state: TransportState,
    pub(crate) persistency: Persistency,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) queue: FrameQueue<P>,
    pub(crate) counters: TransportCounters,
    /// The socket took no more: the loop waits until it does.
    pub(crate) is_blocked: bool,
    /// Frames wait for the end of the turn.
    pub(crate) is_dirty: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Unix, and accepted TCP.
    Stream { socket: OwnedFd, partial: Partial },
    /// TCP that this end connected. No socket while waiting to connect again.
    Tcp { socket: Option<OwnedFd>, partial: Partial, peer: SocketAddr, reconnect: Reconnect },
    /// UDP to one peer.
    Udp { socket: OwnedFd, peer: SocketAddr, channel: Option<TransportId>, active_ns: u64 },
    /// UDP to a group.
    Multicast { receiver: OwnedFd, sender: OwnedFd, own: SocketAddr },
}

impl Kind {
    /// The socket that frames are written to.
    pub(crate) fn sender(&self) -> Option<&OwnedFd> {
        match self {
            Kind::Stream { socket, .. } | Kind::Udp { socket, .. } => Some(socket),
            Kind::Tcp { socket, .. } => socket.as_ref(),
            Kind::Multicast { sender, .. } => Some(sender),
        }
    }

    /// The inode of the socket that datagrams arrive on.
    pub(crate) fn datagram_inode(&self) -> Option<u64> {
        let socket = match self {
            Kind::Udp { socket, .. } => socket,
            Kind::Multicast { receiver, .. } => receiver,
            Kind::Stream { .. } | Kind::Tcp { .. } => return None,
        };
        rustix::fs::fstat(socket).ok().map(|stat| stat.st_ino)
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Kind::Stream { .. } | Kind::Tcp { .. })
    }
}

impl<P: AsRef<[u8]>> Transport<P> {
    pub(crate) fn new(kind: Kind, local: FaceUri, remote: FaceUri, persistency: Persistency) -> Self {
        Transport {
            kind,
            local,
            remote,
            state: TransportState::Up,
            persistency,
            credentials: None,
            queue: FrameQueue::new(),
            counters: TransportCounters::default(),
            is_blocked: false,
            is_dirty: false,
        }
    }
}
