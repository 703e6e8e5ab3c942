//! What can be said of a transport, whatever its kind.

use namely_link::DropCounters;
use namely_wire::face_uri::FaceUri;

use crate::options::Persistency;
use crate::port::TransportState;

/// A listener or transport: the worker that reads it, and its place there. An id is never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TransportId(pub(crate) u64);

impl TransportId {
    /// Places of one worker.
    const INDEX_BITS: u32 = 24;

    pub(crate) fn new(worker: usize, index: usize, generation: u32) -> Self {
        let worker = (worker as u64) << 56;
        TransportId(worker | u64::from(generation) << Self::INDEX_BITS | index as u64)
    }

    /// The place in the worker's table: small, and reused after the transport has gone.
    pub fn index(self) -> usize {
        (self.0 & ((1 << Self::INDEX_BITS) - 1)) as usize
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> Self::INDEX_BITS) as u32
    }

    /// The number of the worker that reads it.
    pub fn worker(self) -> usize {
        (self.0 >> 56) as usize
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// An application on this machine.
    Local,
    /// One neighbour.
    Neighbour,
    /// Several neighbours, who hear each other.
    Group,
}

/// What carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A reliable sequence of frames of any size.
    Stream,
    /// Datagrams, which may be lost and must not be longer than the link's MTU.
    Datagrams,
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
    /// Drops by reason, those of the link service among them.
    pub drops: DropCounters,
}

/// What can be seen of a transport.
#[derive(Clone, Debug)]
pub struct TransportStatus {
    /// The far end.
    pub remote: FaceUri,
    /// The near end.
    pub local: FaceUri,
    /// Who is at the far end.
    pub reach: Reach,
    /// What carries its frames.
    pub carrier: Carrier,
    /// The longest frame that the link carries, octets; none where only the configuration can tell.
    pub mtu: Option<usize>,
    /// The longest frame that reaches the peer in one piece, octets, where the system knows the path to it; longer ones
    /// are cut and put together by the network.
    pub path_mtu: Option<usize>,
    /// The longest frame that is sent at present, octets: less than the settings of the link service say where probes found that
    /// the path carries less. None on a stream.
    pub frame_octets_max: Option<usize>,
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
