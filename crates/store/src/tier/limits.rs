//! Limits of a tier.

use namely_wire::PACKET_OCTETS_MAX;

use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};

/// Requests that pend from which on Interests and Data pass by the disk where they can.
pub const PENDING_THRESHOLD: usize = 64;

/// Maximum number of requests that pend, whether there is a way around or not.
pub const PENDING_MAX: usize = 4096;

/// Smallest and largest budget of a tier. A device has no more than its segments.
pub const OCTETS_MIN: u64 = 1 << 20;
/// See [`OCTETS_MIN`].
pub const OCTETS_MAX: u64 = SEGMENT_OCTETS_MAX * (SEGMENTS_MAX as u64 / 2);

/// Maximum number of threads of [`EngineKind::Threads`](super::EngineKind::Threads).
pub const THREADS_MAX: usize = 64;

/// Maximum number of groups of records that wait to be written, each of [`GROUP_OCTETS`] at most.
pub(crate) const GROUPS_MAX: usize = 16;

/// Octets that are written at once; smaller where segments are.
pub(crate) const GROUP_OCTETS: u64 = 512 << 10;

/// Octets of a block. Direct I/O reads and writes whole blocks.
pub(crate) const BLOCK_OCTETS: u64 = 4096;

/// Of a segment that is thrown away so much may be written again: a quarter.
pub(crate) const REINSERTED_PART: u64 = 4;

/// Least octets of a device.
pub const DEVICE_OCTETS_MIN: u64 = 4 << 20;

/// Maximum number of prefixes that are being erased or still have segments.
pub const ERASED_MAX: usize = 64;

/// Octets of the digest behind a list of erasures.
pub(crate) const DIGEST_OCTETS: usize = 32;

/// Largest list of erasures on the disk, octets.
pub(crate) const ERASED_OCTETS_MAX: usize = 20 + ERASED_MAX * (11 + PACKET_OCTETS_MAX) + DIGEST_OCTETS;
