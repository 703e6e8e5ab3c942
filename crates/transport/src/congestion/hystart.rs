//! HyStart++ (RFC 9406): slow start ends when the round trip grows, before packets are lost.

use super::rule::Path;

/// Bounds of the increase that shows a queue, and its share of the round trip (RFC 9406, 4.3).
const RTT_NS_MIN: u64 = 4_000_000;
const RTT_NS_MAX: u64 = 16_000_000;
const RTT_DIVISOR: u64 = 8;

/// Number of round trips measured before a round is judged (RFC 9406, 4.3).
const SAMPLES: u32 = 8;

/// Growth in conservative slow start, packets for each Data, and its rounds (RFC 9406, 4.3).
const CONSERVATIVE_GROWTH: f64 = 0.25;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The state of slow start.
#[derive(Clone, Copy, Debug)]
pub(super) struct HyStart {
    last_min_ns: u64,
    min_ns: u64,
    samples: u32,
    round_ends: u64,
    /// In conservative slow start, the round trip at its start.
    baseline_ns: Option<u64>,
    rounds: u32,
}

impl Default for HyStart {
    fn default() -> Self {
        HyStart {
            last_min_ns: u64::MAX,
            min_ns: u64::MAX,
            samples: 0,
            round_ends: 0,
            baseline_ns: None,
            rounds: 0,
        }
    }
}

impl HyStart {
    /// Packets by which the window grows for each Data.
    pub(super) fn growth(&self) -> f64 {
        if self.baseline_ns.is_some() { CONSERVATIVE_GROWTH } else { 1.0 }
    }

    /// Processes a Data in slow start. Returns true if slow start ends.
    pub(super) fn on_data(&mut self, path: &Path) -> bool {
        if path.sample.delivered_before >= self.round_ends {
            self.round_ends = path.delivered;
            self.last_min_ns = std::mem::replace(&mut self.min_ns, u64::MAX);
            self.samples = 0;
            if self.baseline_ns.is_some() {
                self.rounds += 1;
                if self.rounds >= CONSERVATIVE_ROUNDS {
                    return true;
                }
            }
        }
        let Some(rtt_ns) = path.sample.rtt_ns else { return false };
        self.min_ns = self.min_ns.min(rtt_ns);
        self.samples += 1;
        if self.samples < SAMPLES || self.last_min_ns == u64::MAX {
            return false;
        }
        let increase_ns = (self.last_min_ns / RTT_DIVISOR).clamp(RTT_NS_MIN, RTT_NS_MAX);
        match self.baseline_ns {
            None if self.min_ns >= self.last_min_ns.saturating_add(increase_ns) => {
                self.baseline_ns = Some(self.min_ns);
                self.rounds = 0;
            }
            // The queue was another's, or jitter.
            Some(baseline_ns) if self.min_ns < baseline_ns => self.baseline_ns = None,
            _ => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Sample;

    const MS: u64 = 1_000_000;

    /// A round of ten Data; returns true if slow start ended in it.
    fn round(hystart: &mut HyStart, delivered: &mut u64, rtt_ns: u64) -> bool {
        let before = *delivered;
        (0..10).any(|_| {
            *delivered += 1;
            let sample = Sample { rtt_ns: Some(rtt_ns), delivered_before: before, ..Sample::default() };
            hystart.on_data(&Path { delivered: *delivered, sample, ..Path::default() })
        })
    }

    #[test]
    fn a_growing_round_trip_ends_slow_start() {
        let (mut hystart, mut delivered) = (HyStart::default(), 0);
        assert!(!round(&mut hystart, &mut delivered, 40 * MS));
        assert!(!round(&mut hystart, &mut delivered, 44 * MS));
        assert_eq!(hystart.growth(), 1.0, "an eighth of 40 ms is 5 ms");
        assert!(!round(&mut hystart, &mut delivered, 50 * MS));
        assert_eq!(hystart.growth(), CONSERVATIVE_GROWTH);
        let ended: Vec<bool> = (0..5).map(|_| round(&mut hystart, &mut delivered, 51 * MS)).collect();
        assert_eq!(ended, [false, false, false, false, true]);
    }

    #[test]
    fn slow_start_resumes_after_jitter() {
        let (mut hystart, mut delivered) = (HyStart::default(), 0);
        for rtt_ms in [40, 50] {
            assert!(!round(&mut hystart, &mut delivered, rtt_ms * MS));
        }
        assert_eq!(hystart.growth(), CONSERVATIVE_GROWTH);
        assert!(!round(&mut hystart, &mut delivered, 41 * MS));
        assert_eq!(hystart.growth(), 1.0);
    }
}
