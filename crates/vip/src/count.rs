//! Arithmetic of the plane: VIPs in fixed point, and the decay of scores.

/// One VIP. Counts are in units of 2^-20 VIP.
pub const UNIT: u64 = 1 << 20;

/// Largest count and score of an object.
///
/// The plane counts an excess ([`crate::Totals::saturated`]).
///
/// # Limit
/// The excess is cut off.
/// - Value: 2^40 VIPs
/// - Counter: `count_cut`, and `saturated` of the plane
/// - Tests: `plane_counts_at_their_limit_are_cut`,
///   `excess_vip_counts_are_cut`
pub const COUNT_MAX: u64 = 1 << 60;

/// Largest octets of a slot on a link, and of an object, for [`vips_of`]. Larger values are reduced
/// to it.
pub const VIPS_OCTETS_MAX: u64 = 1 << 62;

/// Number of VIPs for objects of `object_octets` in `octets`, in [`UNIT`], rounded down. The result
/// is exact for objects below 2^44 octets, and never above [`COUNT_MAX`].
pub fn vips_of(octets: u64, object_octets: u64) -> u64 {
    let (octets, size) = (octets.min(VIPS_OCTETS_MAX), object_octets.clamp(1, VIPS_OCTETS_MAX));
    let (whole, rest) = (octets / size, octets % size);
    // Leaves twenty free bits above the rest.
    let excess = 20u32.saturating_sub(rest.leading_zeros());
    let part = ((rest >> excess) << 20) / (size >> excess).max(1);
    whole.saturating_mul(UNIT).saturating_add(part).min(COUNT_MAX)
}

/// Octets of `vips` for objects of `object_octets`, rounded up.
pub(crate) fn octets_of(vips: u64, object_octets: u64) -> u64 {
    let octets = (u128::from(vips) * u128::from(object_octets)).div_ceil(u128::from(UNIT));
    u64::try_from(octets).unwrap_or(u64::MAX)
}

/// The sum, at most [`COUNT_MAX`], and the excess.
pub(crate) fn add(a: u64, b: u64) -> (u64, u64) {
    let sum = a.saturating_add(b);
    (sum.min(COUNT_MAX), sum.saturating_sub(COUNT_MAX))
}

/// The factor by which scores decay in a slot, in units of 2^-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decay(u64);

/// floor(2^64 x 2^(-2^-i)) for i from 1 to 32.
const ROOTS: [u64; 32] = [
    0xb504f333f9de6484,
    0xd744fccad69d6af4,
    0xeac0c6e7dd24392e,
    0xf5257d152486cc2c,
    0xfa83b2db722a033a,
    0xfd3e0c0cf486c174,
    0xfe9e115c7b8f884b,
    0xff4ecb59511ec8a5,
    0xffa756521c8daed1,
    0xffd3a751c0f7e10b,
    0xffe9d2b2f7db2755,
    0xfff4e91bff1b8c3d,
    0xfffa747ea0040664,
    0xfffd3a3b7814eb53,
    0xfffe9d1cc60ddab1,
    0xffff4e8e25879bfa,
    0xffffa7470363f451,
    0xffffd3a37dda0313,
    0xffffe9d1bdf703ae,
    0xfffff4e8debe025e,
    0xfffffa746f4fa150,
    0xfffffd3a37a3f8b0,
    0xfffffe9d1bd1065a,
    0xffffff4e8de845ad,
    0xffffffa746f41376,
    0xffffffd3a37a05e3,
    0xffffffe9d1bd01fb,
    0xfffffff4e8de80c0,
    0xfffffffa746f4050,
    0xfffffffd3a37a024,
    0xfffffffe9d1bd011,
    0xffffffff4e8de808,
];

impl Decay {
    /// No decay.
    pub const NONE: Decay = Decay(1 << 32);

    /// A factor in units of 2^-32, at most 1.
    pub fn from_factor(factor: u64) -> Self {
        Decay(factor.min(1 << 32))
    }

    /// The factor in units of 2^-32.
    pub fn factor(self) -> u64 {
        self.0
    }

    /// The factor of a slot of `slot_ms` for scores that halve in `half_life_ms`: 2^(-slot /
    /// half-life), rounded. A half-life of 0 means no decay.
    pub fn from_half_life(half_life_ms: u64, slot_ms: u32) -> Self {
        let half_life_ms = half_life_ms.min(1 << 40);
        if half_life_ms == 0 {
            return Decay::NONE;
        }
        let slot_ms = u64::from(slot_ms);
        let (halvings, rest) = (slot_ms / half_life_ms, slot_ms % half_life_ms);
        // The rest is below 2^32 and the half-life.
        let fraction = (rest << 32) / half_life_ms;
        let set = (0..32).filter(|i| fraction & 1 << (31 - i) != 0);
        let times = |a: u64, b: u64| ((u128::from(a) * u128::from(b)) >> 64) as u64;
        let left = set.fold(u64::MAX, |left, i| times(left, ROOTS[i as usize]));
        let left = if halvings < 64 { left >> halvings } else { 0 };
        Decay((left >> 32) + (left >> 31 & 1))
    }

    /// The decayed `score`, rounded down.
    pub fn of(self, score: u64) -> u64 {
        (score >> 32) * self.0 + (((score & 0xffff_ffff) * self.0) >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vips_scale_with_the_object_size() {
        assert_eq!(vips_of(4_000_000_000, 4_000_000_000), UNIT);
        assert_eq!(vips_of(400, 4000), UNIT / 10);
        assert_eq!(vips_of(0, 1), 0);
        assert_eq!(vips_of(6_000_000_000, 4_000_000_000), UNIT * 3 / 2);
    }

    #[test]
    fn vip_counts_saturate() {
        assert_eq!(vips_of(u64::MAX, 0), COUNT_MAX);
        assert_eq!(vips_of(u64::MAX, 1), COUNT_MAX);
        assert_eq!(vips_of(u64::MAX, u64::MAX), UNIT);
        assert_eq!(vips_of(1 << 61, u64::MAX), UNIT / 2);
        assert_eq!(vips_of((1 << 61) + 1, 1 << 62), UNIT / 2);
    }

    #[test]
    fn an_excess_count_is_cut() {
        assert_eq!(add(COUNT_MAX - 1, 1), (COUNT_MAX, 0));
        assert_eq!(add(COUNT_MAX, 1), (COUNT_MAX, 1));
        assert_eq!(add(COUNT_MAX, u64::MAX), (COUNT_MAX, u64::MAX - COUNT_MAX));
    }

    #[test]
    fn a_score_halves_in_its_half_life() {
        assert_eq!(Decay::from_half_life(46_210_000, 0), Decay::NONE);
        assert_eq!(Decay::from_half_life(0, 3000), Decay::NONE);
        assert_eq!(Decay::from_half_life(3000, 3000).factor(), 1 << 31);
        assert_eq!(Decay::from_half_life(1500, 3000).factor(), 1 << 30);
        assert_eq!(Decay::from_half_life(1, u32::MAX).factor(), 0);
        // round(2^32 x 2^(-1/2)), and exp(-0.000015 x 3) with a half-life of ln 2 / 0.000015 s.
        assert_eq!(Decay::from_half_life(6000, 3000).factor(), 3_037_000_500);
        let paper = Decay::from_half_life(46_209_812, 3000).factor();
        assert!(paper.abs_diff(4_294_774_027) <= 1, "{paper}");
    }

    #[test]
    fn decay_is_an_exact_fixed_point_product() {
        for factor in [0, 1, 4_294_774_027, 1 << 31, 1 << 32, u64::MAX] {
            for score in [0, 1, UNIT, (1 << 32) - 1, 1 << 32, COUNT_MAX - 1, COUNT_MAX] {
                let decay = Decay::from_factor(factor);
                let product = ((u128::from(score) * u128::from(decay.factor())) >> 32) as u64;
                assert_eq!(decay.of(score), product);
            }
        }
    }
}
