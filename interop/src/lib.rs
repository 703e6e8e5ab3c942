//! Base of the interoperability tests: third-party NDN software, installed once under the target
//! directory, routers on their own sockets and ports, and processes that always end.
//!
//! Never installs anything outside the target directory, never touches the user's keys, and signals
//! only processes that it started. If a requirement is missing on this machine (Python, Node.js, a
//! package registry, NFD, NDNd), a test reports that it is skipped, unless `NAMELY_REQUIRED` names
//! the requirement (`namely-testkit`).
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
pub use namely_testkit::eventually;
pub use peer::{CommandKey, Peer, Producer, SIGNATURE_TYPES};
pub use router::{ETHER_GROUP, Link, Router, UDP_GROUP, ethernet_of_nfd, find_router, find_tool};
pub use running::{Finished, Running};
pub use testbed::{namespaces, run_testbed};
pub use world::{World, programs};
