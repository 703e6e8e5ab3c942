//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod common;
mod containers;
mod dashboard;
mod docs;
mod ethernet;
mod files;
mod foreign;
mod generated;
mod hops;
mod logs;
mod management;
mod memif;
mod migrate;
mod namespaces;
mod neighbors;
mod offline;
mod rules;
mod testbed;
mod tour;
mod trace;
mod upgrade;
mod users;
mod vip;
mod waiting;
mod why;
