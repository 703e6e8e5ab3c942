//! What management acts on: faces and tables, as traits that the router implements.
//!
//! A call that returns has taken effect: a response is only sent after it (NFD answers
//! `rib/register` before its FIB has changed, so an Interest sent at once may still find no route).

use std::fmt;

use namely_forwarder::{BindError, Bound, Charge, CsChange, FaceId, FibError, RibError, StrategyError};
use namely_wire::mgmt::{
    Counter, CsDiskStatus, CsInfo, CsListQuery, CsPacket, Explained, FacePersistency, FaceStatus, FibEntry,
    GeneralStatus, NeighborStatus, RibEntry, Route, RouteOrigin, StrategyChoice, TraceEntry, VipNeighbour,
    VipObject, VipStatus,
};
use namely_wire::{FaceUri, Name, NameRef};

/// Everything that management acts on.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The router's faces.
    pub faces: &'a dyn Faces,
    /// The forwarder's tables.
    pub tables: &'a dyn Tables,
    /// Who is on the links, where that is looked for.
    pub neighbors: Option<&'a dyn Neighbors>,
    /// The content store's disk, where it has one.
    pub disk: Option<&'a dyn CsDisk>,
    /// The virtual plane of VIP, where the router runs one.
    pub vip: Option<&'a dyn Vip>,
    /// Packets that are traced, where the router can.
    pub traces: Option<&'a dyn Traces>,
}

/// Traces of packets. None of these waits for packets.
pub trait Traces {
    /// From now on takes down what becomes of packets below `prefix`, for `time_ms` at most or as
    /// long as the face `face` is there. Returns the trace's number.
    ///
    /// # Errors
    /// Why not, in words.
    fn start(&self, prefix: &Name, time_ms: u64, face: u64) -> Result<u64, String>;

    /// Takes what was taken down since the last time, of `octets_max` octets at most; `None` if
    /// there is no such trace any more.
    fn read(&self, trace: u64, octets_max: usize) -> Option<Traced>;

    /// Ends a trace; false if there is none.
    fn stop(&self, trace: u64) -> bool;
}

/// A part of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Packets, in the order in which they were processed.
    pub entries: Vec<TraceEntry>,
    /// How many were lost since the last time, because nobody read them.
    pub lost: u64,
    /// More waits.
    pub is_more: bool,
}

/// The virtual plane of VIP. None of these waits for it.
pub trait Vip {
    /// What it is and did.
    fn status(&self) -> VipStatus;

    /// The registered objects, in the order of the catalogue.
    fn objects(&self) -> Vec<VipObject>;

    /// The neighbours, in the order of the configuration.
    fn neighbours(&self) -> Vec<VipNeighbour>;
}

/// Who is on the links.
pub trait Neighbors {
    /// This router on each link, its neighbours there, and stations in quarantine.
    fn neighbors(&self) -> Vec<NeighborStatus>;

    /// What was sent, heard and refused; those that are not zero.
    fn counters(&self) -> Vec<Counter>;
}

/// The content store's disk. None of these waits for it.
pub trait CsDisk {
    /// What it is, holds and did.
    fn status(&self) -> CsDiskStatus;

    /// Changes it; what is `None` stays.
    ///
    /// # Errors
    /// What is not allowed, in words; nothing has changed then.
    fn configure(&self, change: &CsDiskChange) -> Result<(), String>;

    /// Erases what is stored under `prefix`: none of it answers from now on.
    ///
    /// # Errors
    /// Why not, in words.
    fn erase(&self, prefix: NameRef<'_>) -> Result<(), String>;

    /// From now on what is stored under `prefix` stays.
    ///
    /// # Errors
    /// Why not, in words.
    fn pin(&self, prefix: NameRef<'_>) -> Result<(), String>;

    /// Takes back a pin; false if there was none.
    fn unpin(&self, prefix: NameRef<'_>) -> bool;
}

/// What of the content store's disk is to change; `None` leaves it as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsDiskChange {
    /// Most octets.
    pub octets_max: Option<u64>,
    /// What is written, in the configuration's words.
    pub admission: Option<String>,
    /// Pending requests from which on it is passed by.
    pub threshold: Option<u64>,
    /// In which order reads and writes are done, in the configuration's words.
    pub queue: Option<String>,
}

/// The router's faces.
pub trait Faces {
    /// Every face, in the order of their ids.
    fn faces(&self) -> Vec<FaceStatus>;

    /// How many there are.
    fn count(&self) -> usize;

    /// One face.
    fn face(&self, face: FaceId) -> Option<FaceStatus>;

    /// Changes a face.
    ///
    /// # Errors
    /// [`UpdateFaceError`]; the face is then as before.
    fn update_face(&self, face: FaceId, settings: &FaceSettings) -> Result<FaceStatus, UpdateFaceError>;

    /// Destroys a face, its routes and its next hops.
    ///
    /// # Errors
    /// [`UpdateFaceError`]: there is no such face, or it is the router's own.
    fn destroy_face(&self, face: FaceId) -> Result<(), UpdateFaceError>;

    /// A face has announced a prefix (`rib/announce`) until a time, ns: the announcement may go
    /// along with its Data. `None` takes that back.
    fn announce(&self, face: FaceId, prefix: &Name, announcement: Option<(&[u8], u64)>) {
        let _ = (face, prefix, announcement);
    }

    /// The addresses on which faces are accepted.
    fn channels(&self) -> Vec<FaceUri>;

    /// What was dropped, by reason, of the whole router and of each face; those that are not zero.
    fn counters(&self) -> Vec<Counter>;
}

/// The forwarder's tables.
pub trait Tables {
    /// Table sizes and packet counters; version and times are filled in by the caller.
    fn status(&self) -> GeneralStatus;

    /// What was dropped, by reason, and how packets went; those that are not zero.
    fn counters(&self) -> Vec<Counter>;

    /// Adds a bounded number of entries of the FIB to `entries`: the first ones, or those from the
    /// place on that an earlier call gave. Returns the next place, if there is one.
    fn fib(&self, from: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32>;

    /// Adds a next hop or changes its cost.
    ///
    /// # Errors
    /// [`FibError`]: there is no such face, or a table is as full as the configuration allows.
    fn fib_add(&self, prefix: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError>;

    /// Removes a next hop; false if there was none.
    fn fib_remove(&self, prefix: NameRef<'_>, face: FaceId) -> bool;

    /// Adds a bounded number of entries of the RIB to `entries`, in the order of names and with the
    /// time that each route has left: the first ones, or those after `last`. Returns the last name,
    /// unless there are none after it.
    fn rib(&self, last: Option<&Name>, now_ns: u64, entries: &mut Vec<RibEntry>) -> Option<Name>;

    /// The faces that this very name has routes to.
    fn rib_faces(&self, prefix: NameRef<'_>) -> Vec<u64>;

    /// Adds a route, or replaces the one of the same prefix, face and origin. The FIB has changed
    /// when this returns.
    ///
    /// # Errors
    /// [`RibError`]: there is no such face, or a table is as full as the configuration allows, or
    /// who is charged has as many as it allows one.
    fn rib_register(
        &self,
        charge: Charge,
        prefix: NameRef<'_>,
        route: &Route,
        now_ns: u64,
    ) -> Result<(), RibError>;

    /// Removes a route; false if there was none.
    fn rib_unregister(&self, prefix: NameRef<'_>, face: FaceId, origin: RouteOrigin) -> bool;

    /// All bound prefixes.
    fn bpt(&self) -> Vec<(Name, FaceId)>;

    /// Binds a prefix to an application's face, which has no more than `of_face_max` then.
    ///
    /// # Errors
    /// [`BindError`]: the prefix overlaps a bound one, the face is none that binds, or too many are
    /// bound.
    fn bpt_bind(&self, face: FaceId, prefix: &Name, of_face_max: usize) -> Result<Bound, BindError>;

    /// Undoes a bind of this face; false if there was none.
    fn bpt_unbind(&self, face: FaceId, prefix: &Name) -> bool;

    /// Whether this face has bound this very prefix.
    fn bpt_holds(&self, face: FaceId, prefix: &Name) -> bool;

    /// The face that has bound `name` or a prefix of it.
    fn bpt_bound_to(&self, name: NameRef<'_>) -> Option<FaceId>;

    /// How many components of `name` are the routable prefix that leads it to the face `local`.
    fn bpt_routed(&self, name: NameRef<'_>) -> Option<usize>;

    /// The strategy choices, in the order of names.
    fn strategies(&self) -> Vec<StrategyChoice>;

    /// Chooses a strategy; the answer is its full name with version.
    ///
    /// # Errors
    /// [`StrategyError`]: there is no such strategy, or the table is full.
    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError>;

    /// Removes a choice; false if there was none.
    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool;

    /// What would become of an Interest for `name` now. What depends on who asks is left out.
    fn explain(&self, name: NameRef<'_>, now_ns: u64) -> Explained;

    /// The content store's state.
    fn cs_info(&self) -> CsInfo;

    /// Changes the content store; what is `None` stays.
    ///
    /// # Errors
    /// What it cannot, in words; nothing has changed then.
    fn cs_configure(&self, change: &CsChange) -> Result<(), String>;

    /// Adds up to `most` packets that the content store has in memory to `packets`, of a bounded
    /// number of its places. Returns from where on there may be more.
    fn cs_list(
        &self,
        query: &CsListQuery,
        most: usize,
        now_ns: u64,
        packets: &mut Vec<CsPacket>,
    ) -> Option<u64>;

    /// Erases up to `count` packets under `prefix`: how many went, and whether more are left.
    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool);

    /// A consumer has refused the Data with this full name: it leaves the content store, and what
    /// was learned of its object is given up. Whether it was there, and how many routes that are.
    fn data_refused(&self, full_name: NameRef<'_>, now_ns: u64) -> (bool, u64);
}

/// A face to make (`faces/create`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceSpec {
    /// The far end: `tcp`, `udp`, `ether` or `memif`. [`Management`](crate::Management) leaves host
    /// names as they are; whoever makes the face looks them up.
    pub remote: FaceUri,
    /// The near end: an address to send from, or the device of an `ether` face. `None` lets the
    /// router choose.
    pub local: Option<FaceUri>,
    /// How it is kept, and how its link works. What is `None` has the router's default.
    pub settings: FaceSettings,
}

impl FaceSpec {
    /// The FacePersistency to make it with: persistent unless another was asked for.
    pub fn persistency(&self) -> FacePersistency {
        self.settings.persistency.unwrap_or(FacePersistency::Persistent)
    }
}

/// Settings of a face that management can read and change. `None` means: the router's default when
/// creating, unchanged when updating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceSettings {
    /// FacePersistency.
    pub persistency: Option<FacePersistency>,
    /// Whether the peer may use IncomingFaceId and NextHopFaceId (Flags bit 0).
    pub local_fields: Option<bool>,
    /// Whether lost link packets are sent again (Flags bit 1); faces of datagrams only.
    pub reliability: Option<bool>,
    /// Whether a long send queue is reported by congestion marks (Flags bit 2).
    pub congestion_marking: Option<bool>,
    /// BaseCongestionMarkingInterval, ns.
    pub marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets of send queue.
    pub marking_threshold_octets: Option<u64>,
    /// Mtu: largest link packet sent, octets; streams have none.
    pub mtu: Option<u64>,
}

/// Why a face was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateFaceError {
    /// Caller: there is one to the same remote; it is given.
    Exists(Box<FaceStatus>),
    /// Caller: faces cannot be made to such a URI.
    Unsupported(String),
    /// Caller: a setting is not possible on this kind of face.
    BadSetting(&'static str),
    /// Environment: the system refused, or the peer did; the system's words.
    Failed(String),
    /// Environment: the router has as many faces as its configuration allows.
    TooManyFaces,
    /// Environment: the router is stopping.
    Stopped,
}

impl fmt::Display for CreateFaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateFaceError::Exists(face) => write!(f, "face {} to {} exists", face.face_id, face.uri),
            CreateFaceError::Unsupported(why) | CreateFaceError::Failed(why) => f.write_str(why),
            CreateFaceError::BadSetting(why) => f.write_str(why),
            CreateFaceError::TooManyFaces => f.write_str("the router has as many faces as it is allowed"),
            CreateFaceError::Stopped => f.write_str("the router is stopping"),
        }
    }
}

impl std::error::Error for CreateFaceError {}

/// Why a face was not changed or destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateFaceError {
    /// Caller: there is no such face.
    NoSuchFace,
    /// Caller: this kind of face cannot be changed so, or not destroyed.
    BadSetting(&'static str),
}

impl fmt::Display for UpdateFaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpdateFaceError::NoSuchFace => "no such face",
            UpdateFaceError::BadSetting(why) => why,
        })
    }
}

impl std::error::Error for UpdateFaceError {}
