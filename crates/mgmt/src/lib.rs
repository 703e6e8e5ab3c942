//! NFD's management protocol: the commands and datasets under `/localhost/nfd`.
//!
//! [`Management`] processes Interests and returns Data. It acts on the router through [`Control`],
//! and authorizes commands by a [`Policy`]. It never reads a clock or a socket, and never answers a
//! command before the command has taken effect.
//!
//! Follows NFD's management protocol (its pages ControlCommand, StatusDataset, Notification,
//! FaceMgmt, FibMgmt, RibMgmt, CsMgmt, StrategyChoice and ForwarderStatus); `docs/management.md`
//! lists the differences and their reasons.
//!
//! # Example
//!
//! Management of a forwarder without sockets: its general status as `nfdc status` requests it.
//!
//! ```
//! use namely_forwarder::{Config, FaceId, Router};
//! use namely_mgmt::{Control, Requester, FaceSettings, Faces, Incoming};
//! use namely_mgmt::{Management, Now, Policy, UpdateFaceError};
//! use namely_messages::{Counter, Dataset, FaceStatus, GeneralStatus, Scope};
//! use namely_wire::{DataView, FaceUri, InterestBuilder};
//!
//! struct NoFaces;
//!
//! impl Faces for NoFaces {
//!     fn faces(&self) -> Vec<FaceStatus> {
//!         Vec::new()
//!     }
//!     fn count(&self) -> usize {
//!         0
//!     }
//!     fn face(&self, _: FaceId) -> Option<FaceStatus> {
//!         None
//!     }
//!     fn update_face(&self, _: FaceId, _: &FaceSettings) -> Result<FaceStatus, UpdateFaceError> {
//!         Err(UpdateFaceError::NoSuchFace)
//!     }
//!     fn destroy_face(&self, _: FaceId) -> Result<(), UpdateFaceError> {
//!         Err(UpdateFaceError::NoSuchFace)
//!     }
//!     fn channels(&self) -> Vec<FaceUri> {
//!         Vec::new()
//!     }
//!     fn counters(&self) -> Vec<Counter> {
//!         Vec::new()
//!     }
//! }
//!
//! type Tables = Router<std::sync::Arc<[u8]>, parking_lot::RawMutex>;
//! let tables: Tables = Router::new(Config::new(namely_security::sha256), 1)?;
//! let now = Now { ns: 0, unix_ms: 1_700_000_000_000 };
//! let mut management = Management::new("example", Policy::default(), now);
//!
//! let dataset = Dataset::StatusGeneral.prefix(Scope::Localhost);
//! let interest = InterestBuilder::new(dataset).can_be_prefix().must_be_fresh().build();
//! let requester = Requester::Unknown;
//! let incoming = Incoming { interest: &interest, face_id: 300, is_local: true, requester };
//! let mut replies = Vec::new();
//! let (neighbors, disk, vip, traces, draining) = (None, None, None, None, None);
//! let control =
//!     Control { faces: &NoFaces, tables: &tables, neighbors, disk, vip, traces, draining };
//! management.handle(incoming, control, now, &mut replies);
//!
//! let status = GeneralStatus::decode(DataView::parse(&replies[0])?.content)?;
//! assert_eq!((status.version.as_str(), status.pit_entries), ("example", 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod announcement;
mod authenticate;
mod choices;
mod control;
mod counters;
mod dataset;
mod events;
mod management;
mod modules;
mod policy;
mod production;
mod reply;
mod tables;

pub use announcement::{ANNOUNCED_PREFIXES_MAX, Announced};
pub use choices::{CHOICES_MAX, CHOICES_PER_FACE_MAX};
pub use control::{
    Control, CreateFaceError, CsDisk, CsDiskChange, FaceSettings, FaceSpec, Faces, Neighbors, Tables,
    TracePart, Traces, UpdateFaceError, Vip,
};
pub use counters::Counters;
pub use management::{Incoming, Management, NEW_FACES_MAX, NewFace, Now};
pub use modules::bpt::{BINDINGS_PER_FACE_MAX, BOUND_PREFIX_MAX};
pub use modules::hop::{HOP_ANSWERS_PER_SECOND_MAX, HOP_NEXT_MAX};
pub use modules::trace::TRACE_TIME_MS_MAX;
pub use policy::{Act, Loopback, Policy, Requester, Rights};
