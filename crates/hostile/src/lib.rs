//! Hostile peers for tests and the bench: a station of a link, a neighbor of the virtual plane, a
//! router that lies to its clients.
//!
//! They check nothing before they send it, so that a test exercises the checks of the receiver.
#![forbid(unsafe_code)]

mod plane;
mod station;
mod words;

pub use plane::{BOOT, Neighbor, Request};
pub use station::{Identity, Station};
pub use words::{LIE, NAMES, lie, lie_to};
