//! NFD's management protocol: what `/localhost/nfd` answers.
//!
//! [`Management`] takes Interests and gives Data. It acts on the router through [`Control`], and decides by a
//! [`Policy`] who may do what. It never reads a clock or a socket, and never answers a command before the
//! command has taken effect.
//!
//! Follows NFD's management protocol; `docs/management.md` lists what is answered differently, and why.
#![forbid(unsafe_code)]

mod announcement;
mod authenticate;
mod control;
mod counters;
mod dataset;
mod events;
mod management;
mod modules;
mod policy;
mod reply;
mod tables;

pub use announcement::{ANNOUNCED_COST, ANNOUNCED_MS_MAX};
pub use control::{Control, CreateFaceError, FaceSettings, FaceSpec, Faces, Tables, UpdateFaceError};
pub use counters::Counters;
pub use dataset::{SEGMENT_OCTETS_MAX, SNAPSHOT_LIFETIME_NS, SNAPSHOT_OCTETS_MAX, SNAPSHOTS_MAX};
pub use events::{EVENTS_MAX, SUBSCRIPTIONS_MAX};
pub use management::{Incoming, Management, NEW_FACES_MAX, NewFace, Now};
pub use modules::cs::ERASE_MAX;
pub use policy::{Act, Credentials, Policy, Rights};
pub use reply::FRESHNESS_MS;
