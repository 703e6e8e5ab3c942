//! VIP, joint caching and forwarding (Yeh et al. 2014; N-DISE, ICN 2022). A router and its
//! neighbors agree, without a controller, on the objects that the router caches and on the next
//! hop for each.
//!
//! A *VIP* is one request for one whole object. Routers count them for each object and send them
//! towards neighbors with lower counts ([`Plane`]). The real packets follow the counts: Interests
//! for an object take the direction of most of its VIPs, and a router caches the objects for which
//! most VIPs arrived ([`placement`]). [`Vip`] is the state machine that exchanges counts with the
//! neighbors; [`message`] contains the messages.
//!
//! This crate reads no clock and no socket, and neither signs nor verifies; the embedding program
//! does. It uses no floats. All state that a neighbor can create is bounded ([`limits`]), and
//! refusals are counted by reason ([`Counter`]). docs/vip.md works out one slot as an example.
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
pub use plane::{PlacementSource, Plane, PlaneConfig, Totals};
pub use popularity::{HYSTERESIS_PERCENT, Popularity};
pub use vip::{Action, Config, ConfigError, NeighbourConfig, NeighbourStatus, PacketDecision, Vip};
