//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod common;
mod hostile;
#[path = "../../vip/tests/model/mod.rs"]
mod model;
mod nbcache;
mod ndise;
mod neighbours;
mod network;
mod queueing;
mod strategies;
mod threads;
mod workloads;
