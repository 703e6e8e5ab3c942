//! What all workers and ports count together.

use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use crate::options::IoOptions;

/// Octets of memory that the frames of a port may take whatever others take.
pub(crate) const QUEUE_RESERVE_OCTETS: usize = 64 << 10;

/// The part of all queues' memory that is made free at once when it is in use, by a look at all
/// ports.
pub(crate) const RELIEF: usize = 64;

/// How long nobody looks for something to drop after nothing was found, ns.
const RELIEF_REST_NS: u64 = 10_000_000;

/// Limits over all faces, and what is used of them. The counters stand alone: nothing else is read
/// because of their values, so that relaxed orderings do.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Octets of memory that the frames of one port may take.
    pub(crate) queue_octets_max: usize,
    /// Octets of memory that the frames of all ports may take.
    pub(crate) queue_octets_total_max: usize,
    /// How long a peer may take nothing, ns.
    pub(crate) stall_ns: u64,
    /// Octets of memory that frames take in all queues. Workers add what they queued in steps, and
    /// may subtract before another has added: hence the sign.
    queued_octets: AtomicIsize,
    /// Ports that were ever closed.
    closed: AtomicU64,
    /// When somebody may look again for something to drop, ns.
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
        total_octets >= 0 && total_octets as usize >= self.queue_octets_total_max
    }

    /// Whether somebody may look for something to drop.
    pub(crate) fn may_relieve(&self, now_ns: u64) -> bool {
        self.relief_ns.load(Ordering::Relaxed) <= now_ns
    }

    /// Nothing was found.
    pub(crate) fn rest(&self, now_ns: u64) {
        self.relief_ns.store(now_ns.saturating_add(RELIEF_REST_NS), Ordering::Relaxed);
    }

    pub(crate) fn charge(&self, octets: isize) {
        if octets != 0 {
            self.queued_octets.fetch_add(octets, Ordering::Relaxed);
        }
    }

    /// A port was closed, and its flag says so. Released here and acquired in [`Limits::closed`]:
    /// whoever sees the number sees the flags of all that are counted.
    pub(crate) fn count_closed(&self) {
        self.closed.fetch_add(1, Ordering::Release);
    }

    /// How many ports were ever closed.
    #[inline]
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }
}
