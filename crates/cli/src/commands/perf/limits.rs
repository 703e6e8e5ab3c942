//! Defaults and limits that the commands of `perf` share.

use crate::failure::Failure;

/// Where server and client meet unless told otherwise.
pub(super) const PREFIX: &str = "/perf";

/// Default payload of an answer, octets. File servers of NDN use the same.
pub(super) const PAYLOAD_OCTETS: usize = 8000;

/// Largest payload of an answer, octets: it leaves room for a name and a signature in the largest
/// packet.
pub(super) const PAYLOAD_OCTETS_MAX: usize = 8600;

/// Most connections of one process.
pub(super) const FLOWS_MAX: u16 = 1024;

/// A failure of one of the threads' connections, as the command's own.
pub(super) fn thread_failure() -> Failure {
    Failure::failed("a flow ended by a fault of namely's own")
}
