//! What the interoperability tests stand on: other people's NDN software, installed once under the
//! target directory, routers on their own sockets and ports, and processes that always end.
//!
//! Never installs anything outside the target directory, never touches the user's keys, and signals
//! only processes that it started. What is missing on this machine (Python, Node.js, a package
//! registry, NFD, NDNd) makes a test say that it is skipped, unless `NAMELY_REQUIRED` names it
//! (`namely-skip`).
#![forbid(unsafe_code)]

mod install;
mod peer;
mod router;
mod running;
mod testbed;
mod world;

pub use install::{
    libmemif_bridge, ndndpdk_management, ndngo_memif, python_package, python_requirements, xrootd_python,
};
pub use namely_skip::eventually;
pub use peer::{CommandKey, Peer, Producer, SIGNATURE_TYPES};
pub use router::{ETHER_GROUP, Link, Router, UDP_GROUP, ethernet_of_nfd, find_router, find_tool};
pub use running::{Finished, Running};
pub use testbed::{namespaces, run_testbed};
pub use world::{World, programs};
