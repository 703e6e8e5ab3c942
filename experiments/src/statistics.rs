//! Means with their 95 % confidence interval.

/// Student's t of 97.5 %, for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean, and half of its confidence interval. A single sample has no interval.
pub(crate) fn mean(samples: &[f64]) -> (f64, Option<f64>) {
    let count = samples.len().max(1) as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let Some(freedom) = samples.len().checked_sub(1).filter(|freedom| *freedom > 0) else {
        return (mean, None);
    };
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / freedom as f64;
    // Beyond the table, an approximation is used. Its error there is below a thousandth.
    let t = T.get(freedom - 1).copied().unwrap_or(1.96 + 2.4 / freedom as f64);
    (mean, Some(t * (variance / count).sqrt()))
}

/// As the paper writes it: 733.6±181.3.
pub(crate) fn text(mean: f64, half: Option<f64>) -> String {
    half.map_or_else(|| format!("{mean:.1}"), |half| format!("{mean:.1}±{half:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_distribution() {
        let (mean_of, half) = mean(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(mean_of, 2.5);
        // 3.182 * 1.29099 / 2.
        assert!((half.unwrap() - 2.054).abs() < 0.001, "{half:?}");
        assert_eq!(mean(&[7.0]), (7.0, None));
        assert_eq!(text(10.43, Some(1.84)), "10.4±1.8");
    }
}
