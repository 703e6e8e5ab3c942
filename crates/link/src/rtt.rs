//! Timing of the reliability service: round trips, and the tolerance for late frames.

use namely_window::{RoundTrip, TimeoutBounds};

use crate::reliability::ACK_DELAY_NS;

/// The bounds of the retransmission timeout.
const BOUNDS: TimeoutBounds =
    TimeoutBounds { initial_ns: 1_000_000_000, min_ns: 200_000_000, max_ns: 4_000_000_000 };

/// Doublings after which the timeout has reached its limit.
const BACKOFF_MAX: u32 = 8;

/// The round trip of a link, and its retransmission timeout.
#[derive(Clone, Debug, Default)]
pub(crate) struct RttEstimator {
    round_trip: RoundTrip,
    backoff: u32,
}

impl RttEstimator {
    pub(crate) fn sample(&mut self, rtt_ns: u64) {
        self.backoff = 0;
        self.round_trip.add(rtt_ns);
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    pub(crate) fn rto_ns(&self) -> u64 {
        self.round_trip.timeout_ns(&BOUNDS).saturating_mul(1 << self.backoff).min(BOUNDS.max_ns)
    }
}

/// The time to wait for an overtaken frame: the peer's acknowledgement delay and a quarter of a
/// round trip. The tolerance grows if retransmitted frames turn out to have been late only (RFC
/// 8985, section 6.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct ReorderTimeout {
    doublings: u32,
    /// Number of lost frames since the last needless retransmission.
    losses: u32,
}

/// The minimum wait in addition to the acknowledgement delay, and the wait without a round trip,
/// ns.
const PATIENCE_NS_MIN: u64 = 1_000_000;
const PATIENCE_NS_INITIAL: u64 = 5_000_000;

/// After this number of doublings the quarter of a round trip becomes a whole one.
const DOUBLINGS_MAX: u32 = 2;

/// After this number of real losses the tolerance returns to a quarter.
const LOSSES_TO_FORGET: u32 = 16;

impl ReorderTimeout {
    pub(crate) fn wait_ns(&self, rtt: &RttEstimator) -> u64 {
        let quarter_ns = rtt.round_trip.smoothed_ns().map_or(PATIENCE_NS_INITIAL, |rtt_ns| rtt_ns / 4);
        ACK_DELAY_NS + (quarter_ns.max(PATIENCE_NS_MIN) << self.doublings)
    }

    pub(crate) fn on_needless(&mut self) {
        *self = ReorderTimeout { doublings: (self.doublings + 1).min(DOUBLINGS_MAX), losses: 0 };
    }

    pub(crate) fn on_loss(&mut self) {
        self.losses += 1;
        if self.losses >= LOSSES_TO_FORGET {
            *self = ReorderTimeout::default();
        }
    }
}
