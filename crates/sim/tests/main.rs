//! The integration tests of this crate, as one program: linking is most of what a program costs.

mod common;
mod hostile;
#[path = "../../vip/tests/model/mod.rs"]
mod model;
mod nbcache;
mod ndise;
mod neighbours;
mod network;
mod strategies;
