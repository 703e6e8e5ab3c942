//! The estimate of a round trip, and the timeout that follows from it: RFC 6298, section 2, in
//! whole nanoseconds.

/// Bounds of a timeout, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutBounds {
    /// The timeout before a round trip was measured (RFC 6298, 2.1: a second).
    pub initial_ns: u64,
    /// The shortest timeout.
    pub min_ns: u64,
    /// The longest timeout.
    pub max_ns: u64,
}

/// A smoothed round trip and its mean deviation. Both saturate, so no measurement overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    smoothed_ns: Option<u64>,
    deviation_ns: u64,
}

impl RoundTrip {
    /// Adds a measured round trip, of a packet that was sent once (Karn's rule): the mean moves by
    /// an eighth of the difference, the deviation by a quarter.
    #[inline]
    pub fn add(&mut self, rtt_ns: u64) {
        let Some(smoothed_ns) = self.smoothed_ns else {
            (self.smoothed_ns, self.deviation_ns) = (Some(rtt_ns), rtt_ns / 2);
            return;
        };
        self.deviation_ns = towards(self.deviation_ns, smoothed_ns.abs_diff(rtt_ns), 4);
        self.smoothed_ns = Some(towards(smoothed_ns, rtt_ns, 8));
    }

    /// The smoothed round trip, ns; `None` if none was measured.
    pub fn smoothed_ns(&self) -> Option<u64> {
        self.smoothed_ns
    }

    /// Four mean deviations, ns: the margin of the timeout (RFC 6298, 2.3).
    pub fn margin_ns(&self) -> u64 {
        self.deviation_ns.saturating_mul(4)
    }

    /// The smoothed round trip and its margin, ns, without bounds; `None` if none was measured.
    pub fn late_ns(&self) -> Option<u64> {
        self.smoothed_ns.map(|smoothed_ns| smoothed_ns.saturating_add(self.margin_ns()))
    }

    /// The timeout within `bounds`, ns.
    pub fn timeout_ns(&self, bounds: &TimeoutBounds) -> u64 {
        self.late_ns().unwrap_or(bounds.initial_ns).clamp(bounds.min_ns, bounds.max_ns)
    }
}

/// `from`, moved by one `part`th of the way to `to`.
fn towards(from: u64, to: u64, part: u64) -> u64 {
    if to >= from { from + (to - from) / part } else { from - (from - to) / part }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    const BOUNDS: TimeoutBounds =
        TimeoutBounds { initial_ns: 1000 * MS, min_ns: 200 * MS, max_ns: 60_000 * MS };

    #[test]
    fn later_measurements_count_an_eighth() {
        let mut rtt = RoundTrip::default();
        assert_eq!((rtt.smoothed_ns(), rtt.timeout_ns(&BOUNDS)), (None, 1000 * MS));
        rtt.add(80 * MS);
        assert_eq!((rtt.smoothed_ns(), rtt.timeout_ns(&BOUNDS)), (Some(80 * MS), 240 * MS));
        rtt.add(160 * MS);
        assert_eq!((rtt.smoothed_ns(), rtt.deviation_ns), (Some(90 * MS), 50 * MS));
        rtt.add(10 * MS);
        assert_eq!((rtt.smoothed_ns(), rtt.deviation_ns), (Some(80 * MS), 57_500_000));
    }

    #[test]
    fn the_timeout_stays_within_its_bounds() {
        let mut rtt = RoundTrip::default();
        rtt.add(1);
        assert_eq!(rtt.timeout_ns(&BOUNDS), BOUNDS.min_ns);
        rtt.add(u64::MAX);
        rtt.add(u64::MAX);
        assert_eq!(rtt.timeout_ns(&BOUNDS), BOUNDS.max_ns);
    }
}
