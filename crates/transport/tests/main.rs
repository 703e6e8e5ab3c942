//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod common;
mod connection;
mod fetch_simulation;
mod ndndpdk;
mod publish;
