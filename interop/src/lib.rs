//! What the interoperability tests stand on: other people's NDN software, installed once under the
//! target directory, routers on their own sockets and ports, and processes that always end.
//!
//! Never installs anything outside the target directory, never touches the user's keys, and signals
//! only processes that it started. What is missing on this machine (Python, Node.js, a package
//! registry, NFD, NDNd) makes a test print `skipped: <why>` and pass; with
//! `NAMELY_INTEROP_REQUIRED=1` it fails instead.
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

/// Environment variable that turns a skipped test into a failed one.
pub const REQUIRED_VARIABLE: &str = "NAMELY_INTEROP_REQUIRED";

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

/// The value, or `None` after printing why the test is skipped.
///
/// # Panics
/// If tests must not be skipped ([`REQUIRED_VARIABLE`]).
pub fn or_skip<T>(what: Result<T, String>) -> Option<T> {
    match what {
        Ok(value) => Some(value),
        Err(why) if std::env::var_os(REQUIRED_VARIABLE).is_some_and(|v| v == "1") => {
            panic!("{why}, and {REQUIRED_VARIABLE}=1 lets no test be skipped")
        }
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}
