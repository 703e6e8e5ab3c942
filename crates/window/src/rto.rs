//! The timer for an answer: RFC 6298, in nanoseconds.

use crate::round_trip::{RoundTrip, TimeoutBounds};

/// The bounds of the timer. The minimum is below RFC 6298's second, as in most current systems.
const BOUNDS: TimeoutBounds =
    TimeoutBounds { initial_ns: Rto::INITIAL_NS, min_ns: Rto::MIN_NS, max_ns: Rto::MAX_NS };

/// The estimate of a round trip, and the timer derived from it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rto(RoundTrip);

impl Rto {
    /// The timer before the first measurement (RFC 6298, 2.1).
    pub const INITIAL_NS: u64 = 1_000_000_000;
    /// The shortest timer: less than RFC 6298's second, as in most current systems.
    pub const MIN_NS: u64 = 200_000_000;
    /// The longest timer, and the longest wait for any one answer.
    pub const MAX_NS: u64 = 4_000_000_000;

    /// Adds a measured round trip of a segment that was requested once (Karn's rule).
    pub fn measured(&mut self, rtt_ns: u64) {
        self.0.add(rtt_ns.clamp(1, Self::MAX_NS));
    }

    /// Returns the time to wait for an answer after `timeouts` timeouts: doubled each time.
    pub fn wait_ns(&self, timeouts: u8) -> u64 {
        let wait_ns = self.0.timeout_ns(&BOUNDS);
        (wait_ns << u32::from(timeouts.min(8))).min(Self::MAX_NS)
    }

    /// The time after which an answer is late if others arrive: the timer without its lower bound.
    pub fn late_ns(&self) -> u64 {
        self.0.late_ns().unwrap_or(0)
    }

    /// The smoothed round trip; 0 if none was measured.
    pub fn smoothed_ns(&self) -> u64 {
        self.0.smoothed_ns().unwrap_or(0)
    }
}
