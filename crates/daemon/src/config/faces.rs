//! Listeners, static faces and static routes.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use namely_host::Subnet;
use namely_io::IoOptions;
use namely_link::CodelConfig;
use namely_messages::FacePersistency;
use namely_transport::{listen_socket, memif_beside};
use namely_wire::{FaceUri, Name};
use serde::{Deserialize, Deserializer};

use super::links::{Dispatcher, Ethernet, Memif};
use super::values;

const MBIT: u64 = 1_000_000;

/// Listeners, and settings of new faces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faces {
    /// `unix:///path`, `memif:///path`, `tcp://address:port`, `udp://address:port`,
    /// `ws://address:port` and `dev://interface`. Empty: no listener.
    #[serde(deserialize_with = "values::listen_uris")]
    pub listen: Vec<FaceUri>,
    /// Further addresses, beside those of `listen` or its default.
    #[serde(deserialize_with = "values::listen_uris")]
    pub listen_also: Vec<FaceUri>,
    /// Threads that move packets; 0: one for each core that the process may use. At most 64.
    #[serde(deserialize_with = "values::workers")]
    pub workers: usize,
    /// UDP and Ethernet multicast faces.
    pub multicast: Vec<MulticastGroup>,
    /// Seconds without a packet after which an on-demand UDP face is closed.
    pub idle_timeout_s: u64,
    /// Seconds after which a UDP face closes that received one packet and sent none.
    pub idle_unanswered_s: u64,
    /// Faces with sockets.
    ///
    /// The face that was idle for longest is evicted, in this order: of the faces to which nothing
    /// was sent; of the faces of the holder with most, if it has more than 16; of all peers on the
    /// network. A peer on the network evicts no face of a local application. The stations on a
    /// network device have the same limit.
    ///
    /// # Limit
    /// An idle on-demand face is evicted; if there is none, the connection is closed or the
    /// datagram dropped.
    /// - Value: 4096, and 64 more for root
    /// - Setting: `faces.faces_max`
    /// - Counter: `transport_evicted`, `too_many_transports` of the listener
    /// - Tests: `an_extra_connection_is_closed_and_counted`,
    ///   `an_extra_peer_replaces_the_idlest`,
    ///   `a_flood_of_senders_admits_others`,
    ///   `the_largest_users_idlest_face_goes`,
    ///   `an_extra_station_replaces_the_idlest`
    pub faces_max: usize,
    /// Faces of one user of this machine.
    ///
    /// 0 stands for a quarter of `faces_max`.
    ///
    /// # Limit
    /// The connection is closed.
    /// - Value: a quarter of `faces.faces_max`; none for root
    /// - Setting: `faces.faces_per_uid_max`
    /// - Counter: `too_many_of_one_peer` of the listener
    /// - Tests: `a_holder_gets_at_most_a_quarter`
    pub faces_per_uid_max: usize,
    /// Faces of one network address.
    ///
    /// 0 stands for a quarter of `faces_max`.
    ///
    /// # Limit
    /// The connection is closed, or the datagram dropped.
    /// - Value: a quarter of `faces.faces_max`
    /// - Setting: `faces.faces_per_address_max`
    /// - Counter: `too_many_of_one_peer` of the listener
    /// - Tests: `a_holder_gets_at_most_a_quarter`
    pub faces_per_address_max: usize,
    /// Faces reserved for users of this machine.
    ///
    /// 0 stands for a quarter of `faces_max`.
    ///
    /// # Limit
    /// A peer on the network is refused or evicts a face, as at `faces.faces_max`.
    /// - Value: a quarter of `faces.faces_max`
    /// - Setting: `faces.faces_local_reserve`
    /// - Counter: `transport_evicted` of the listener
    /// - Tests: `a_flood_of_senders_admits_others`
    pub faces_local_reserve: usize,
    /// Octets of memory for packets waiting on all faces. At the limit, the longest queues of the
    /// user or address with most octets drop their oldest packets.
    #[serde(deserialize_with = "values::octets")]
    pub queue_octets_total_max: u64,
    /// Networks from which a packet to a UDP port creates a face, such as `192.0.2.0/24`; empty:
    /// all.
    #[serde(deserialize_with = "values::subnets")]
    pub interests_from: Vec<Subnet>,
    /// Mbit/s sent to one UDP address until it has proved that it receives packets; 0: no limit.
    #[serde(deserialize_with = "values::mbit_s")]
    pub unproven_address_mbit_s: u64,
    /// The same limit for all such addresses together.
    #[serde(deserialize_with = "values::mbit_s")]
    pub unproven_total_mbit_s: u64,
    /// Seconds after which a connection is closed if its peer reads none of the waiting data.
    pub stall_timeout_s: u64,
    /// File mode of Unix and memif sockets. It controls connecting; `[authorization]` controls the
    /// commands.
    #[serde(deserialize_with = "values::file_mode")]
    pub unix_mode: u32,
    /// Maximum time that packets may wait in a face's send queue before the queue counts as bad, us
    /// (CoDel's target).
    pub codel_target_us: u64,
    /// Time for which a queue may be bad before packets are marked, and dropped later if it stays
    /// bad, ms (CoDel's interval).
    pub codel_interval_ms: u64,
    /// Octets up to which a send queue never counts as bad. With 0 no queue does, so packets are
    /// never marked, and only dropped at the hard limit.
    #[serde(deserialize_with = "values::octets")]
    pub congestion_threshold_octets: u64,
    /// Octets read from one stream in a round, before other faces are served.
    #[serde(deserialize_with = "values::read_octets_per_turn")]
    pub read_octets_per_turn: u64,
    /// The same for datagrams, frames and packets in shared memory, in number.
    #[serde(deserialize_with = "values::read_datagrams_per_turn")]
    pub read_datagrams_per_turn: usize,
    /// Time that an idle worker polls before it sleeps.
    ///
    /// 0 stands for no polling.
    ///
    /// # Limit
    /// The worker sleeps.
    /// - Value: 0, at most 10,000 us
    /// - Setting: `faces.busy_poll_us`
    /// - Tests: `workers_busy_poll_only_on_request`,
    ///   `link_limits_have_valid_ranges`
    #[serde(deserialize_with = "values::busy_poll_us")]
    pub busy_poll_us: u32,
    /// Links whose reading worker dispatches packets to other workers.
    pub dispatcher: Dispatcher,
    /// Limits of an application that connects by shared memory.
    pub memif: Memif,
    /// The method of reading network devices.
    pub ethernet: Ethernet,
}

impl Default for Faces {
    fn default() -> Self {
        let io = IoOptions::default();
        let codel = CodelConfig::default();
        Faces {
            listen: default_listeners(),
            listen_also: Vec::new(),
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
    /// The addresses to listen on: those of `listen` and `listen_also`, each once. An address of
    /// `listen_also` for all interfaces stands for each address of its port: the system refuses
    /// to bind both.
    pub fn listeners(&self) -> Vec<FaceUri> {
        let also = self.listen_also.iter().filter(|uri| !self.listen.contains(uri));
        let is_included = |uri: &FaceUri| self.listen_also.iter().any(|all| includes(all, uri));
        self.listen.iter().chain(also).filter(|uri| !is_included(uri)).cloned().collect()
    }

    /// Limits for addresses that may be forged.
    pub(crate) fn unproven(&self) -> namely_io::UnprovenLimits {
        namely_io::UnprovenLimits {
            address_bps: self.unproven_address_mbit_s * MBIT,
            total_bps: self.unproven_total_mbit_s * MBIT,
        }
    }

    /// The quotas of faces.
    pub(crate) fn shares(&self) -> namely_io::FaceShares {
        namely_io::FaceShares {
            per_uid_max: self.faces_per_uid_max,
            per_address_max: self.faces_per_address_max,
            local_reserve: self.faces_local_reserve,
        }
    }
}

/// Returns true if a socket at `all`, an address for all interfaces, receives the packets to `one`.
fn includes(all: &FaceUri, one: &FaceUri) -> bool {
    let (Some(whole), Some(part)) = (all.address(), one.address()) else { return false };
    all.scheme() == one.scheme()
        && whole.ip().is_unspecified()
        && !part.ip().is_unspecified()
        && (whole.port(), whole.is_ipv4()) == (part.port(), part.is_ipv4())
        && whole.port() != 0
}

/// The default path of the router's own sockets. It belongs to the user that starts the router,
/// even after the router has changed its user.
pub(crate) fn default_socket() -> &'static Path {
    static SOCKET: OnceLock<PathBuf> = OnceLock::new();
    SOCKET.get_or_init(listen_socket)
}

/// The user's sockets, and TCP and UDP on loopback only. Access from other machines must be
/// configured.
pub(crate) fn default_listeners() -> Vec<FaceUri> {
    let loopback = ["tcp4://127.0.0.1:6363", "udp4://127.0.0.1:6363"];
    let loopback = loopback.iter().filter_map(|uri| uri.parse().ok());
    local_listeners().into_iter().chain(loopback).collect()
}

/// The sockets at which the user's applications expect the router.
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
    /// Whether other routers on the same machine receive packets of this face, and vice versa
    /// (UDP).
    #[serde(default)]
    pub same_host: bool,
}

fn nfd_multicast_group() -> FaceUri {
    use namely_wire::Endpoint;
    FaceUri::Udp(Endpoint::Address(([224, 0, 23, 170], 56363).into()))
}

/// A face that is made at start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticFace {
    /// The neighbor: `udp://host:port`, `tcp://host:port` or `ether://[address]`. A host name is
    /// looked up outside the data path, and the lookup is repeated until it succeeds.
    #[serde(deserialize_with = "values::remote_uri")]
    pub remote: FaceUri,
    /// The interface that leads to an `ether://` neighbor: `dev://eth0`.
    #[serde(default, deserialize_with = "values::device_uri")]
    pub local: Option<FaceUri>,
    /// Behavior at a link failure: a `persistent` face is closed; a `permanent` one stays and
    /// reconnects.
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

/// Parses faces with different remotes, each with settings that its kind supports.
pub(super) fn distinct<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StaticFace>, D::Error> {
    values::list(deserializer, admit_face)
}

fn admit_face(before: &[StaticFace], face: &StaticFace) -> Result<(), String> {
    let remote = &face.remote;
    if before.iter().any(|other| other.remote == *remote) {
        return Err(format!("two [[face]] tables have the remote `{remote}`"));
    }
    if matches!(remote, FaceUri::Tcp(_) | FaceUri::Memif { .. }) && (face.mtu.is_some() || face.reliability) {
        return Err(format!(
            "`mtu` and `reliability` are for udp and ether faces: leave them out for `{remote}`"
        ));
    }
    if matches!(remote, FaceUri::Ether(_)) != face.local.is_some() {
        return Err(format!("`local` names the interface of an ether face, which needs it: see `{remote}`"));
    }
    Ok(())
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
    /// A route of `prefix` to the neighbor `to`, with the defaults of a route.
    pub fn new(prefix: Name, to: FaceUri) -> Self {
        StaticRoute { prefix, to, cost: 0, child_inherit: true, capture: false }
    }
}

fn yes() -> bool {
    true
}
