//! RAAQM, remote adaptive active queue management at the receiver, as published: the window rule of
//! the (h)ICN transport (HT-26; Carofiglio, Gallo, Muscariello: ICP, INFOCOM workshops 2012, and
//! multipath, ICNP 2013) with the parameters of its library.
//!
//! Each Data adds γ/W to the window W; there is no slow start. A Data multiplies the window by β
//! with the probability p = p_min + Δp · (RTT − RTT_min) / (RTT_max − RTT_min). Minimum and maximum
//! are those of the last 30 round trips of the path, in microseconds. A timeout or a loss
//! multiplies by β, too. The rule has no answer to marks; here a mark counts as a loss.
//!
//! # Bound
//! In equilibrium γ/W gained equals (1 − β) · p̄ · W lost by each Data, so W = √(γ / ((1 − β) p̄)).
//! With constant round trips p̄ = p_min, and W stays near 707 packets ([`window_bound`]). The
//! fraction above is free of any scale: jitter of a microsecond counts as much as a full queue, and
//! half of it on average is p̄ = Δp / 2, with which W is 7 packets.

use super::rule::{CongestionControl, Path, Signal, WINDOW_INITIAL, WINDOW_MIN, window_pace};

/// Packets added within a round trip.
const GAMMA: f64 = 1.0;

/// The factor of the window in a decrease.
const BETA: f64 = 0.8;

/// The probability at the minimum round trip.
const P_MIN: f64 = 1e-5;

/// The additional probability at the maximum round trip.
const P_SPAN: f64 = 0.2;

/// Number of latest round trips in the minimum and the maximum.
const SAMPLES: usize = 30;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedRaaqm {
    window: f64,
    window_max: f64,
    rtts_us: [u64; SAMPLES],
    samples: usize,
    rtt_ns: u64,
    /// State of the random generator. It is seeded with the round trips, which are as random as the
    /// path.
    dice: u64,
}

impl PublishedRaaqm {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        PublishedRaaqm {
            window: WINDOW_INITIAL.min(window_max),
            window_max,
            rtts_us: [0; SAMPLES],
            samples: 0,
            rtt_ns: 0,
            dice: 0,
        }
    }

    /// Returns the probability with which this Data shrinks the window.
    fn probability(&self, rtt_us: u64) -> f64 {
        // Before 30 round trips are known, none shrinks the window.
        if self.samples < SAMPLES {
            return 0.0;
        }
        let (mut min_us, mut max_us) = (u64::MAX, 0);
        for rtt_us in self.rtts_us {
            min_us = min_us.min(rtt_us);
            max_us = max_us.max(rtt_us);
        }
        if max_us == min_us {
            return P_MIN;
        }
        P_MIN + P_SPAN * rtt_us.saturating_sub(min_us) as f64 / (max_us - min_us) as f64
    }

    /// Returns a number from 0 to 1.
    fn roll(&mut self, rtt_ns: u64) -> f64 {
        // The controller has its own generator so that it is deterministic: equal round trips yield
        // equal windows.
        self.dice = super::rule::mix(self.dice.wrapping_add(rtt_ns));
        // 53 bits are the precision of f64.
        (self.dice >> 11) as f64 / (1u64 << 53) as f64
    }

    fn shrink(&mut self) {
        self.window = (self.window * BETA).max(WINDOW_MIN);
    }
}

impl CongestionControl for PublishedRaaqm {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn pace(&self) -> Option<f64> {
        window_pace(self.window, false, self.rtt_ns)
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        self.rtt_ns = path.rtt_smoothed_ns;
        if limited {
            self.window = (self.window + GAMMA / self.window).min(self.window_max);
        }
        let Some(rtt_ns) = path.sample.rtt_ns else { return };
        let rtt_us = rtt_ns / 1000;
        self.rtts_us[self.samples % SAMPLES] = rtt_us;
        self.samples += 1;
        if self.roll(rtt_ns) < self.probability(rtt_us) {
            self.shrink();
        }
    }

    fn on_congestion(&mut self, _: &Path, signal: Signal) -> bool {
        // `on_data` has already accounted for the delay of each Data.
        if signal == Signal::Queue {
            return false;
        }
        self.shrink();
        true
    }
}

/// The mean window of the rule in packets if the mean of (RTT − RTT_min) / (RTT_max − RTT_min) over
/// all Data is `delay_share`, 0 to 1.
#[cfg(test)]
fn window_bound(delay_share: f64) -> f64 {
    (GAMMA / ((1.0 - BETA) * (P_MIN + P_SPAN * delay_share))).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Sample;

    const MS: u64 = 1_000_000;

    fn path(rtt_ns: u64) -> Path {
        let sample = Sample { rtt_ns: Some(rtt_ns), ..Sample::default() };
        Path { sample, ..Path::default() }
    }

    /// The mean window over the second half of `count` Data with these round trips.
    fn mean_window(count: u64, mut rtt_ns: impl FnMut(u64) -> u64) -> f64 {
        let mut raaqm = PublishedRaaqm::new(100_000);
        let mut sum = 0.0;
        for data in 0..count {
            raaqm.on_data(&path(rtt_ns(data)), true);
            if data >= count / 2 {
                sum += raaqm.window;
            }
        }
        sum / (count - count / 2) as f64
    }

    #[test]
    fn raaqms_probability_rises_with_the_delay() {
        let mut raaqm = PublishedRaaqm::new(1000);
        (0..SAMPLES - 2).for_each(|_| raaqm.on_data(&path(40 * MS), true));
        raaqm.on_data(&path(90 * MS), true);
        assert_eq!(raaqm.probability(90_000), 0.0, "29 samples are too few");
        raaqm.on_data(&path(40 * MS), true);
        assert_eq!(raaqm.probability(40_000), P_MIN);
        assert_eq!(raaqm.probability(65_000), P_MIN + P_SPAN / 2.0);
        assert_eq!(raaqm.probability(90_000), P_MIN + P_SPAN);
        (0..SAMPLES).for_each(|_| raaqm.on_data(&path(90 * MS), true));
        assert_eq!(raaqm.probability(90_000), P_MIN, "a queue that stands becomes the minimum");
    }

    #[test]
    fn raaqms_window_is_bounded_without_any_queue() {
        let window = mean_window(4_000_000, |_| 100 * MS);
        let bound = window_bound(0.0);
        assert!((700.0..715.0).contains(&bound), "{bound}");
        assert!((0.8 * bound..1.1 * bound).contains(&window), "{window} of {bound}");
    }

    #[test]
    fn raaqm_takes_the_least_jitter_for_congestion() {
        let mut dice = 1;
        // Round trips of 100 ms and up to 10 us.
        let window = mean_window(200_000, |_| {
            dice = super::super::rule::mix(dice);
            100 * MS + dice % 10_000
        });
        let bound = window_bound(0.5);
        assert!((7.0..7.2).contains(&bound), "{bound}");
        assert!((0.7 * bound..1.3 * bound).contains(&window), "{window} of {bound}");
    }

    #[test]
    fn raaqm_shrinks_at_losses_and_marks() {
        for signal in [Signal::Loss, Signal::Mark] {
            let mut raaqm = PublishedRaaqm { window: 100.0, ..PublishedRaaqm::new(1000) };
            assert!(raaqm.on_congestion(&Path::default(), signal));
            assert_eq!(raaqm.window, 80.0);
        }
        assert!(!PublishedRaaqm::new(1000).on_congestion(&Path::default(), Signal::Queue));
    }
}
