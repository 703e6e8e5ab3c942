//! Limits of a tier.

use namely_wire::PACKET_OCTETS_MAX;

use super::place::{SEGMENT_OCTETS_MAX, SEGMENTS_MAX};

/// Requests to the tier that pend before others bypass it.
///
/// A holder below its share of the threshold (the threshold divided by the holders with pending
/// reads) may have requests beyond it.
///
/// # Limit
/// Interests and Data bypass the disk if they can.
/// - Value: 64; twice that for holders below their share, half of the excess for this machine's
///   users only
/// - Counter: `bypassed_reads`, `bypassed_writes`
/// - Tests: `requests_bypass_a_stalled_disk`,
///   `a_holder_above_its_share_waits`,
///   `pending_reads_reserve_room_for_local_users`
pub const PENDING_THRESHOLD: usize = 64;

/// Requests to the tier that pend, with or without a bypass.
///
/// The shares of holders are computed as for [`PENDING_THRESHOLD`].
///
/// # Limit
/// A further request is refused.
/// - Value: 4096; twice that for holders below their share, half of the excess for this machine's
///   users only
/// - Counter: `refused_reads`
/// - Tests: `requests_bypass_a_stalled_disk`,
///   `a_holder_above_its_share_waits`,
///   `pending_reads_reserve_room_for_local_users`
pub const PENDING_MAX: usize = 4096;

/// Smallest budget of a tier in octets.
pub const OCTETS_MIN: u64 = 1 << 20;
/// Largest budget of a tier in octets. The budget of a device is at most the octets of its
/// segments.
pub const OCTETS_MAX: u64 = SEGMENT_OCTETS_MAX * (SEGMENTS_MAX as u64 / 2);

/// Threads that read and write the disk.
///
/// The limit applies to [`EngineKind::Threads`](super::EngineKind::Threads).
///
/// # Limit
/// A larger number is refused.
/// - Value: 8 by default, at most 64
/// - Tests: `a_tier_budget_has_limits`
pub const THREADS_MAX: usize = 64;

/// Groups of records that wait to be written to the tier.
///
/// Each group has [`GROUP_OCTETS`] at most.
///
/// # Limit
/// Data is not written.
/// - Value: 16 of 512 KiB
/// - Counter: `no_room`
/// - Tests: `waiting_write_groups_are_limited`
pub(crate) const GROUPS_MAX: usize = 16;

/// Octets of a group of records, which one request writes.
///
/// A group has fewer octets if segments are small.
///
/// # Limit
/// A further record begins another group.
/// - Tests: `waiting_write_groups_are_limited`
pub(crate) const GROUP_OCTETS: u64 = 512 << 10;

/// Octets of a block. Direct I/O reads and writes whole blocks.
pub(crate) const BLOCK_OCTETS: u64 = 4096;

/// Octets of an evicted segment that may be written again.
///
/// The constant is the divisor of the segment's octets.
///
/// # Limit
/// The rest of the segment is evicted.
/// - Value: a quarter of the segment
/// - Counter: `evicted`
/// - Tests: `the_oldest_unpinned_records_are_evicted`
pub(crate) const REINSERTED_PART: u64 = 4;

/// Minimum octets of a device for the tier.
///
/// The tier uses 2 TiB of a larger device.
///
/// # Limit
/// A smaller device is refused.
/// - Tests: `a_device_has_a_minimum_size`
pub const DEVICE_OCTETS_MIN: u64 = 4 << 20;

/// Erased prefixes of a tier with segments from before the erasure.
///
/// # Limit
/// The erasure of a further prefix is refused.
/// - Tests: `pinned_and_erased_prefixes_are_limited`
pub const ERASED_MAX: usize = 64;

/// Packets reported by full name that the tier has yet to erase.
///
/// Each costs a read of its record and, if the digest agrees, a new index of its segment.
///
/// # Limit
/// The erasure of a further packet is refused.
/// - Tests: `erasures_by_full_name_are_limited`
pub(crate) const EXACT_ERASURES_MAX: usize = 64;

/// Octets of the digest after a list of erasures.
pub(crate) const DIGEST_OCTETS: usize = 32;

/// Maximum octets of a list of erasures on the disk.
pub(crate) const ERASED_OCTETS_MAX: usize = 20 + ERASED_MAX * (11 + PACKET_OCTETS_MAX) + DIGEST_OCTETS;
