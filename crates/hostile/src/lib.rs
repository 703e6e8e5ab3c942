//! Stations of a link, neighbors of the virtual plane, and routers, that send whatever they are told
//! to: hellos, replies, floods, requests, offers, words. Only tests and the bench use them.
//!
//! Nothing here judges what it sends, so that a router's own checks are what is tested.
#![forbid(unsafe_code)]

mod plane;
mod station;
mod words;

pub use plane::{Asked, BOOT, Neighbor};
pub use station::{Identity, Station};
pub use words::{LIE, NAMES, lie, lie_to};
