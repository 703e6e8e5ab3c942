//! Medians, extremes and percentiles of a few samples.

/// Summary of a list of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// Number of samples.
    pub runs: usize,
}

/// Summarizes `samples`; `None` if there are none. Samples that are not numbers are left out.
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    let sorted = sorted(samples);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median =
        if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
    Some(Summary { median, min, max, runs: sorted.len() })
}

/// Returns the smallest sample that at least `percent` of all samples do not exceed (nearest rank);
/// `None` if there are no samples.
pub fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Returns Jain's fairness index of `shares`: their sum squared over their number times the sum of
/// their squares; `None` if there are none, or all are zero.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|s| s.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_the_order() {
        let summary = summarise(&[9.0, 1.0, 5.0]);
        assert_eq!(summary, Some(Summary { median: 5.0, min: 1.0, max: 9.0, runs: 3 }));
    }

    #[test]
    fn an_even_median_is_the_middle_mean() {
        assert_eq!(summarise(&[4.0, 1.0, 2.0, 100.0]).map(|s| s.median), Some(3.0));
    }

    #[test]
    fn fairness_is_one_for_equal_shares() {
        assert_eq!(jain(&[5.0; 4]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    #[test]
    fn an_empty_sample_has_no_summary() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[f64::NAN]), None);
        assert_eq!(percentile(&[], 50.0), None);
    }

    #[test]
    fn percentiles_are_nearest_rank_samples() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 50.0), Some(50.0));
        assert_eq!(percentile(&samples, 99.0), Some(99.0));
        assert_eq!(percentile(&samples, 100.0), Some(100.0));
        assert_eq!(percentile(&samples, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
    }
}
