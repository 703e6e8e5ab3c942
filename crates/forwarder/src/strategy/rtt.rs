//! An estimate of the round-trip time to one upstream, in whole nanoseconds: the smoothed mean and
//! mean deviation of RFC 6298, with the bounds of ndn-cxx's `RttEstimator`, which NFD's ASF uses.

/// The timeout before there is a measurement, ns.
const RTO_NS_INITIAL: u64 = 1_000_000_000;

/// The bounds of the timeout, ns.
const RTO_NS_MIN: u64 = 200_000_000;
const RTO_NS_MAX: u64 = 60_000_000_000;

/// The least that is waited beyond the mean before an upstream is doubted, ns.
const PATIENCE_NS_MIN: u64 = 2_000_000;

/// A mean and its deviation; no measurement yet while the mean is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RttEstimator {
    srtt_ns: Option<u64>,
    rttvar_ns: u64,
}

impl RttEstimator {
    /// Takes a measurement in: an eighth of what the mean was off, a quarter of the deviation.
    pub(super) fn add(&mut self, rtt_ns: u64) {
        let Some(srtt_ns) = self.srtt_ns else {
            (self.srtt_ns, self.rttvar_ns) = (Some(rtt_ns), rtt_ns / 2);
            return;
        };
        self.rttvar_ns = towards(self.rttvar_ns, srtt_ns.abs_diff(rtt_ns), 4);
        self.srtt_ns = Some(towards(srtt_ns, rtt_ns, 8));
    }

    /// The smoothed round-trip time, ns.
    pub(super) fn srtt_ns(&self) -> Option<u64> {
        self.srtt_ns
    }

    /// After how long without an answer an Interest counts as lost, ns.
    pub(super) fn rto_ns(&self) -> u64 {
        let rto = |srtt_ns: u64| srtt_ns.saturating_add(self.rttvar_ns.saturating_mul(4));
        self.srtt_ns.map_or(RTO_NS_INITIAL, rto).clamp(RTO_NS_MIN, RTO_NS_MAX)
    }

    /// After how long without any answer from an upstream that is being asked it is to be doubted,
    /// ns: less than the timeout, which has a bound for what is not sent again here. `None` before
    /// there is a measurement.
    pub(super) fn patience_ns(&self) -> Option<u64> {
        let margin_ns = |srtt_ns: u64| self.rttvar_ns.saturating_mul(4).max(srtt_ns / 4).max(PATIENCE_NS_MIN);
        self.srtt_ns.map(|srtt_ns| srtt_ns.saturating_add(margin_ns(srtt_ns).min(RTO_NS_MAX)))
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

    #[test]
    fn the_first_measurement_is_taken_as_it_is_and_later_ones_by_an_eighth() {
        let mut rtt = RttEstimator::default();
        assert_eq!((rtt.srtt_ns(), rtt.rto_ns()), (None, 1000 * MS));
        rtt.add(80 * MS);
        assert_eq!((rtt.srtt_ns(), rtt.rto_ns()), (Some(80 * MS), 240 * MS));
        rtt.add(160 * MS);
        assert_eq!((rtt.srtt_ns(), rtt.rttvar_ns), (Some(90 * MS), 50 * MS));
        rtt.add(10 * MS);
        assert_eq!((rtt.srtt_ns(), rtt.rttvar_ns), (Some(80 * MS), 57_500_000));
    }

    #[test]
    fn the_timeout_has_bounds() {
        let mut rtt = RttEstimator::default();
        rtt.add(1);
        assert_eq!(rtt.rto_ns(), RTO_NS_MIN);
        rtt.add(u64::MAX);
        rtt.add(u64::MAX);
        assert_eq!(rtt.rto_ns(), RTO_NS_MAX);
    }
}
