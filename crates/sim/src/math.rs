//! Logarithm and exponential function from the basic operations, whose results IEEE 754 fixes. The
//! functions of the system's library differ between systems, and so would a simulation's digits.

use std::f64::consts::{LN_2, SQRT_2};

/// Returns the natural logarithm of a normal positive number.
pub(crate) fn ln(x: f64) -> f64 {
    const MANTISSA_BITS: u32 = 52;
    let bits = x.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | 1023 << MANTISSA_BITS);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh t with |t| < 0.172, whose series has enough terms for all bits.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let series = (0..12).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * LN_2 + 2.0 * t * series
}

/// Returns e to the power of `x`, for results that are normal numbers.
pub(crate) fn exp(x: f64) -> f64 {
    let halvings = (x / LN_2).round();
    let rest = x - halvings * LN_2;
    let series = (1..20).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    let exponent = (halvings as i64).clamp(-1022, 1023) + 1023;
    series * f64::from_bits((exponent as u64) << 52)
}

/// Returns `x` to the power of `y`, for a positive `x`.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_agree_with_the_systems_library() {
        let close = |ours: f64, theirs: f64| (ours - theirs).abs() <= 1e-13 * theirs.abs().max(1.0);
        for n in 1..2000 {
            let x = f64::from(n) * 0.37;
            assert!(close(ln(x), x.ln()), "ln {x}");
            assert!(close(ln(1.0 / x), (1.0 / x).ln()), "ln 1/{x}");
            let y = f64::from(n - 1000) * 0.02;
            assert!((exp(y) / y.exp() - 1.0).abs() < 1e-13, "exp {y}");
            assert!((pow(x, y / 10.0) / x.powf(y / 10.0) - 1.0).abs() < 1e-12, "{x} to {y}");
        }
        assert_eq!((ln(1.0), exp(0.0), pow(5.0, 0.0)), (0.0, 1.0, 1.0));
    }
}
