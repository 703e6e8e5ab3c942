//! Means with confidence intervals, as in the tables of the (h)ICN transport's paper.

/// Quantiles of Student's t for 99 % two-sided, by degrees of freedom from 1 (Abramowitz and
/// Stegun, table 26.10).
const T99: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947,
    2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
];

/// The quantile for many degrees of freedom.
const T99_MANY: f64 = 2.576;

/// A mean and its 99 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) mean: f64,
    /// Half the width of the interval; `None` for a single value.
    pub(super) half: Option<f64>,
}

impl Sample {
    /// Returns the sample of `values`; `None` without values.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n)?;
        let half = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
            T99.get(values.len() - 2).unwrap_or(&T99_MANY) * (variance / n).sqrt()
        });
        Some(Sample { mean, half })
    }

    /// `mean [from to]`, with `digits` after the point.
    pub(super) fn text(&self, digits: usize) -> String {
        let Sample { mean, half } = self;
        match half {
            None => format!("{mean:.digits$}"),
            Some(half) => format!("{mean:.digits$} [{:.digits$} {:.digits$}]", mean - half, mean + half),
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({"mean": self.mean, "ci99_half": self.half})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        let sample = Sample::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(sample.mean, 3.0);
        // sqrt(2.5 / 5) * 4.604
        assert!((sample.half.unwrap() - 3.2555).abs() < 0.001, "{sample:?}");
        assert_eq!(sample.text(1), "3.0 [-0.3 6.3]");
        assert_eq!(Sample::of(&[7.0]), Some(Sample { mean: 7.0, half: None }));
        assert_eq!(Sample::of(&[]), None);
        let many = Sample::of(&[[0.0, 2.0]; 100].concat()).unwrap();
        assert!((many.half.unwrap() - T99_MANY * (200.0_f64 / 199.0 / 200.0).sqrt()).abs() < 1e-9);
    }
}
