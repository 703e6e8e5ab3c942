//! Hostile peers for tests and the bench: a station of a link, a neighbor of the virtual plane, and
//! a router that lies to its clients.
//!
//! They check nothing before they send. So a test exercises the checks of the receiver.

mod plane;
mod station;
mod words;

pub use plane::{BOOT, Neighbor, Request};
pub use station::{HostilePeer, Identity};
pub use words::{LIE, NAMES, lie, lie_to};
