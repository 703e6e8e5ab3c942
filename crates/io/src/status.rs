//! What can be said of a face, whatever its kind.

use std::net::SocketAddr;

use crate::drops::DropCounters;
use namely_host::shares::Holder;
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;

use crate::options::UdpOptions;

/// Who sent a frame, on a link with several peers.
pub(crate) type Remote = Option<SocketAddr>;

/// What a face is known by outside: a number that this crate never looks at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FaceTag(pub u64);

/// Whether a face can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceState {
    /// Connecting for the first time.
    Connecting,
    /// Frames pass.
    Up,
    /// A permanent face without its peer.
    Down,
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
    /// Process id at the time of connecting; 0 of a process in another PID namespace.
    pub pid: i32,
}

/// What a face has carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
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

/// What can be seen of a face.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// The far end.
    pub remote: FaceUri,
    /// The near end.
    pub local: FaceUri,
    /// Who is at the far end.
    pub reach: Reach,
    /// What carries its frames.
    pub carrier: Carrier,
    /// The longest frame that the link carries, octets; `None` where only the
    /// configuration can tell.
    pub mtu: Option<usize>,
    /// The longest frame that reaches the peer in one piece, octets, where the system knows the
    /// path to it; longer ones are cut and put together by the network.
    pub path_mtu: Option<usize>,
    /// The longest frame that is sent at present, octets: less than the settings of the link
    /// service say where probes found that the path carries less. `None` on a stream.
    pub frame_octets_max: Option<usize>,
    /// Whether it can send.
    pub state: FaceState,
    /// FacePersistency.
    pub persistency: FacePersistency,
    /// The peer's user, on Unix sockets.
    pub credentials: Option<Credentials>,
    /// Octets that wait to be sent.
    pub queue_octets: usize,
    /// When an idle on-demand face is closed, ns of [`namely_host::clock`].
    pub expires_ns: Option<u64>,
    /// Inode of a datagram socket, by which [`crate::udp::kernel_drops`] knows it.
    pub socket_inode: Option<u64>,
    /// Counters.
    pub counters: PortCounters,
}

/// When an on-demand face without a connection goes, ns after something arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleTimes {
    pub(crate) answered_ns: u64,
    /// Where one frame came and nothing was sent.
    pub(crate) unanswered_ns: u64,
}

impl From<UdpOptions> for IdleTimes {
    fn from(options: UdpOptions) -> Self {
        let answered_ns = options.idle_ns;
        IdleTimes { answered_ns, unanswered_ns: options.unanswered_idle_ns.min(answered_ns) }
    }
}

/// What is known of a face's link and does not change.
#[derive(Clone, Debug)]
pub(crate) struct LinkInfo {
    /// The far end.
    pub(crate) remote: FaceUri,
    /// Who is there.
    pub(crate) reach: Reach,
    /// Who the face is counted for.
    pub(crate) holder: Holder,
    /// What carries its frames.
    pub(crate) carrier: Carrier,
    /// The longest frame that the link carried when it was opened, octets; `None` where only the
    /// configuration can tell.
    pub(crate) mtu: Option<usize>,
    /// The longest frame that reached the peer in one piece then, octets; `None` where there is no
    /// telling.
    pub(crate) path_octets: Option<usize>,
    /// The peer's user, where the system tells it.
    pub(crate) credentials: Option<Credentials>,
    /// Inode of a datagram socket, by which the kernel's drops are found.
    pub(crate) socket_inode: Option<u64>,
    /// An on-demand face goes when nothing arrived for this long, ns.
    pub(crate) idle_ns: Option<IdleTimes>,
    /// Whether it is the peer's doing when nothing more is taken: the face then ends.
    pub(crate) can_stall: bool,
    /// Why a face of this kind cannot have a persistency.
    pub(crate) refuses: fn(FacePersistency) -> Option<&'static str>,
}
