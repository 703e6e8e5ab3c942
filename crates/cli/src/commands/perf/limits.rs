//! Defaults and limits that the commands of `perf` share.

use crate::failure::Failure;

/// Default prefix of server and client.
pub(super) const PREFIX: &str = "/perf";

/// Default payload of an answer, octets, as of NDN's file servers.
pub(super) const PAYLOAD_OCTETS: usize = 8000;

/// Maximum payload of an answer, octets. The largest packet then has room for a name and a
/// signature.
pub(super) const PAYLOAD_OCTETS_MAX: usize = 8600;

/// Maximum number of connections of one process.
pub(super) const FLOWS_MAX: u16 = 1024;

/// Returns the failure of the command after a panic of a connection's thread.
pub(super) fn thread_failure() -> Failure {
    Failure::failed("a flow ended by a fault of namely's own")
}
