//! The core's random numbers: a sequence that is determined by its seed.

use crate::hash::{STEP, mix};
use crate::sync::plain::{AtomicU64, Ordering};

/// The position in the sequence.
pub(crate) struct Random(AtomicU64);

impl Random {
    pub(crate) fn new(secret: u64) -> Self {
        Random(AtomicU64::new(secret))
    }

    /// The next random number: the same in each run for the same seed and the same packets.
    pub(crate) fn next(&self) -> u64 {
        // Relaxed: each caller receives a number of its own, and their order does not matter.
        mix(self.0.fetch_add(STEP, Ordering::Relaxed))
    }

    /// The next Nonce for an Interest that lacks one.
    pub(crate) fn nonce(&self) -> [u8; 4] {
        (self.next() as u32).to_be_bytes()
    }
}
