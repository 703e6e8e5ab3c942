//! Counters and limits that all workers and ports share.

use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use crate::options::IoOptions;

/// Octets of memory that the frames of a port may use regardless of other ports.
pub(crate) const QUEUE_RESERVE_OCTETS: usize = 64 << 10;

/// When the queues' memory is used up, one scan of all ports frees this fraction of it.
pub(crate) const RELIEF: usize = 64;

/// Time between a scan that freed nothing and the next scan, ns.
const RELIEF_REST_NS: u64 = 10_000_000;

/// Limits over all faces, and their use. Except for `closed`, the counters need only relaxed
/// orderings, because their values guard no other memory.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Octets of memory that the frames of one port may use.
    pub(crate) queue_octets_max: usize,
    /// Octets of memory that the frames of all ports may use.
    pub(crate) queue_octets_total_max: usize,
    /// Time for which a peer may accept no frame, ns.
    pub(crate) stall_ns: u64,
    /// Octets of memory that the frames in all queues use. Workers add in batches, and one may
    /// subtract before another has added, so the number is signed.
    queued_octets: AtomicIsize,
    /// Ports that were ever closed.
    closed: AtomicU64,
    /// The earliest time of the next scan, ns.
    relief_ns: AtomicU64,
}

impl Limits {
    pub(crate) fn new(options: &IoOptions) -> Self {
        Limits {
            queue_octets_max: options.queue_octets_max,
            queue_octets_total_max: options.queue_octets_total_max,
            stall_ns: options.stall_ns,
            queued_octets: AtomicIsize::new(0),
            closed: AtomicU64::new(0),
            relief_ns: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn queued_octets(&self) -> isize {
        self.queued_octets.load(Ordering::Relaxed)
    }

    /// Returns true if the queues of all ports together are full.
    #[inline]
    pub(crate) fn are_queues_full(&self, total_octets: isize) -> bool {
        // The cast would turn a negative sum into a huge number.
        total_octets >= 0 && total_octets as usize >= self.queue_octets_total_max
    }

    /// Returns true if a scan may run now.
    pub(crate) fn may_relieve(&self, now_ns: u64) -> bool {
        self.relief_ns.load(Ordering::Relaxed) <= now_ns
    }

    /// Delays the next scan, after one that freed nothing.
    pub(crate) fn rest(&self, now_ns: u64) {
        self.relief_ns.store(now_ns.saturating_add(RELIEF_REST_NS), Ordering::Relaxed);
    }

    pub(crate) fn charge(&self, octets: isize) {
        // An idle turn must not take the cache line of the sum from other workers.
        if octets != 0 {
            self.queued_octets.fetch_add(octets, Ordering::Relaxed);
        }
    }

    /// Counts a port that was closed, after its flag was set. The release pairs with the acquire in
    /// [`Limits::closed`]. A thread that reads the number therefore also reads the flags of all
    /// counted ports.
    pub(crate) fn count_closed(&self) {
        self.closed.fetch_add(1, Ordering::Release);
    }

    /// Returns the number of ports that were ever closed.
    #[inline]
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }
}
