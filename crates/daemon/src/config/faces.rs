//! Listeners, static faces and static routes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use namely_host::Subnet;
use namely_io::IoOptions;
use namely_link::CodelConfig;
use namely_transport::{listen_socket, memif_beside};
use namely_wire::mgmt::FacePersistency;
use namely_wire::{FaceUri, Name};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::links::{Dispatcher, Ethernet, Memif};
use super::values;

const MBIT: u64 = 1_000_000;

/// Where to listen, and what new faces are given.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faces {
    /// `unix:///path`, `memif:///path`, `tcp://address:port`, `udp://address:port`,
    /// `ws://address:port` and `dev://interface` to listen on. Empty: none.
    #[serde(deserialize_with = "values::listen_uris")]
    pub listen: Vec<FaceUri>,
    /// Threads that move packets; 0: one for each core that the process may use. At most 64.
    #[serde(deserialize_with = "values::workers")]
    pub workers: usize,
    /// UDP and Ethernet multicast faces.
    pub multicast: Vec<MulticastGroup>,
    /// Seconds without a packet after which an on-demand UDP face is closed.
    pub idle_timeout_s: u64,
    /// Seconds after which one goes of which one packet came, and to which nothing was sent.
    pub idle_unanswered_s: u64,
    /// Faces at once; a further peer has one that was idle for long, or is refused.
    pub faces_max: usize,
    /// Faces of one user of this machine at once; 0: a quarter of `faces_max`.
    pub faces_per_uid_max: usize,
    /// Faces of one network address at once; 0: a quarter of `faces_max`.
    pub faces_per_address_max: usize,
    /// Faces that only users of this machine may have; 0: a quarter of `faces_max`.
    pub faces_local_reserve: usize,
    /// Octets of memory that packets waiting on all faces take; at it the longest queues of the
    /// user or address with most lose what waited longest.
    #[serde(deserialize_with = "values::octets")]
    pub queue_octets_total_max: u64,
    /// Networks whose addresses get a face by sending to a UDP port, such as `192.0.2.0/24`; empty:
    /// all.
    #[serde(deserialize_with = "values::subnets")]
    pub interests_from: Vec<Subnet>,
    /// Mbit/s that one UDP address gets until it has proven that it receives what is sent to it; 0:
    /// no limit.
    #[serde(deserialize_with = "values::mbit_s")]
    pub unproven_address_mbit_s: u64,
    /// The same of all such addresses together.
    #[serde(deserialize_with = "values::mbit_s")]
    pub unproven_total_mbit_s: u64,
    /// Seconds after which a connection whose peer takes nothing of what waits is closed.
    pub stall_timeout_s: u64,
    /// File mode of Unix and memif sockets. Whoever may write to one may connect; what they may do
    /// is `[authorization]`'s.
    #[serde(deserialize_with = "values::file_mode")]
    pub unix_mode: u32,
    /// How long packets may wait in a face's send queue before it counts as bad, us (CoDel's
    /// target).
    pub codel_target_us: u64,
    /// How long a queue may be bad before packets are marked, and then, if that does not help,
    /// dropped, ms (CoDel's interval).
    pub codel_interval_ms: u64,
    /// Octets up to which a send queue is never bad; 0: no queue is, so that nothing is marked, and
    /// dropped only at the hard limit.
    #[serde(deserialize_with = "values::octets")]
    pub congestion_threshold_octets: u64,
    /// Octets read from one stream in a turn, before other faces have theirs.
    #[serde(deserialize_with = "values::read_octets_per_turn")]
    pub read_octets_per_turn: u64,
    /// The same for datagrams, frames and packets in shared memory, in number.
    #[serde(deserialize_with = "values::read_datagrams_per_turn")]
    pub read_datagrams_per_turn: usize,
    /// How long a worker that has nothing to do looks again and again before it sleeps, us; 0: not
    /// at all.
    #[serde(deserialize_with = "values::busy_poll_us")]
    pub busy_poll_us: u32,
    /// Links whose packets are handed from the worker that reads them to others.
    pub dispatcher: Dispatcher,
    /// What an application that connects by shared memory may have.
    pub memif: Memif,
    /// How network devices are read.
    pub ethernet: Ethernet,
}

impl Default for Faces {
    fn default() -> Self {
        let io = IoOptions::default();
        let codel = CodelConfig::default();
        Faces {
            listen: default_listeners(),
            workers: 0,
            multicast: Vec::new(),
            idle_timeout_s: io.udp.idle_ns / 1_000_000_000,
            idle_unanswered_s: io.udp.unanswered_idle_ns / 1_000_000_000,
            faces_max: 4096,
            faces_per_uid_max: io.face_shares.per_uid_max,
            faces_per_address_max: io.face_shares.per_address_max,
            faces_local_reserve: io.face_shares.local_reserve,
            queue_octets_total_max: io.queue_octets_total_max as u64,
            interests_from: Vec::new(),
            unproven_address_mbit_s: io.unproven.address_bps / MBIT,
            unproven_total_mbit_s: io.unproven.total_bps / MBIT,
            stall_timeout_s: io.stall_ns / 1_000_000_000,
            unix_mode: 0o666,
            codel_target_us: codel.target_ns / 1000,
            codel_interval_ms: codel.interval_ns / 1_000_000,
            congestion_threshold_octets: codel.threshold_octets as u64,
            read_octets_per_turn: io.read_octets_per_turn as u64,
            read_datagrams_per_turn: io.read_datagrams_per_turn,
            busy_poll_us: io.busy_poll_us,
            dispatcher: Dispatcher::default(),
            memif: Memif::default(),
            ethernet: Ethernet { xdp: io.ethernet.xdp },
        }
    }
}

impl Faces {
    /// What is sent to addresses that may be forged.
    pub(crate) fn unproven(&self) -> namely_io::UnprovenLimits {
        namely_io::UnprovenLimits {
            address_bps: self.unproven_address_mbit_s * MBIT,
            total_bps: self.unproven_total_mbit_s * MBIT,
        }
    }

    /// Whose the faces may be.
    pub(crate) fn shares(&self) -> namely_io::FaceShares {
        namely_io::FaceShares {
            per_uid_max: self.faces_per_uid_max,
            per_address_max: self.faces_per_address_max,
            local_reserve: self.faces_local_reserve,
        }
    }
}

/// Where the router's own sockets are unless it is told otherwise: as the user who starts it has
/// it, also when the router has become another.
pub(crate) fn default_socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(listen_socket)
}

/// The user's sockets, and TCP and UDP on loopback only: other machines come in when someone says
/// so.
pub(crate) fn default_listeners() -> Vec<FaceUri> {
    let loopback = ["tcp4://127.0.0.1:6363", "udp4://127.0.0.1:6363"];
    let loopback = loopback.iter().filter_map(|uri| uri.parse().ok());
    local_listeners().into_iter().chain(loopback).collect()
}

/// Where the user's applications find the router by themselves.
pub(crate) fn local_listeners() -> Vec<FaceUri> {
    let path = default_socket();
    let memif = FaceUri::Memif { path: memif_beside(path).to_string_lossy().into_owned(), id: 0 };
    vec![FaceUri::Unix(path.to_string_lossy().into_owned()), memif]
}

/// A multicast group joined on one interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastGroup {
    /// The interface's name, such as `eth0`.
    pub interface: String,
    /// The group: its address and port, or its Ethernet address; NFD's UDP group when absent.
    #[serde(default = "nfd_multicast_group", deserialize_with = "values::multicast_uri")]
    pub group: FaceUri,
    /// Whether other routers on this same machine hear the face, and it them (UDP).
    #[serde(default)]
    pub same_host: bool,
}

fn nfd_multicast_group() -> FaceUri {
    use namely_wire::Endpoint;
    FaceUri::Udp(Endpoint::Address(([224, 0, 23, 170], 56363).into()))
}

/// A face made at start and kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticFace {
    /// The neighbour: `udp://host:port`, `tcp://host:port` or `ether://[address]`. A host name is
    /// looked up off the data path, again and again until it resolves.
    #[serde(deserialize_with = "values::remote_uri")]
    pub remote: FaceUri,
    /// The interface that leads to an `ether://` neighbour: `dev://eth0`.
    #[serde(default, deserialize_with = "values::device_uri")]
    pub local: Option<FaceUri>,
    /// What happens when the link fails: `persistent`, it is closed; `permanent`, it stays and
    /// connects again.
    #[serde(default = "permanent", deserialize_with = "values::persistency")]
    pub persistency: FacePersistency,
    /// Whether lost link packets are retransmitted hop by hop.
    #[serde(default)]
    pub reliability: bool,
    /// The largest link packet in octets; the face's own when absent.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Prefixes routed to this face.
    #[serde(default, deserialize_with = "values::names")]
    pub routes: Vec<Name>,
    /// The cost of those routes.
    #[serde(default)]
    pub cost: u64,
}

fn permanent() -> FacePersistency {
    FacePersistency::Permanent
}

/// Faces with different remotes, each with settings that its kind can have.
pub(super) fn distinct<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StaticFace>, D::Error> {
    let faces = Vec::<Checked>::deserialize(deserializer)?;
    let faces: Vec<StaticFace> = faces.into_iter().map(|face| face.0).collect();
    match faces
        .iter()
        .enumerate()
        .find(|(i, face)| faces[..*i].iter().any(|other| other.remote == face.remote))
    {
        Some((_, face)) => {
            Err(D::Error::custom(format!("two [[face]] tables have the remote `{}`", face.remote)))
        }
        None => Ok(faces),
    }
}

/// A face whose settings are possible.
struct Checked(StaticFace);

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let face = StaticFace::deserialize(deserializer)?;
        if matches!(face.remote, FaceUri::Tcp(_) | FaceUri::Memif { .. })
            && (face.mtu.is_some() || face.reliability)
        {
            return Err(D::Error::custom(format!(
                "`mtu` and `reliability` are for udp and ether faces: leave them out for `{}`",
                face.remote
            )));
        }
        if matches!(face.remote, FaceUri::Ether(_)) != face.local.is_some() {
            return Err(D::Error::custom(format!(
                "`local` names the interface of an ether face, which needs it: see `{}`",
                face.remote
            )));
        }
        Ok(Checked(face))
    }
}

/// A route made at start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticRoute {
    /// The prefix.
    #[serde(deserialize_with = "values::name")]
    pub prefix: Name,
    /// The remote URI of the face; a permanent face is made if no `[[face]]` has it.
    #[serde(deserialize_with = "values::remote_uri")]
    pub to: FaceUri,
    /// The cost.
    #[serde(default)]
    pub cost: u64,
    /// Whether longer prefixes use this route too (CHILD_INHERIT).
    #[serde(default = "yes")]
    pub child_inherit: bool,
    /// Whether this prefix ignores routes of shorter prefixes (CAPTURE).
    #[serde(default)]
    pub capture: bool,
}

impl StaticRoute {
    /// A route of `prefix` to the neighbour `to`, with the defaults of a route.
    pub fn new(prefix: Name, to: FaceUri) -> Self {
        StaticRoute { prefix, to, cost: 0, child_inherit: true, capture: false }
    }
}

fn yes() -> bool {
    true
}
