//! Failures of links and nodes that follow from a seed.

use crate::random::{Random, Stream};

/// Maximum number of outages that are drawn.
pub const OUTAGES_MAX: usize = 1_000_000;

/// How often parts of a network fail, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRates {
    /// Mean time until a part fails in ns, of an exponential distribution.
    pub up_ns: u64,
    /// Mean time until a failed part is repaired in ns, of an exponential distribution.
    pub down_ns: u64,
}

/// A time in which a part does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Index of the part.
    pub part: usize,
    /// Its beginning.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
}

/// Draws the outages of `parts` parts that begin before `end_ns`, at most [`OUTAGES_MAX`]. Equal
/// seeds yield equal outages, and each part has its own.
pub fn draw(seed: u64, parts: usize, rates: FailureRates, end_ns: u64) -> Vec<Outage> {
    let mut outages = Vec::new();
    for part in 0..parts {
        let mut random = Random::of(seed, Stream::Outage, [part as u32, (part >> 32) as u32]);
        let mut from_ns = random.exponential_ns(rates.up_ns);
        while from_ns < end_ns && outages.len() < OUTAGES_MAX {
            let until_ns = from_ns.saturating_add(random.exponential_ns(rates.down_ns).max(1));
            outages.push(Outage { part, from_ns, until_ns });
            from_ns = until_ns.saturating_add(random.exponential_ns(rates.up_ns));
        }
    }
    outages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SECOND;

    #[test]
    fn outages_have_their_rates() {
        let rates = FailureRates { up_ns: 9 * SECOND, down_ns: SECOND };
        let outages = draw(3, 1000, rates, 100 * SECOND);
        assert_eq!(draw(3, 1000, rates, 100 * SECOND), outages);
        assert_ne!(draw(4, 1000, rates, 100 * SECOND), outages);
        let down_ns: u64 = outages.iter().map(|outage| outage.until_ns - outage.from_ns).sum();
        let share = down_ns as f64 / (1000.0 * 100.0 * SECOND as f64);
        assert!((0.09..0.11).contains(&share), "{share}");
        let few = draw(3, 10, rates, 100 * SECOND);
        assert_eq!(few, outages[..few.len()], "parts have outages of their own");
        for pair in outages.windows(2).filter(|pair| pair[0].part == pair[1].part) {
            assert!(pair[0].until_ns <= pair[1].from_ns);
        }
    }

    #[test]
    fn outages_have_a_limit() {
        let rates = FailureRates { up_ns: 1, down_ns: 1 };
        assert_eq!(draw(1, 2, rates, u64::MAX).len(), OUTAGES_MAX);
    }
}
