//! What the reliability service knows of time: round trips, and how long frames may be late.

use crate::reliability::ACK_DELAY_NS;

/// Round-trip time and retransmission timeout (RFC 6298), in integers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RttEstimator {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    backoff: u32,
}

const RTO_NS_INITIAL: u64 = 1_000_000_000;
const RTO_NS_MIN: u64 = 200_000_000;
const RTO_NS_MAX: u64 = 4_000_000_000;

impl RttEstimator {
    pub(crate) fn sample(&mut self, rtt_ns: u64) {
        self.backoff = 0;
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(rtt_ns);
                self.variation_ns = rtt_ns / 2;
            }
            Some(smoothed_ns) => {
                self.variation_ns = (3 * self.variation_ns + smoothed_ns.abs_diff(rtt_ns)) / 4;
                self.smoothed_ns = Some((7 * smoothed_ns + rtt_ns) / 8);
            }
        }
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(8);
    }

    pub(crate) fn rto_ns(&self) -> u64 {
        let base_ns = match self.smoothed_ns {
            None => RTO_NS_INITIAL,
            Some(smoothed_ns) => (smoothed_ns + 4 * self.variation_ns).max(RTO_NS_MIN),
        };
        base_ns.saturating_mul(1 << self.backoff).min(RTO_NS_MAX)
    }
}

/// How long a frame that was overtaken is waited for: until a peer that has it must have said so,
/// and a quarter of a round trip; more where frames that went again turn out to have been late only
/// (RFC 8985, section 6.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Patience {
    doublings: u32,
    /// Frames that were given up since one of them was needless.
    losses: u32,
}

/// What is waited beside that at least, and where there is no round trip to go by, ns.
const PATIENCE_NS_MIN: u64 = 1_000_000;
const PATIENCE_NS_INITIAL: u64 = 5_000_000;

/// Twice this often doubled, a quarter of a round trip is the whole.
const DOUBLINGS_MAX: u32 = 2;

/// After so many losses that were none of lateness it is a quarter again.
const LOSSES_TO_FORGET: u32 = 16;

impl Patience {
    pub(crate) fn wait_ns(&self, rtt: &RttEstimator) -> u64 {
        let quarter_ns = rtt.smoothed_ns.map_or(PATIENCE_NS_INITIAL, |rtt_ns| rtt_ns / 4);
        ACK_DELAY_NS + (quarter_ns.max(PATIENCE_NS_MIN) << self.doublings)
    }

    pub(crate) fn on_needless(&mut self) {
        *self = Patience { doublings: (self.doublings + 1).min(DOUBLINGS_MAX), losses: 0 };
    }

    pub(crate) fn on_loss(&mut self) {
        self.losses += 1;
        if self.losses >= LOSSES_TO_FORGET {
            *self = Patience::default();
        }
    }
}
