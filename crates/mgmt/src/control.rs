//! The traits through which management acts on faces and tables. The router implements them.
//!
//! A call has taken effect when it returns, because the response is sent next. (NFD answers
//! `rib/register` before its FIB has changed, so an Interest sent at once may still find no route.)

use namely_forwarder::{BindError, Bound, Charge, CsChange, FaceId, FibError, RibError, StrategyError};
use namely_messages::{
    Counter, CsDiskStatus, CsInfo, CsListQuery, CsPacket, Explained, FacePersistency, FaceStatus, FibEntry,
    GeneralStatus, NeighborStatus, RibEntry, Route, RouteOrigin, StrategyChoice, TraceEntry, VipNeighbour,
    VipObject, VipStatus,
};
use namely_wire::{FaceUri, Name, NameRef};

/// The parts of the router that management acts on.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The router's faces.
    pub faces: &'a dyn Faces,
    /// The forwarder's tables.
    pub tables: &'a dyn Tables,
    /// The neighbors, if neighbor discovery runs.
    pub neighbors: Option<&'a dyn Neighbors>,
    /// The content store's disk, if there is one.
    pub disk: Option<&'a dyn CsDisk>,
    /// The virtual plane of VIP, if the router runs one.
    pub vip: Option<&'a dyn Vip>,
    /// The packet traces, if the router supports them.
    pub traces: Option<&'a dyn Traces>,
    /// The pending Interests that the router still answers before it stops, if it drains.
    pub draining: Option<u64>,
}

/// Packet traces. No method waits for packets.
pub trait Traces {
    /// Starts to trace packets below `prefix`, for `time_ms` at most or until the face `face`
    /// closes. Returns the trace's number.
    ///
    /// # Errors
    /// The reason, as text.
    fn start(&self, prefix: &Name, time_ms: u64, face: u64) -> Result<u64, String>;

    /// Returns the entries since the last call, `octets_max` octets at most; `None` if the trace
    /// has ended.
    fn read(&self, trace: u64, octets_max: usize) -> Option<TracePart>;

    /// Ends a trace. Returns false if there is none.
    fn stop(&self, trace: u64) -> bool;
}

/// A part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePart {
    /// Packets, in the order in which they were processed.
    pub entries: Vec<TraceEntry>,
    /// Number of entries lost since the last call because they were not read in time.
    pub lost: u64,
    /// True if more entries are available.
    pub is_more: bool,
}

/// The virtual plane of VIP. No method waits for it.
pub trait Vip {
    /// The configuration and counters of the plane.
    fn status(&self) -> VipStatus;

    /// The registered objects, in the order of the catalogue.
    fn objects(&self) -> Vec<VipObject>;

    /// The neighbors, in the order of the configuration.
    fn neighbours(&self) -> Vec<VipNeighbour>;
}

/// Neighbor discovery.
pub trait Neighbors {
    /// This router on each link, its neighbors there, and quarantined link addresses.
    fn neighbors(&self) -> Vec<NeighborStatus>;

    /// The counters of messages sent, received and refused that are not zero.
    fn counters(&self) -> Vec<Counter>;
}

/// The content store's disk. No method waits for it.
pub trait CsDisk {
    /// The configuration, contents and counters of the disk.
    fn status(&self) -> CsDiskStatus;

    /// Changes the disk's settings; `None` leaves a setting unchanged.
    ///
    /// # Errors
    /// The setting that is not allowed, as text. No setting is changed then.
    fn configure(&self, change: &CsDiskChange) -> Result<(), String>;

    /// Erases the packets stored under `prefix`. After the return, none of them is served.
    ///
    /// # Errors
    /// The reason, as text.
    fn erase(&self, prefix: NameRef<'_>) -> Result<(), String>;

    /// Erases the packet with this full name, which ends with its implicit digest. After the
    /// return, the packet is not served.
    ///
    /// # Errors
    /// The reason, as text.
    fn erase_exact(&self, full_name: NameRef<'_>) -> Result<(), String>;

    /// Protects the packets stored under `prefix` from eviction.
    ///
    /// # Errors
    /// The reason, as text.
    fn pin(&self, prefix: NameRef<'_>) -> Result<(), String>;

    /// Removes a pin. Returns false if there was none.
    fn unpin(&self, prefix: NameRef<'_>) -> bool;
}

/// A change of the disk's settings; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsDiskChange {
    /// Maximum size, octets.
    pub octets_max: Option<u64>,
    /// The admission rule, as spelled in the configuration.
    pub admission: Option<String>,
    /// Number of pending requests from which on the disk is bypassed.
    pub threshold: Option<u64>,
    /// The order of reads and writes, as spelled in the configuration.
    pub queue: Option<String>,
}

/// The router's faces.
pub trait Faces {
    /// All faces, in the order of their ids.
    fn faces(&self) -> Vec<FaceStatus>;

    /// Number of faces.
    fn count(&self) -> usize;

    /// One face.
    fn face(&self, face: FaceId) -> Option<FaceStatus>;

    /// Changes a face.
    ///
    /// # Errors
    /// [`UpdateFaceError`]; the face is unchanged then.
    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError>;

    /// Destroys a face, its routes and its next hops.
    ///
    /// # Errors
    /// [`UpdateFaceError`]: there is no such face, or it is the router's own.
    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError>;

    /// Reports that a face has announced a prefix (`rib/announce`) until a time, ns. The
    /// announcement may be attached to Data from the face. `None` withdraws the announcement.
    fn announce(&self, face: FaceId, prefix: &Name, announcement: Option<(&[u8], u64)>) {
        let _ = (face, prefix, announcement);
    }

    /// The text by which the lists of faces show an end that a client gave as `uri`. Text that is
    /// no FaceUri is unchanged.
    fn canonical(&self, uri: &str) -> String {
        uri.parse::<FaceUri>().map_or_else(|_| uri.to_owned(), |uri| uri.to_string())
    }

    /// Octets of link packets received and sent on all present and former faces.
    fn octets(&self) -> [u64; 2] {
        let faces = self.faces();
        let sum = |of: fn(&FaceStatus) -> u64| faces.iter().map(of).fold(0, u64::wrapping_add);
        [sum(|face| face.in_octets), sum(|face| face.out_octets)]
    }

    /// Addresses of the configuration for whose devices the router waits.
    fn awaited(&self) -> Vec<String> {
        Vec::new()
    }

    /// The local addresses that accept faces.
    fn channels(&self) -> Vec<FaceUri>;

    /// The drop counters of the router and of each face, by reason, that are not zero.
    fn counters(&self) -> Vec<Counter>;
}

/// The forwarder's tables.
pub trait Tables {
    /// Table sizes and packet counters. The caller fills in the version and the times.
    fn status(&self) -> GeneralStatus;

    /// The counters of drops and forwarding paths that are not zero.
    fn counters(&self) -> Vec<Counter>;

    /// Appends a bounded number of FIB entries to `entries`, from the position that an earlier call
    /// returned; `None` starts at the first entry. Returns the next position if there are more
    /// entries.
    fn fib(&self, from: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32>;

    /// Adds a next hop or changes its cost.
    ///
    /// # Errors
    /// [`FibError`]: there is no such face, or a table is as full as the configuration allows.
    fn fib_add(&self, prefix: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError>;

    /// Removes a next hop. Returns false if there was none.
    fn fib_remove(&self, prefix: NameRef<'_>, face: FaceId) -> bool;

    /// Appends a bounded number of RIB entries to `entries`, in the order of names, with the
    /// remaining lifetime of each route. Starts after the name `last`; `None` starts at the first
    /// name. Returns the last appended name if there are more entries.
    fn rib(&self, last: Option<&Name>, now_ns: u64, entries: &mut Vec<RibEntry>) -> Option<Name>;

    /// The faces of the routes of exactly this name.
    fn rib_faces(&self, prefix: NameRef<'_>) -> Vec<u64>;

    /// Adds a route, or replaces the route of the same prefix, face and origin. The FIB has changed
    /// when the call returns.
    ///
    /// # Errors
    /// [`RibError`]: there is no such face, a table is full, or the principal that is charged has
    /// reached its quota.
    fn rib_register(
        &self,
        charge: Charge,
        prefix: NameRef<'_>,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError>;

    /// Removes a route. Returns false if there was none.
    fn rib_unregister(&self, prefix: NameRef<'_>, face: FaceId, origin: RouteOrigin) -> bool;

    /// All bound prefixes.
    fn bpt(&self) -> Vec<(Name, FaceId)>;

    /// Binds a prefix to an application's face, which may then have at most `of_face_max` prefixes.
    ///
    /// # Errors
    /// [`BindError`]: the prefix overlaps a bound one, the face is not an application's, or a limit
    /// is reached.
    fn bpt_bind(&self, face: FaceId, prefix: &Name, of_face_max: usize) -> Result<Bound, BindError>;

    /// Removes a binding of this face. Returns false if there was none.
    fn bpt_unbind(&self, face: FaceId, prefix: &Name) -> bool;

    /// Returns true if this face has bound exactly this prefix.
    fn bpt_holds(&self, face: FaceId, prefix: &Name) -> bool;

    /// The face that has bound `name` or a prefix of it.
    fn bpt_bound_to(&self, name: NameRef<'_>) -> Option<FaceId>;

    /// Number of components of the prefix whose route leads `name` to the face `local`. `None` if
    /// the FIB leads `name` elsewhere, or nowhere.
    fn bpt_routed(&self, name: NameRef<'_>) -> Option<usize>;

    /// The strategy choices, in the order of names.
    fn strategies(&self) -> Vec<StrategyChoice>;

    /// Sets a strategy and returns its full name with version.
    ///
    /// # Errors
    /// [`StrategyError`]: there is no such strategy, or the table is full.
    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError>;

    /// Removes a choice. Returns false if there was none.
    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool;

    /// Describes how an Interest for `name` would be processed now, without the parts that depend
    /// on the requester.
    fn explain(&self, name: NameRef<'_>, now_ns: u64) -> Explained;

    /// The content store's state.
    fn cs_info(&self) -> CsInfo;

    /// Changes the content store's settings; `None` leaves a setting unchanged.
    ///
    /// # Errors
    /// The setting that is not supported, as text. No setting is changed then.
    fn cs_configure(&self, change: &CsChange) -> Result<(), String>;

    /// Appends up to `most` packets of the content store's memory to `packets`. Visits a bounded
    /// number of slots. Returns the position for the next call if there may be more packets.
    fn cs_list(
        &self,
        query: &CsListQuery,
        most: usize,
        now_ns: u64,
        packets: &mut Vec<CsPacket>,
    ) -> Option<u64>;

    /// Erases up to `count` packets under `prefix`. Returns the number of erased packets, and true
    /// if more are left.
    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool);

    /// Reports that a consumer has refused the Data with this full name. The packet is removed from
    /// the content store, and the routes learned for its object are removed. Returns whether the
    /// packet was cached, and the number of removed routes.
    fn data_refused(&self, full_name: NameRef<'_>, now_ns: u64) -> (bool, u64);
}

/// A face to make (`faces/create`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceSpec {
    /// The far end: `tcp`, `udp`, `ether` or `memif`. [`Management`](crate::Management) does not
    /// resolve host names; the caller that makes the face does.
    pub remote: FaceUri,
    /// The near end: a source address, or the device of an `ether` face. `None` lets the router
    /// choose.
    pub local: Option<FaceUri>,
    /// Persistency and link settings. `None` selects the router's default.
    pub settings: FaceSettings,
}

impl FaceSpec {
    /// The FacePersistency of the new face: persistent by default.
    pub fn persistency(&self) -> FacePersistency {
        self.settings.persistency.unwrap_or(FacePersistency::Persistent)
    }
}

/// Settings of a face that management can read and change. For a new face, `None` selects the
/// router's default. In an update, `None` leaves the setting unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceSettings {
    /// FacePersistency.
    pub persistency: Option<FacePersistency>,
    /// Whether the peer may use IncomingFaceId and NextHopFaceId (Flags bit 0).
    pub local_fields: Option<bool>,
    /// Whether lost link packets are retransmitted (Flags bit 1); datagram faces only.
    pub reliability: Option<bool>,
    /// Whether a long send queue is reported by congestion marks (Flags bit 2).
    pub congestion_marking: Option<bool>,
    /// BaseCongestionMarkingInterval, ns.
    pub marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets of send queue.
    pub marking_threshold_octets: Option<u64>,
    /// Mtu: largest link packet sent, octets; stream faces have none.
    pub mtu: Option<u64>,
}

/// The reason why a face was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateFaceError {
    /// Caller: a face to the same remote exists, and is returned.
    #[error("face {} to {} exists", .0.face_id, .0.uri)]
    Exists(Box<FaceStatus>),
    /// Caller: faces to such a URI are not supported.
    #[error("{0}")]
    Unsupported(String),
    /// Caller: this kind of face does not support a setting.
    #[error("{0}")]
    BadSetting(&'static str),
    /// Environment: the system or the peer refused, with the system's message.
    #[error("{0}")]
    Failed(String),
    /// Environment: the router has reached its configured limit of faces.
    #[error("the router has as many faces as it is allowed")]
    TooManyFaces,
    /// Environment: the router is stopping.
    #[error("the router is stopping")]
    Stopped,
}

/// The reason why a face was not changed or destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateFaceError {
    /// Caller: there is no such face.
    #[error("no such face")]
    NoSuchFace,
    /// Caller: this kind of face does not support the change, or cannot be destroyed.
    #[error("{0}")]
    BadSetting(&'static str),
}
