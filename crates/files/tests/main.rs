//! The integration tests of this crate, as one program: linking dominates the cost of a test
//! program.

mod checksums;
mod common;
mod file_server_protocol;
mod hostile_target;
mod jobs;
mod kept_octets;
mod mirrors;
mod put;
mod ranges;
mod serve_and_get;
mod shared_folder;
mod trees;
mod versions;
