//! What management acts on: faces and tables, as traits that the router implements.
//!
//! A call that returns has taken effect: a response is only sent after it (NFD answers `rib/register`
//! before its FIB has changed, so an Interest sent at once may still find no route).

use namely_forwarder::CsPolicy;
use namely_wire::mgmt::{
    Counter, CsInfo, FacePersistency, FaceStatus, FibEntry, GeneralStatus, RibEntry, Route, RouteOrigin,
    StrategyChoice,
};
use namely_wire::{FaceUri, Name, NameRef};

/// Everything that management acts on.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// The router's faces.
    pub faces: &'a dyn Faces,
    /// The forwarder's tables.
    pub tables: &'a dyn Tables,
}

/// The router's faces.
pub trait Faces {
    /// Every face, in the order of numbers.
    fn faces(&self) -> Vec<FaceStatus>;

    /// One face.
    fn face(&self, face_id: u64) -> Option<FaceStatus>;

    /// Changes a face.
    fn update(&self, face_id: u64, settings: &FaceSettings) -> Result<FaceStatus, UpdateError>;

    /// Destroys a face, its routes and its next hops.
    fn destroy(&self, face_id: u64) -> Result<(), UpdateError>;

    /// The addresses on which faces are accepted, as URIs.
    fn channels(&self) -> Vec<String>;

    /// What was dropped, by reason, of the whole router and of each face; those that are not zero.
    fn counters(&self) -> Vec<Counter>;
}

/// The forwarder's tables.
pub trait Tables {
    /// Table sizes and packet counters; version and times are filled in by the caller.
    fn status(&self) -> GeneralStatus;

    /// What was dropped, by reason, and how packets went; those that are not zero.
    fn counters(&self) -> Vec<Counter>;

    /// The FIB, in the order of names.
    fn fib(&self) -> Vec<FibEntry>;

    /// Adds a next hop or changes its cost.
    fn fib_add(&self, prefix: NameRef<'_>, face_id: u64, cost: u64) -> Result<(), TableError>;

    /// Removes a next hop; false if there was none.
    fn fib_remove(&self, prefix: NameRef<'_>, face_id: u64) -> bool;

    /// The RIB, in the order of names, with the time that each route has left.
    fn rib(&self, now_ns: u64) -> Vec<RibEntry>;

    /// Adds a route, or replaces the one of the same prefix, face and origin. The FIB has changed when
    /// this returns.
    fn rib_register(&self, prefix: NameRef<'_>, route: &Route, now_ns: u64) -> Result<(), TableError>;

    /// Removes a route; false if there was none.
    fn rib_unregister(&self, prefix: NameRef<'_>, face_id: u64, origin: RouteOrigin) -> bool;

    /// The strategy choices, in the order of names.
    fn strategies(&self) -> Vec<StrategyChoice>;

    /// Chooses a strategy; the answer is its full name with version.
    fn strategy_set(&self, prefix: NameRef<'_>, strategy: NameRef<'_>) -> Result<Name, StrategyError>;

    /// Removes a choice; false if there was none.
    fn strategy_unset(&self, prefix: NameRef<'_>) -> bool;

    /// The content store's state.
    fn cs_info(&self) -> CsInfo;

    /// Changes the content store; what is none stays.
    fn cs_configure(&self, settings: &CsSettings);

    /// Erases up to `count` packets under `prefix`: how many went, and whether more are left.
    fn cs_erase(&self, prefix: NameRef<'_>, count: u64) -> (u64, bool);
}

/// A face to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceSpec {
    /// The far end: TCP or UDP, with a numeric address or a host name.
    pub remote: FaceUri,
    /// The near end; none lets the router choose.
    pub local: Option<FaceUri>,
    /// How it is kept, and how its link works. What is none has the router's default.
    pub settings: FaceSettings,
}

/// Settings of a face; what is none is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceSettings {
    /// FacePersistency.
    pub persistency: Option<FacePersistency>,
    /// Flags bit 0.
    pub local_fields: Option<bool>,
    /// Flags bit 1.
    pub reliability: Option<bool>,
    /// Flags bit 2.
    pub congestion_marking: Option<bool>,
    /// BaseCongestionMarkingInterval, ns.
    pub marking_interval_ns: Option<u64>,
    /// DefaultCongestionThreshold, octets.
    pub marking_threshold_octets: Option<u64>,
    /// Mtu, octets.
    pub mtu: Option<u64>,
}

/// Settings of the content store; what is none is left alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CsSettings {
    /// Packets at most.
    pub capacity: Option<u64>,
    /// Whether Data enters.
    pub admit: Option<bool>,
    /// Whether Interests are answered.
    pub serve: Option<bool>,
    /// What leaves first.
    pub policy: Option<CsPolicy>,
}

/// Why a face was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// Caller: there is a face to the same remote.
    Exists(Box<FaceStatus>),
    /// Caller: no faces can be made to such a URI.
    Unsupported(String),
    /// Caller: a setting is impossible on this kind of face.
    BadSetting(String),
    /// Environment: the system or the peer refused, or the router has as many faces as it may.
    Failed(String),
}

/// Why a face was not changed or destroyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateError {
    /// Caller: there is no such face.
    NoSuchFace,
    /// Caller: this kind of face cannot be changed so, or not destroyed.
    BadSetting(String),
    /// Environment: the router is stopping.
    Failed(String),
}

/// Why a table did not take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Caller: there is no such face.
    NoSuchFace,
    /// Environment: the table is as full as the configuration allows.
    Full,
}

/// Why a strategy was not chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// Caller: there is no such strategy; says which there are.
    Unknown(String),
    /// As for other tables.
    Table(TableError),
}
