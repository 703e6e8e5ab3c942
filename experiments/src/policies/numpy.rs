//! The random numbers that numpy's default generator yields, so that a trace is the published one
//! to the last key: PCG64 (O'Neill, XSL-RR output), bounded integers by Lemire's method, normal
//! deviates by the ziggurat of 256 layers (Marsaglia and Tsang).

/// PCG's multiplier for 128 bits.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// The start of the ziggurat's tail, and the area of each of its layers.
const TAIL: f64 = 3.654_152_885_361_009;
const AREA: f64 = 0.004_928_673_233_974_658;

/// A generator in the state that numpy reports as `bit_generator.state`.
#[derive(Clone, Debug)]
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of a number, if only its lower half has been used.
    half: Option<u32>,
}

impl Pcg64 {
    /// A generator in this state.
    pub(super) fn new(state: u128, increment: u128, half: Option<u32>) -> Self {
        Pcg64 { state, increment, half }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
        ((self.state >> 64) as u64 ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    fn next_half(&mut self) -> u32 {
        self.half.take().unwrap_or_else(|| {
            let next = self.next();
            self.half = Some((next >> 32) as u32);
            next as u32
        })
    }

    /// Skips `count` numbers.
    pub(super) fn advance(&mut self, mut count: u64) {
        let (mut multiplier, mut increment) = (MULTIPLIER, self.increment);
        while count > 0 {
            if count & 1 == 1 {
                self.state = self.state.wrapping_mul(multiplier).wrapping_add(increment);
            }
            increment = multiplier.wrapping_add(1).wrapping_mul(increment);
            multiplier = multiplier.wrapping_mul(multiplier);
            count >>= 1;
        }
    }

    /// Returns a number from 0 to below 1, as `Generator.random` does.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number from 0 to below `n`, as `Generator.integers` does. `n` is above 1.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        let threshold = (u32::MAX - (n - 1)) % n;
        loop {
            let product = u64::from(self.next_half()) * u64::from(n);
            if product as u32 >= threshold {
                return (product >> 32) as u32;
            }
        }
    }

    /// `Generator.permutation` of the numbers below `n`.
    pub(super) fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..n).collect();
        for i in (1..n).rev() {
            let mask = u32::MAX >> i.leading_zeros();
            let j = loop {
                let j = self.next_half() & mask;
                if j <= i {
                    break j;
                }
            };
            numbers.swap(i as usize, j as usize);
        }
        numbers
    }
}

/// `Generator.standard_normal`.
pub(super) struct Normal {
    /// Per layer: the bound below which a point is surely under the curve, the width of one step,
    /// and the height of the curve at the layer's edge.
    layers: [(u64, f64, f64); 256],
}

impl Default for Normal {
    fn default() -> Self {
        let steps = (1u64 << 52) as f64;
        let height = |x: f64| (-0.5 * x * x).exp();
        let mut layers = [(0, 0.0, 0.0); 256];
        let base = AREA / height(TAIL);
        layers[0] = ((TAIL / base * steps) as u64, base / steps, 1.0);
        layers[255] = (0, TAIL / steps, height(TAIL));
        let mut outer = TAIL;
        for i in (1..255).rev() {
            let x = (-2.0 * (AREA / outer + height(outer)).ln()).sqrt();
            layers[i + 1].0 = (x / outer * steps) as u64;
            layers[i] = (0, x / steps, height(x));
            outer = x;
        }
        Normal { layers }
    }
}

impl Normal {
    /// The next deviate.
    pub(super) fn draw(&self, random: &mut Pcg64) -> f64 {
        loop {
            let bits = random.next();
            let layer = (bits & 0xff) as usize;
            let negative = bits >> 8 & 1 == 1;
            let distance = bits >> 9 & 0x000f_ffff_ffff_ffff;
            let (surely, width, height) = self.layers[layer];
            let x = if negative { -(distance as f64 * width) } else { distance as f64 * width };
            if distance < surely {
                return x;
            }
            if layer == 0 {
                loop {
                    let beyond = -(-random.unit()).ln_1p() / TAIL;
                    let y = -(-random.unit()).ln_1p();
                    if y + y > beyond * beyond {
                        let far = TAIL + beyond;
                        return if distance >> 8 & 1 == 1 { -far } else { far };
                    }
                }
            }
            if (self.layers[layer - 1].2 - height) * random.unit() + height < (-0.5 * x * x).exp() {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of `default_rng(7)` in numpy 2.4.6.
    fn seven() -> Pcg64 {
        let increment = 261_136_684_632_268_670_825_940_853_076_396_136_793;
        Pcg64::new(208_745_520_555_909_116_978_795_849_195_383_758_904, increment, None)
    }

    #[test]
    fn random_numbers_match_numpy() {
        let (mut random, normal) = (seven(), Normal::default());
        assert_eq!(random.unit(), 0.625095466604667);
        let deviates: [f64; 3] = core::array::from_fn(|_| normal.draw(&mut random));
        let published = [0.2987455375084699, -0.2741378553622176, -0.8905918387572742];
        assert!(
            deviates.iter().zip(published).all(|(own, other)| (own - other).abs() < 1e-12),
            "{deviates:?}"
        );
        assert_eq!(random.permutation(5), [4, 2, 3, 0, 1]);
        assert_eq!([(); 5].map(|_| random.below(8)), [3, 6, 1, 6, 0]);
    }

    /// Enough deviates that every layer and the tail occur.
    #[test]
    fn normal_deviates_match_numpy() {
        let (mut random, normal) = (seven(), Normal::default());
        let (mut sum, mut most) = (0.0, f64::MIN);
        for _ in 0..2_000_000 {
            let x = normal.draw(&mut random);
            sum += x;
            most = x.max(most);
        }
        assert!((sum + 820.183_744_893_485_7f64).abs() < 1e-6, "{sum}");
        assert!((most - 5.533_601_639_016_989_5f64).abs() < 1e-12, "{most}");
    }

    #[test]
    fn advancing_equals_drawing() {
        let (mut one, mut other) = (seven(), seven());
        for _ in 0..1000 {
            one.next();
        }
        other.advance(1000);
        assert_eq!(one.next(), other.next());
    }
}
