//! Round-trip times, and the timeouts derived from them.
//!
//! Smoothing and the timeout follow RFC 6298. Early loss detection uses the longest recent round
//! trip and not the average, because caches and producers at several distances may answer one
//! fetch.

use namely_window::{RoundTrip, TimeoutBounds};

/// Bounds of the timeout without backoff. The minimum exceeds most pauses of a busy host's
/// scheduler or disk. Early detection finds real losses sooner, except the loss of the last
/// segment.
const BOUNDS: TimeoutBounds =
    TimeoutBounds { initial_ns: 1_000_000_000, min_ns: 500_000_000, max_ns: 60_000_000_000 };

/// Maximum timeout after backoff. A low limit is harmless, because only single Interests are sent
/// while no Data arrive.
const BACKED_OFF_NS_MAX: u64 = 2_000_000_000;

/// Number of doublings after which every timeout has reached its limit.
const BACKOFF_MAX: u32 = 8;

/// Maximum number of doublings of the wait for a retransmitted Interest. A longer wait would delay
/// all later pieces.
const RETRY_DOUBLINGS: u32 = 2;

/// Number of latest round trips; their minimum detects a queue. They are few, so that a growing
/// queue is detected at once, but more than one, so that jitter does not look like a queue.
const RECENT: usize = 16;

/// Minimum time after which an Interest counts as lost because later ones were answered. Caches may
/// reorder answers within this time.
const EARLY_NS_MIN: u64 = 20_000_000;

/// Time for which a minimum round trip is remembered, because paths change.
const MIN_WINDOW_NS: u64 = 10_000_000_000;

/// Time for which a maximum round trip is remembered.
const MAX_WINDOW_NS: u64 = 1_000_000_000;

/// Maximum number of doublings of early detection's wait after spurious retransmissions.
const PATIENCE_MAX: u32 = 4;

/// Statistics of the round trips so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rtt {
    round_trip: RoundTrip,
    min: Extreme,
    max: Extreme,
    recent_ns: [u64; RECENT],
    samples: usize,
    /// The minimum of the current round trip, and of the previous one.
    round_min_ns: u64,
    previous_round_min_ns: u64,
    round_began_ns: u64,
    round_ends_at_ns: u64,
    backoff: u32,
    patience: u32,
}

/// An extreme value over a sliding window of time. It consists of the values of two halves of the
/// window.
#[derive(Clone, Copy, Debug, Default)]
struct Extreme {
    old_ns: u64,
    new_ns: u64,
    turns_at_ns: u64,
}

impl Extreme {
    fn update(&mut self, value_ns: u64, now_ns: u64, window_ns: u64, better: fn(u64, u64) -> u64) {
        if self.new_ns == 0 || now_ns >= self.turns_at_ns {
            self.old_ns = if self.new_ns == 0 { value_ns } else { self.new_ns };
            self.new_ns = value_ns;
            self.turns_at_ns = now_ns.saturating_add(window_ns / 2);
        }
        self.new_ns = better(self.new_ns, value_ns);
    }
}

impl Rtt {
    /// Adds a round trip of an Interest that was sent once. If a new round begins, returns the
    /// approximate sending time of the first Interests whose Data arrived in the previous round.
    pub(super) fn sample(&mut self, rtt_ns: u64, now_ns: u64) -> Option<u64> {
        // 0 means that there is no measurement.
        let rtt_ns = rtt_ns.max(1);
        self.round_trip.add(rtt_ns);
        self.min.update(rtt_ns, now_ns, MIN_WINDOW_NS, u64::min);
        self.max.update(rtt_ns, now_ns, MAX_WINDOW_NS, u64::max);
        self.recent_ns[self.samples % RECENT] = rtt_ns;
        self.samples += 1;
        let mut over = None;
        if now_ns >= self.round_ends_at_ns {
            // The Data at the start of the round answered Interests from one round trip before.
            over = self.round_began_ns.checked_sub(self.smoothed_ns());
            self.round_began_ns = now_ns;
            self.previous_round_min_ns = if self.round_min_ns == 0 { rtt_ns } else { self.round_min_ns };
            self.round_min_ns = rtt_ns;
            self.round_ends_at_ns = now_ns.saturating_add(self.smoothed_ns());
        }
        self.round_min_ns = self.round_min_ns.min(rtt_ns);
        // A new measurement ends the backoff (RFC 6298, 5).
        self.backoff = 0;
        over
    }

    /// Doubles the timeout, because one passed without any Data.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// Records that a Data arrived right after the retransmission of its Interest, so the first
    /// Interest had not been lost.
    pub(super) fn spurious(&mut self) {
        self.patience = (self.patience + 1).min(PATIENCE_MAX);
    }

    /// The time without Data after which an Interest is retransmitted.
    pub(super) fn timeout_ns(&self) -> u64 {
        let base_ns = self.round_trip.timeout_ns(&BOUNDS);
        // The limit applies to the backoff only, so a path with long round trips keeps its timeout.
        (base_ns << self.backoff).min(base_ns.max(BACKED_OFF_NS_MAX))
    }

    /// Maximum time that an Interest may stay unanswered while later ones are answered.
    pub(super) fn early_ns(&self) -> u64 {
        let longest_ns = self.max.old_ns.max(self.max.new_ns);
        let patient_ns = (longest_ns + longest_ns / 4).max(self.round_trip.late_ns().unwrap_or(0));
        // After the timeout the Interest is retransmitted anyway, so a longer wait has no use.
        (patient_ns.max(EARLY_NS_MIN) << self.patience).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    /// [`Rtt::early_ns`] for an Interest that was sent `attempts` times, more than once. From the
    /// fourth time on it grows, up to the timeout, because routers suppress Interests that are
    /// repeated too soon, and because a full queue stays full for a while.
    pub(super) fn retry_ns(&self, attempts: u8) -> u64 {
        let doublings = u32::from(attempts).saturating_sub(3).min(RETRY_DOUBLINGS);
        (self.early_ns() << doublings).min(self.timeout_ns().max(EARLY_NS_MIN))
    }

    pub(super) fn min_ns(&self) -> u64 {
        self.min.old_ns.min(self.min.new_ns)
    }

    pub(super) fn recent_min_ns(&self) -> u64 {
        self.recent_ns.iter().take(self.samples).copied().min().unwrap_or(0)
    }

    pub(super) fn last_round_min_ns(&self) -> u64 {
        self.previous_round_min_ns
    }

    pub(super) fn smoothed_ns(&self) -> u64 {
        self.round_trip.smoothed_ns().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_follows_rtt_and_backs_off() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout_ns(), BOUNDS.initial_ns);
        (0..100).for_each(|i| _ = rtt.sample(600 * MS, i * MS));
        assert!((600 * MS..700 * MS).contains(&rtt.timeout_ns()), "{}", rtt.timeout_ns());
        rtt.back_off();
        assert!(rtt.timeout_ns() >= 1200 * MS);
        (0..10).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), BACKED_OFF_NS_MAX);
        rtt.sample(600 * MS, 101 * MS);
        assert!(rtt.timeout_ns() < 700 * MS, "Data ends the backoff");
        (0..100).for_each(|i| _ = rtt.sample(5_000 * MS, i * MS));
        assert!(rtt.timeout_ns() >= 5_000 * MS, "a long path is waited for");
    }

    #[test]
    fn early_detection_allows_for_the_farthest_source() {
        let mut rtt = Rtt::default();
        for i in 0..1000 {
            rtt.sample(if i % 10 == 0 { 50 * MS } else { MS }, i * MS);
        }
        assert!(rtt.early_ns() > 60 * MS, "{}", rtt.early_ns());
    }

    #[test]
    fn the_minimum_rtt_expires() {
        let mut rtt = Rtt::default();
        rtt.sample(MS, 0);
        assert_eq!(rtt.min_ns(), MS);
        for second in 1..=11 {
            rtt.sample(20 * MS, second * 1000 * MS);
        }
        assert_eq!(rtt.min_ns(), 20 * MS);
    }
}
