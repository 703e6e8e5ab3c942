//! How long upstreams took to answer, as the strategies that measure it saw it: a histogram of each
//! such strategy, for who watches it. It decides nothing.

use crate::counter::Counter;

/// Where the histogram's buckets end, ns, each included; one more has all that is longer.
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

/// Round trips by their length. Strategies without measurements, as `best-route`, add none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTripCounts {
    /// The sum of all, ns.
    pub sum_ns: u64,
    /// How many ended within each of [`ROUND_TRIP_ENDS_NS`] and not within the one before; the last
    /// ones took longer.
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
    fn a_round_trip_is_counted_where_it_ends() {
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
