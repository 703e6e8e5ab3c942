//! One counter, the element of the sets of counters.

use crate::sync::plain::{AtomicU64, Ordering};

/// A number that only grows; readers may be a moment behind.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed here and below: no other memory is ordered by a counter.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
