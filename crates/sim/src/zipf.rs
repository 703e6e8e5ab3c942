//! Zipf's law over any number of ranks in constant memory: rejection-inversion (Hörmann and
//! Derflinger, 1996).

use crate::math::{exp, ln, pow};
use crate::random::Random;

/// Draws ranks 1 to n, rank k with a probability proportional to k to the power of -exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    ranks: f64,
    exponent: f64,
    /// Integrals of the density up to the first and to the last rank.
    first: f64,
    last: f64,
    /// A draw that is so close to its rank is accepted at once.
    near: f64,
}

impl Zipf {
    /// Creates the law for `ranks` ranks. The exponent is positive; others count as the closest
    /// one that is.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        let exponent = if exponent.is_finite() { exponent.clamp(0.01, 10.0) } else { 1.0 };
        let mut zipf = Zipf { ranks: ranks.max(1) as f64, exponent, first: 0.0, last: 0.0, near: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.ranks + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank, from 1 on.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.last + random.unit() * (self.first - self.last);
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            if rank - x <= self.near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        pow(x, -self.exponent)
    }

    /// True if the integral is a logarithm.
    fn is_harmonic(&self) -> bool {
        (self.exponent - 1.0).abs() < 1e-9
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if self.is_harmonic() { ln(x) } else { (pow(x, power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if self.is_harmonic() {
            return exp(area);
        }
        // Rounding may leave the range in which the power is positive.
        pow((area * power + 1.0).max(f64::MIN_POSITIVE), 1.0 / power)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 50_000;

    #[test]
    fn ranks_are_drawn_by_zipfs_law() {
        for exponent in [0.6, 1.0, 1.4] {
            for ranks in [1, 2, 10, 1_000_000] {
                let (zipf, mut random) = (Zipf::new(ranks, exponent), Random::new(5));
                let mut counts = [0u64; 4];
                for _ in 0..DRAWS {
                    let rank = zipf.draw(&mut random);
                    assert!((1..=ranks).contains(&rank), "{rank}");
                    if let Some(count) = counts.get_mut(rank as usize) {
                        *count += 1;
                    }
                }
                let weight = |rank: u64| (rank as f64).powf(-exponent);
                let sum: f64 = (1..=ranks).map(weight).sum();
                for rank in 1..=ranks.min(3) {
                    let expected = weight(rank) / sum * DRAWS as f64;
                    let error = (counts[rank as usize] as f64 - expected).abs();
                    assert!(error <= 5.0 * expected.sqrt() + 1.0, "{exponent} {ranks} {rank}: {error}");
                }
            }
        }
    }

    #[test]
    fn an_impossible_exponent_is_replaced() {
        let mut random = Random::new(1);
        for exponent in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e9] {
            let zipf = Zipf::new(100, exponent);
            assert!((0..1000).all(|_| (1..=100).contains(&zipf.draw(&mut random))), "{exponent}");
        }
        assert_eq!(Zipf::new(0, 1.0).draw(&mut random), 1);
    }
}
