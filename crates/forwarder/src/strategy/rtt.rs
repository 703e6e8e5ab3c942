//! An estimate of the round trip to one upstream, with the bounds of ndn-cxx's `RttEstimator`,
//! which NFD's ASF uses.

use namely_window::{RoundTrip, TimeoutBounds};

/// The bounds of the timeout.
const BOUNDS: TimeoutBounds =
    TimeoutBounds { initial_ns: 1_000_000_000, min_ns: 200_000_000, max_ns: 60_000_000_000 };

/// Minimum time beyond the smoothed round trip after which an upstream is doubted, ns.
const PATIENCE_NS_MIN: u64 = 2_000_000;

/// The round trip to one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RttEstimator(RoundTrip);

impl RttEstimator {
    /// Adds a measured round trip.
    pub(super) fn add(&mut self, rtt_ns: u64) {
        self.0.add(rtt_ns);
    }

    /// The smoothed round trip, ns.
    pub(super) fn srtt_ns(&self) -> Option<u64> {
        self.0.smoothed_ns()
    }

    /// The time without an answer after which an Interest counts as lost, ns.
    pub(super) fn rto_ns(&self) -> u64 {
        self.0.timeout_ns(&BOUNDS)
    }

    /// The time without any answer after which an upstream in use is doubted, ns. It is shorter
    /// than the timeout. The lower bound of the timeout is meant for retransmissions, which a doubt
    /// does not cause. `None` before the first measurement.
    pub(super) fn patience_ns(&self) -> Option<u64> {
        let margin_ns = |srtt_ns: u64| self.0.margin_ns().max(srtt_ns / 4).max(PATIENCE_NS_MIN);
        self.srtt_ns().map(|srtt_ns| srtt_ns.saturating_add(margin_ns(srtt_ns).min(BOUNDS.max_ns)))
    }
}
