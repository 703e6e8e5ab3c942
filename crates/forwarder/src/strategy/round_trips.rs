//! Round-trip times of upstreams: a histogram for each strategy that measures them, for monitoring.
//! It affects no decision.

use crate::counter::Counter;

/// The inclusive upper bounds of the histogram's buckets, ns. One more bucket counts all longer
/// round trips.
pub const ROUND_TRIP_ENDS_NS: [u64; 16] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
];

/// Round trips by duration. Strategies without measurements, such as `best-route`, add none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTripCounts {
    /// The sum of all round trips, ns.
    pub sum_ns: u64,
    /// The round trips up to each bound of [`ROUND_TRIP_ENDS_NS`] and above the previous bound. The
    /// last element counts those above all bounds.
    pub counts: [u64; ROUND_TRIP_ENDS_NS.len() + 1],
}

#[derive(Default)]
pub(crate) struct RoundTripCounters {
    sum_ns: Counter,
    counts: [Counter; ROUND_TRIP_ENDS_NS.len() + 1],
}

impl RoundTripCounters {
    pub(crate) fn add(&self, rtt_ns: u64) {
        let bucket = ROUND_TRIP_ENDS_NS.iter().take_while(|end_ns| rtt_ns > **end_ns).count();
        // Always present: there is one bucket more than bounds.
        if let Some(count) = self.counts.get(bucket) {
            count.add(1);
            self.sum_ns.add(rtt_ns);
        }
    }

    pub(crate) fn read(&self) -> RoundTripCounts {
        RoundTripCounts { sum_ns: self.sum_ns.value(), counts: self.counts.each_ref().map(Counter::value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_falls_in_its_bucket() {
        let counters = RoundTripCounters::default();
        for end_ns in ROUND_TRIP_ENDS_NS {
            counters.add(end_ns);
        }
        assert_eq!(counters.read().counts[..16], [1; 16]);
        counters.add(0);
        counters.add(50_001);
        counters.add(5_000_000_001);
        let read = counters.read();
        assert_eq!((read.counts[0], read.counts[1], read.counts[2], read.counts[16]), (2, 2, 1, 1));
        assert_eq!(read.sum_ns, ROUND_TRIP_ENDS_NS.iter().sum::<u64>() + 5_000_050_002);
    }
}
