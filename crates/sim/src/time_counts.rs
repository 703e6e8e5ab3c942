//! Distributions of times in little memory, for thousands of consumers.

/// Buckets of a power of two.
const PARTS: u64 = 8;

/// Number of buckets, up to 134 s.
const BUCKETS: usize = 25 * PARTS as usize;

/// Counts of times, in buckets of an eighth of a power of two of microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeCounts {
    counts: [u32; BUCKETS],
    len: u64,
    sum_us: u64,
    max_us: u64,
}

impl Default for TimeCounts {
    fn default() -> Self {
        TimeCounts { counts: [0; BUCKETS], len: 0, sum_us: 0, max_us: 0 }
    }
}

impl TimeCounts {
    /// Counts a time.
    pub fn record(&mut self, ns: u64) {
        let us = ns / 1000;
        let count = &mut self.counts[bucket(us).min(BUCKETS - 1)];
        *count = count.saturating_add(1);
        self.len += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds the counts of another one.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.len += other.len;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Returns the number of times.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if no time was counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the mean in ms; 0 without a time.
    pub fn mean_ms(&self) -> f64 {
        self.sum_us as f64 / self.len.max(1) as f64 / 1000.0
    }

    /// Returns the greatest time in ms.
    pub fn max_ms(&self) -> f64 {
        self.max_us as f64 / 1000.0
    }

    /// Returns the time in ms that a share of all times does not exceed, at most an eighth too
    /// long; 0 without a time.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = (self.len as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted.max(1) {
                return (end_us(bucket).min(self.max_us)) as f64 / 1000.0;
            }
        }
        self.max_ms()
    }
}

/// Returns the bucket of a time.
fn bucket(us: u64) -> usize {
    if us < PARTS {
        return us as usize;
    }
    let octave = u64::from(us.ilog2()) - 3;
    (PARTS * (octave + 1) + (us >> octave) % PARTS) as usize
}

/// Returns the end of a bucket's times.
fn end_us(bucket: usize) -> u64 {
    let (octave, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    if octave == 0 { part } else { ((PARTS + part + 1) << (octave - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_the_bucket_around_it() {
        for us in (0..20_000).chain((0..27).map(|bit| 1 << bit)) {
            let own = bucket(us);
            assert!(end_us(own) >= us, "{us}");
            assert!(own == 0 || end_us(own - 1) < us, "{us}");
            assert!(end_us(own) <= us + us / 8, "{us}");
        }
        assert_eq!(bucket((1 << 27) - 1), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_close_to_the_times() {
        let (mut counts, mut half) = (TimeCounts::default(), TimeCounts::default());
        assert!(counts.is_empty() && counts.quantile_ms(0.5) == 0.0);
        for ms in 1..=1000 {
            let half_of = if ms > 500 { &mut half } else { &mut counts };
            half_of.record(ms * 1_000_000);
        }
        counts.merge(&half);
        assert_eq!((counts.len(), counts.mean_ms(), counts.max_ms()), (1000, 500.5, 1000.0));
        assert!((500.0..563.0).contains(&counts.quantile_ms(0.5)), "{}", counts.quantile_ms(0.5));
        assert!((990.0..=1000.0).contains(&counts.quantile_ms(0.99)));
        counts.record(u64::MAX);
        assert_eq!(counts.len(), 1001);
    }
}
