//! What all workers and ports count together.

use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering};

use crate::options::IoOptions;

/// Limits over all faces, and what is used of them. The counters stand alone: nothing else is read
/// because of their values, so that relaxed orderings do.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Octets of memory that the frames of one port may take.
    pub(crate) queue_octets_max: usize,
    /// Octets of memory that the frames of all ports may take.
    pub(crate) queue_octets_total_max: usize,
    /// Octets of memory that frames take in all queues. Workers add what they queued in steps, and
    /// may subtract before another has added: hence the sign.
    queued_octets: AtomicIsize,
    /// Ports that were ever closed.
    closed: AtomicU64,
}

impl Limits {
    pub(crate) fn new(options: &IoOptions) -> Self {
        Limits {
            queue_octets_max: options.queue_octets_max,
            queue_octets_total_max: options.queue_octets_total_max,
            queued_octets: AtomicIsize::new(0),
            closed: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn queued_octets(&self) -> isize {
        self.queued_octets.load(Ordering::Relaxed)
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
