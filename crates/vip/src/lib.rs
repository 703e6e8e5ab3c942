//! VIP, joint caching and forwarding (Yeh et al. 2014; N-DISE, ICN 2022): which objects a router
//! keeps and which way it asks for each, agreed with its neighbours and without a controller.
//!
//! A *VIP* is one request for one whole object. Routers count them for each object, send them
//! towards where fewer are ([`Plane`]), and let what they see decide about the real packets: an
//! object is asked for where most of its VIPs went, and kept where most came ([`placement`]).
//! [`Vip`] is the state machine around it that agrees with the neighbours ([`message`] is what they
//! say to each other).
//!
//! This crate reads no clock and no socket, uses no floats, and neither signs nor verifies: its
//! home does. What a neighbour can make it keep is bounded ([`limits`]), and what is refused is
//! counted by reason ([`Counter`]). docs/vip.md explains the plane with one slot worked out.
//!
//! VIP may be covered by patents: see the file NOTICE.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod count;
mod counters;
mod hops;
pub mod limits;
mod link;
pub mod message;
mod neighbour;
mod objects;
pub mod placement;
mod plane;
mod popularity;
mod vip;

pub use count::{COUNT_MAX, Decay, UNIT, VIPS_OCTETS_MAX, vips_of};
pub use counters::{Counter, Counters};
pub use objects::{Object, ObjectId, Objects, ObjectsError};
pub use placement::{NOWHERE, Tier};
pub use plane::{Follow, Plane, PlaneConfig, Totals};
pub use popularity::{HYSTERESIS_PERCENT, Popularity};
pub use vip::{Action, Config, ConfigError, Look, NeighbourConfig, NeighbourStatus, Vip};
