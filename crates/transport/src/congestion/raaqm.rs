//! RAAQM: remote adaptive active queue management at the receiver, the delay-based control of the
//! (h)ICN transport (HT-26; Carofiglio et al., ICP and RAAQM).
//!
//! Each Data adds γ/W to the window W, as in AIMD. Before there is any loss, the consumer acts as
//! the queue manager of the path. A Data multiplies the window by β with a probability that rises
//! with the round trip between its minimum and its maximum: p = p_min + Δp · (RTT − RTT_min) /
//! (RTT_max − RTT_min).
//!
//! Differences: Δp is 0.02, not 0.2. With 0.2 a window that fills the path shrinks before the queue
//! is as long as a packet, and two flows leave a tenth of the link unused. RTT_min is the minimum
//! of the last seconds, not of 30 samples. A queue that stands for longer than 30 samples is
//! therefore still detected. RTT_max − RTT_min is at least [`SPAN_NS_MIN`], so that the queue of a
//! packet or two does not reach the maximum probability. Loss counts as for [`super::Cubic`]:
//! without a queue it is no evidence of congestion. A mark multiplies by β.

use super::rule::{CongestionControl, LOSS_MAX, Path, Signal, WINDOW_INITIAL, WINDOW_MIN};

/// Packets added within a round trip.
const GAMMA: f64 = 1.0;

/// The factor of the window in a decrease.
const BETA: f64 = 0.8;

/// The probability at the minimum round trip.
const P_MIN: f64 = 1e-5;

/// The additional probability at the maximum round trip.
const P_SPAN: f64 = 0.02;

/// Number of latest round trips in the maximum.
const SAMPLES: usize = 30;

/// The minimum range of round trips.
const SPAN_NS_MIN: u64 = 25_000_000;

/// The controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raaqm {
    window: f64,
    window_max: f64,
    slow_start: bool,
    rtts_ns: [u64; SAMPLES],
    samples: usize,
    /// State of the random generator. It is seeded with the round trips, which are as random as the
    /// path.
    dice: u64,
}

impl Raaqm {
    /// Creates a controller with a window of at most `window_max` packets.
    pub(super) fn new(window_max: usize) -> Self {
        let window_max = (window_max as f64).max(WINDOW_MIN);
        Raaqm {
            window: WINDOW_INITIAL.min(window_max),
            window_max,
            slow_start: true,
            rtts_ns: [0; SAMPLES],
            samples: 0,
            dice: 0,
        }
    }

    /// Returns the probability with which this Data shrinks the window.
    fn probability(&self, rtt_ns: u64, rtt_min_ns: u64) -> f64 {
        let rtt_max_ns = self.rtts_ns.iter().take(self.samples).copied().max().unwrap_or(0);
        // On a path without a queue, jitter alone would otherwise reach the maximum probability.
        let span_ns = rtt_max_ns.saturating_sub(rtt_min_ns).max(SPAN_NS_MIN);
        P_MIN + P_SPAN * rtt_ns.saturating_sub(rtt_min_ns) as f64 / span_ns as f64
    }

    /// Returns a number from 0 to 1 (SplitMix64's mix).
    fn roll(&mut self, rtt_ns: u64) -> f64 {
        // The controller has its own generator so that it is deterministic: equal round trips yield
        // equal windows.
        self.dice = self.dice.wrapping_add(rtt_ns).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 53 bits are the precision of f64.
        (z >> 11) as f64 / (1u64 << 53) as f64
    }

    fn shrink(&mut self) {
        self.slow_start = false;
        self.window = (self.window * BETA).max(WINDOW_MIN);
    }
}

impl CongestionControl for Raaqm {
    fn window(&self) -> usize {
        self.window as usize
    }

    fn begin_with(&mut self, packets: usize) {
        self.window = (packets as f64).clamp(WINDOW_MIN, self.window_max);
    }

    fn on_data(&mut self, path: &Path, limited: bool) {
        if let Some(rtt_ns) = path.sample.rtt_ns {
            self.rtts_ns[self.samples % SAMPLES] = rtt_ns;
            self.samples += 1;
            if self.roll(rtt_ns) < self.probability(rtt_ns, path.rtt_min_ns) {
                self.shrink();
                return;
            }
        }
        if limited {
            let growth = if self.slow_start { 1.0 } else { GAMMA / self.window };
            self.window = (self.window + growth).min(self.window_max);
        }
    }

    fn on_congestion(&mut self, path: &Path, signal: Signal) -> bool {
        let answered = match signal {
            Signal::Mark => true,
            Signal::Loss => path.loss > LOSS_MAX || path.share_without_queue() < 1.0,
            // `on_data` has already accounted for the delay of each Data.
            Signal::Queue => false,
        };
        if answered {
            self.shrink();
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Sample;

    const MS: u64 = 1_000_000;

    fn path(rtt_ns: u64) -> Path {
        let sample = Sample { rtt_ns: Some(rtt_ns), ..Sample::default() };
        Path { rtt_min_ns: 40 * MS, rtt_round_ns: rtt_ns, sample, ..Path::default() }
    }

    /// Returns the window after `count` Data of these round trips, from 100.
    fn after(count: usize, rtt_ns: u64) -> f64 {
        let mut raaqm = Raaqm { window: 100.0, slow_start: false, ..Raaqm::new(1000) };
        (0..count).for_each(|_| raaqm.on_data(&path(rtt_ns), true));
        raaqm.window
    }

    #[test]
    fn raaqms_probability_rises_with_the_delay() {
        let mut raaqm = Raaqm::new(1000);
        raaqm.on_data(&path(90 * MS), true);
        assert_eq!(raaqm.probability(40 * MS, 40 * MS), P_MIN);
        assert_eq!(raaqm.probability(65 * MS, 40 * MS), P_MIN + P_SPAN / 2.0);
        assert_eq!(raaqm.probability(90 * MS, 40 * MS), P_MIN + P_SPAN);
    }

    #[test]
    fn raaqms_window_follows_the_queue() {
        assert!((100.9..101.1).contains(&after(100, 40 * MS)), "{}", after(100, 40 * MS));
        assert!(after(1000, 80 * MS) < 50.0, "{}", after(1000, 80 * MS));
    }

    #[test]
    fn raaqm_ignores_loss_without_a_queue() {
        for (signal, rtt_ns, loss, left) in [
            (Signal::Loss, 40 * MS, 0.01, 100.0),
            (Signal::Loss, 60 * MS, 0.01, 80.0),
            (Signal::Loss, 40 * MS, 0.2, 80.0),
            (Signal::Mark, 40 * MS, 0.0, 80.0),
        ] {
            let mut raaqm = Raaqm { window: 100.0, ..Raaqm::new(1000) };
            raaqm.on_congestion(&Path { loss, ..path(rtt_ns) }, signal);
            assert_eq!(raaqm.window, left, "{signal:?} {rtt_ns} {loss}");
        }
    }
}
