//! The simulator's only source of randomness: seeded generators (SplitMix64, Steele et al. 2014).
//! Each part of a network has one of its own, so that no part depends on the calls of another.

use crate::math::ln;

/// The kinds of parts that have a generator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    /// A node: its forwarder's seed, and its discovery.
    Node,
    /// One direction of a link.
    LinkEnd,
    /// A behavior.
    App,
    /// The outages of a link or node.
    Outage,
}

/// A seeded generator of pseudorandom numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. Equal seeds yield equal numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Creates the generator of a part of a network. Each combination of `seed`, `stream` and `ids`
    /// yields other numbers.
    pub(crate) fn of(seed: u64, stream: Stream, ids: [u32; 2]) -> Self {
        let ids = u64::from(ids[0]) << 32 | u64::from(ids[1]);
        // Mixed before each id, because equal sums of a seed and an id would otherwise be equal
        // generators.
        [stream as u64, ids].into_iter().fold(Random(seed), |random, id| {
            let mixed = Random(random.0).next_u64();
            Random(Random(mixed ^ id).next_u64())
        })
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`; 0 for `n` of 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with a probability of `ppm` per million.
    pub fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a time with an exponential distribution of this mean, at most some forty times as
    /// much.
    pub fn exponential_ns(&mut self, mean_ns: u64) -> u64 {
        (-ln(1.0 - self.unit()) * mean_ns as f64) as u64
    }

    /// Returns four octets, for a Nonce.
    pub fn nonce(&mut self) -> [u8; 4] {
        (self.next_u64() as u32).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean() {
        let mut random = Random::new(9);
        let sum: u64 = (0..10_000).map(|_| random.exponential_ns(1_000)).sum();
        assert!((9_500_000..10_500_000).contains(&sum), "{sum}");
        assert_eq!(random.exponential_ns(0), 0);
    }

    #[test]
    fn each_part_has_its_own_numbers() {
        let mut firsts = Vec::new();
        for seed in 0..4 {
            for stream in [Stream::Node, Stream::LinkEnd, Stream::App, Stream::Outage] {
                for ids in [[0, 0], [0, 1], [1, 0], [1, 1]] {
                    let first = Random::of(seed, stream, ids).next_u64();
                    assert_eq!(Random::of(seed, stream, ids).next_u64(), first);
                    firsts.push(first);
                }
            }
        }
        let count = firsts.len();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), count);
    }

    #[test]
    fn equal_seeds_give_equal_even_numbers() {
        let (mut one, mut other) = (Random::new(3), Random::new(3));
        let mut counts = [0u32; 10];
        for _ in 0..10_000 {
            let n = one.below(10);
            assert_eq!(n, other.below(10));
            counts[n as usize] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(one.below(0), 0);
        let hits = (0..100_000).filter(|_| one.happens(10_000)).count();
        assert!((900..1100).contains(&hits), "{hits}");
    }
}
