//! What the control thread says about faces, and what it is told.

use std::fmt;

use namely_forwarder::{FaceId, PacketCounts};
use namely_io::{Credentials, Persistency};
use namely_wire::face_uri::{FaceUri, MacAddress};

/// Settings of a face's link that management can read and change. `None` means: the router's default when
/// creating, unchanged when updating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceOptions {
    /// Whether the peer may use IncomingFaceId and NextHopFaceId (Flags bit 0).
    pub local_fields: Option<bool>,
    /// Whether lost link packets are sent again (Flags bit 1); datagram faces only.
    pub reliability: Option<bool>,
    /// Whether a long send queue is reported by congestion marks (Flags bit 2).
    pub congestion_marking: Option<bool>,
    /// BaseCongestionMarkingInterval, ns.
    pub marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets of send queue.
    pub marking_threshold_octets: Option<u64>,
    /// Largest link packet sent, octets; stream faces have none.
    pub mtu: Option<u64>,
}

/// A face to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceSpec {
    /// The far end, with a numeric address: `tcp4://`, `tcp6://`, `udp4://`, `udp6://`, `ether://`,
    /// or `memif://`.
    pub remote: FaceUri,
    /// The near end: an address to send from, or the device of an `ether://` face. None lets the router choose.
    pub local: Option<FaceUri>,
    /// Persistent or permanent.
    pub persistency: Persistency,
    /// Link settings.
    pub options: FaceOptions,
}

/// Changes to a face; what is `None` stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceUpdate {
    /// New persistency.
    pub persistency: Option<Persistency>,
    /// New link settings.
    pub options: FaceOptions,
}

/// Something to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenSpec {
    /// A Unix stream socket. A stale socket file is replaced; a live one is refused.
    Unix {
        /// Path of the socket.
        path: std::path::PathBuf,
        /// File mode of the socket, such as 0o666.
        mode: u32,
    },
    /// The control socket of shared-memory faces.
    Memif {
        /// Path of the socket.
        path: std::path::PathBuf,
        /// File mode of the socket.
        mode: u32,
    },
    /// A TCP port.
    Tcp(std::net::SocketAddr),
    /// A UDP port: every remote address gets an on-demand face.
    Udp(std::net::SocketAddr),
    /// A TCP port for WebSocket connections, as browsers make them. Its faces are never local.
    WebSocket(std::net::SocketAddr),
    /// One UDP multicast face on one interface.
    Multicast(namely_io::MulticastOptions),
    /// A network device: every station that sends to it gets an on-demand face.
    Ethernet(String),
    /// One Ethernet multicast face.
    EthernetGroup {
        /// The network device.
        interface: String,
        /// The group.
        group: MacAddress,
    },
}

/// Whether a face can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceState {
    /// Packets pass.
    Up,
    /// A permanent face without its peer: packets sent to it are dropped and counted.
    Down,
}

/// What a face has carried. Octets are those of link packets. In events, and in answers to changes, packets by kind
/// are not counted up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaceCounters {
    /// Interests received.
    pub in_interests: u64,
    /// Data received.
    pub in_data: u64,
    /// Nacks received.
    pub in_nacks: u64,
    /// Octets received.
    pub in_octets: u64,
    /// Interests sent.
    pub out_interests: u64,
    /// Data sent.
    pub out_data: u64,
    /// Nacks sent.
    pub out_nacks: u64,
    /// Octets sent.
    pub out_octets: u64,
    /// Octets that wait to be sent.
    pub queue_octets: u64,
    /// Drops by reason, those that are not zero; docs/counters.md says what each means.
    pub drops: Vec<(&'static str, u64)>,
}

impl FaceCounters {
    /// Takes over the forwarder's counts.
    pub(super) fn set_packets(&mut self, packets: &PacketCounts) {
        self.in_interests = packets.in_interests;
        self.in_data = packets.in_data;
        self.in_nacks = packets.in_nacks;
        self.out_interests = packets.out_interests;
        self.out_data = packets.out_data;
        self.out_nacks = packets.out_nacks;
    }
}

/// Everything management shows of a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceStatus {
    /// Number.
    pub face_id: FaceId,
    /// The far end, canonical.
    pub remote: FaceUri,
    /// The near end, canonical.
    pub local: FaceUri,
    /// Whether `/localhost` packets may pass: Unix, shared memory, internal, and TCP from this machine to itself.
    pub is_local: bool,
    /// Whether several peers hear what is sent.
    pub is_multi_access: bool,
    /// Persistency.
    pub persistency: Persistency,
    /// Up or down.
    pub state: FaceState,
    /// Local fields allowed.
    pub local_fields: bool,
    /// Link reliability on.
    pub reliability: bool,
    /// Congestion marking on.
    pub congestion_marking: bool,
    /// BaseCongestionMarkingInterval, ns.
    pub marking_interval_ns: u64,
    /// DefaultCongestionThreshold, octets.
    pub marking_threshold_octets: u64,
    /// Largest link packet sent, octets; none on streams.
    pub mtu: Option<u64>,
    /// Time until an idle on-demand face goes, ns.
    pub expires_in_ns: Option<u64>,
    /// The peer's user, on Unix and shared-memory faces.
    pub credentials: Option<Credentials>,
    /// Counters.
    pub counters: FaceCounters,
}

/// What happened to a face (NFD `FaceEventKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceEventKind {
    /// The face is new.
    Created,
    /// The face is gone; its number may be given to another one later.
    Destroyed,
    /// A face that was down has its peer back.
    Up,
    /// A permanent face lost its peer.
    Down,
}

/// A change to a face, in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceEvent {
    /// What happened.
    pub kind: FaceEventKind,
    /// The face at that time.
    pub face: FaceStatus,
}

/// Why a face was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFaceError {
    /// Caller: there is one to the same remote; it is given.
    Exists(Box<FaceStatus>),
    /// Caller: faces cannot be made to such a URI.
    Unsupported(String),
    /// Caller: a setting is not possible on this kind of face.
    BadOption(&'static str),
    /// Environment: the system refused, or the peer did; the system's words.
    Failed(String),
    /// Environment: the router has as many faces as its configuration allows.
    TooManyFaces,
    /// Environment: the data plane has stopped.
    Stopped,
}

/// Why a face was not changed or destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateFaceError {
    /// Caller: there is no such face.
    NoSuchFace,
    /// Caller: a setting is not possible on this kind of face.
    BadOption(&'static str),
    /// Environment: the data plane has stopped.
    Stopped,
}

/// Why the router does not listen; always the environment's or the configuration's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenError(pub String);

impl fmt::Display for CreateFaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateFaceError::Exists(face) => write!(f, "face {} to {} exists", face.face_id, face.remote),
            CreateFaceError::Unsupported(why) => f.write_str(why),
            CreateFaceError::BadOption(why) => f.write_str(why),
            CreateFaceError::Failed(why) => f.write_str(why),
            CreateFaceError::TooManyFaces => f.write_str("the router has as many faces as it is allowed"),
            CreateFaceError::Stopped => f.write_str("the router is stopping"),
        }
    }
}

impl std::error::Error for CreateFaceError {}

impl fmt::Display for UpdateFaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateFaceError::NoSuchFace => "no such face",
            UpdateFaceError::BadOption(why) => why,
            UpdateFaceError::Stopped => "the router is stopping",
        })
    }
}

impl std::error::Error for UpdateFaceError {}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListenError {}
