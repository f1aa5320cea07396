//! Statistics of ratios: servers are compared in pairs of short turns.

/// A summary of the ratios of paired measurements.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// The median (the geometric mean of the two middle ones of an even number).
    pub median: f64,
    /// A lower bound of the true ratio at 95 %: of the mean of the logarithms, by Student's t,
    /// one-sided.
    pub lower_bound: f64,
    /// An upper bound of it, in the same way.
    pub upper_bound: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

/// Student's t at 95 %, one-sided, for 1, 2, 3 ... degrees of freedom.
const STUDENT: [f64; 20] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
    1.740, 1.734, 1.729, 1.725,
];

/// Summarizes at least two ratios.
///
/// # Panics
/// If there are fewer.
#[must_use]
pub fn summary(ratios: &[f64]) -> Summary {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let logs: Vec<f64> = sorted.iter().map(|r| r.ln()).collect();
    let mean = logs.iter().sum::<f64>() / n as f64;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0);
    let off = STUDENT[(n - 2).min(STUDENT.len() - 1)] * (variance / n as f64).sqrt();
    Summary {
        median: (sorted[(n - 1) / 2] * sorted[n / 2]).sqrt(),
        lower_bound: (mean - off).exp(),
        upper_bound: (mean + off).exp(),
        least: sorted[0],
        greatest: sorted[n - 1],
    }
}

/// The geometric mean.
#[must_use]
pub fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), value| (sum + value.ln(), n + 1));
    (sum / f64::from(n.max(1))).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_leave_no_doubt() {
        let s = summary(&[1.1; 7]);
        assert!((s.median - 1.1).abs() < 1e-9 && (s.lower_bound - 1.1).abs() < 1e-9);
    }

    #[test]
    fn the_bound_lies_below_the_mean_by_as_much_as_the_spread_demands() {
        let s = summary(&[0.8, 1.0, 1.25]);
        // The mean of the logarithms is 0, their deviation ln 1.25, two degrees of freedom.
        let expected = (-2.920 * 1.25f64.ln() / 3f64.sqrt()).exp();
        assert!((s.lower_bound - expected).abs() < 1e-9, "{s:?}");
        assert!((s.upper_bound - 1.0 / expected).abs() < 1e-9, "{s:?}");
        assert_eq!((s.least, s.greatest), (0.8, 1.25));
        assert!((s.median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_geometric_mean_of_a_number_and_its_inverse_is_one() {
        assert!((geometric_mean([4.0, 0.25].into_iter()) - 1.0).abs() < 1e-9);
    }
}
