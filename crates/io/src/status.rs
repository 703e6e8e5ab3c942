//! The status of a face, common to all kinds.

use std::net::SocketAddr;

use crate::drops::DropCounters;
use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::FaceUri;

use crate::options::UdpOptions;
use crate::program::ProgramName;

/// The sender of a frame, on a link with several peers.
pub(crate) type Remote = Option<SocketAddr>;

/// The number by which other crates identify a face. This crate never interprets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FaceTag(pub u64);

/// Whether a face can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceState {
    /// Connecting for the first time.
    Connecting,
    /// Able to send.
    Up,
    /// Not able to send at present: a permanent face lost its peer, or the network device is down.
    Down,
}

/// The far end of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    /// An application on this machine.
    Local,
    /// One neighbor, or any peer over UDP.
    Neighbour,
    /// Several neighbors, all of which receive each other's frames.
    Group,
}

/// The kind of link that carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A reliable sequence of frames of any size.
    Stream,
    /// Datagrams, which may be lost and must not be longer than the link's MTU.
    Datagrams,
}

/// The process at the other end of a Unix socket (`SO_PEERCRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Process id at the time of connecting. 0 for a process in another PID namespace.
    pub pid: i32,
    /// The name of the program when it was accepted.
    pub program: ProgramName,
}

/// The counters of a face.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceCounters {
    /// Frames received.
    pub in_frames: u64,
    /// Octets of the frames received.
    pub in_octets: u64,
    /// Frames sent.
    pub out_frames: u64,
    /// Octets of the frames sent.
    pub out_octets: u64,
    /// Drops by reason, including those of the link service.
    pub drops: DropCounters,
}

/// What a face sent since the last frame arrived on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// Interests sent.
    pub interests: u64,
    /// The time of the first of them, ns of [`namely_host::clock`].
    pub first_ns: Option<u64>,
    /// Frames that the system reported as not received: the peer has no such port, the network or
    /// the peer is unreachable, the system forbids them, or the face was down.
    pub failures: u64,
}

/// A snapshot of a face.
#[derive(Clone, Debug)]
pub struct FaceSnapshot {
    /// The far end.
    pub remote: FaceUri,
    /// The near end.
    pub local: FaceUri,
    /// The kind of the far end.
    pub reach: RemoteKind,
    /// The carrier of its frames.
    pub carrier: Carrier,
    /// The longest frame that the link carries, octets; `None` if only the configuration determines
    /// it.
    pub mtu: Option<usize>,
    /// The longest frame that reaches the peer in one piece, octets, if the system knows the path.
    /// The network fragments longer ones and reassembles them.
    pub path_mtu: Option<usize>,
    /// The longest frame that is sent at present, octets. It is less than the setting of the link
    /// service if probes found that the path carries less. `None` on a stream.
    pub frame_octets_max: Option<usize>,
    /// Whether it can send.
    pub state: FaceState,
    /// FacePersistency.
    pub persistency: FacePersistency,
    /// The peer's credentials, on Unix sockets and memif.
    pub credentials: Option<Credentials>,
    /// Octets that wait to be sent.
    pub queue_octets: usize,
    /// The time at which an idle on-demand face will be closed, ns of [`namely_host::clock`].
    pub expires_ns: Option<u64>,
    /// Inode of a datagram socket, the key of [`crate::udp::kernel_drops`].
    pub socket_inode: Option<u64>,
    /// The time of the last arrival, or of the start of the face, ns of [`namely_host::clock`].
    pub active_ns: u64,
    /// What was sent since then.
    pub unanswered: Unanswered,
    /// Counters.
    pub counters: FaceCounters,
}

/// Idle timeouts of an on-demand face without a connection, ns since the last arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdleTimes {
    pub(crate) answered_ns: u64,
    /// The timeout if at most one frame arrived and none was sent.
    pub(crate) unanswered_ns: u64,
}

impl From<UdpOptions> for IdleTimes {
    fn from(options: UdpOptions) -> Self {
        let answered_ns = options.idle_ns;
        // An unanswered face must not stay longer than others, even if the configuration says so.
        IdleTimes { answered_ns, unanswered_ns: options.unanswered_idle_ns.min(answered_ns) }
    }
}

/// The constant properties of a face's link.
#[derive(Clone, Debug)]
pub(crate) struct LinkInfo {
    /// The far end.
    pub(crate) remote: FaceUri,
    /// The kind of the far end.
    pub(crate) reach: RemoteKind,
    /// The owner to whose quota the face counts.
    pub(crate) holder: Owner,
    /// The carrier of its frames.
    pub(crate) carrier: Carrier,
    /// The longest frame that the link carried when it was opened, octets; `None` if only the
    /// configuration determines it.
    pub(crate) mtu: Option<usize>,
    /// The longest frame that reached the peer in one piece when the link was opened, octets.
    /// `None` if it is unknown.
    pub(crate) path_octets: Option<usize>,
    /// The peer's credentials, if the system reports them.
    pub(crate) credentials: Option<Credentials>,
    /// Inode of a datagram socket, the key of the kernel's drops.
    pub(crate) socket_inode: Option<u64>,
    /// The idle timeouts of an on-demand face. `None` if it has none.
    pub(crate) idle_ns: Option<IdleTimes>,
    /// Whether the face ends when its socket stays blocked, because the peer is the cause.
    pub(crate) can_stall: bool,
    /// Returns the reason for which a face of this kind cannot have a persistency.
    pub(crate) refuses: fn(FacePersistency) -> Option<&'static str>,
}

impl LinkInfo {
    /// The properties of a connection: it loses nothing and carries frames of any length.
    pub(crate) fn connection(
        remote: FaceUri,
        reach: RemoteKind,
        holder: Owner,
        refuses: fn(FacePersistency) -> Option<&'static str>,
    ) -> Self {
        LinkInfo {
            remote,
            reach,
            holder,
            carrier: Carrier::Stream,
            mtu: None,
            path_octets: None,
            credentials: None,
            socket_inode: None,
            idle_ns: None,
            can_stall: true,
            refuses,
        }
    }
}
