//! What the interoperability tests stand on: other people's NDN software, installed once under the
//! target directory, routers on their own sockets and ports, and processes that always end.
//!
//! Never installs anything outside the target directory, never touches the user's keys, and signals
//! only processes that it started. What is missing on this machine (Python, Node.js, a package
//! registry, NFD, NDNd) makes a test say that it is skipped, unless `NAMELY_REQUIRED` names it
//! (`namely-skip`).
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

mod install;
mod peer;
mod router;
mod running;
mod world;

pub use install::{libmemif_bridge, ndngo_memif, python_package, python_requirements};
pub use peer::{CommandKey, Peer, Producer, SIGNATURE_TYPES};
pub use router::{ETHER_GROUP, Link, Router, find_router, find_tool};
pub use running::{Finished, Running};
pub use world::{World, programs};

/// Waits until `holds`.
///
/// # Panics
/// If it takes too long; `what` says what does not hold.
#[track_caller]
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + running::LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not so");
        std::thread::sleep(Duration::from_millis(50));
    }
}
