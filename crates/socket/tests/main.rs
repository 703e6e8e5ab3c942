//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod announce;
mod bind;
mod common;
mod datagrams;
mod fetch;
mod hostile;
mod object;
mod on_demand;
mod paths;
mod patterns;
mod poisoned;
mod push;
mod session;
mod stale;
mod store;
mod upgrade;
