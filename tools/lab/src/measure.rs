//! Medians with their spread, and rates.

use serde::Serialize;

/// A figure from several repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The middle value (the mean of the two middle ones of an even number).
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Number of repetitions.
    pub n: usize,
}

impl Figure {
    /// The figure of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Figure> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Some(Figure { median, min, max, n })
    }
}

/// The median of `values`.
pub fn median(values: &[f64]) -> Option<f64> {
    Figure::of(values).map(|figure| figure.median)
}

/// A value as `shown` has it; a dash if there is none.
pub fn or_dash<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// `amount` per second; 0 over no time.
pub fn per_second(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

/// A number as text: three significant digits, thousands separated.
pub fn human(v: f64) -> String {
    let digits = match v.abs() {
        x if x >= 100.0 || x == 0.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{v:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |t| ("-", t));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A count as text: whole, thousands separated.
pub fn count(n: u64) -> String {
    if n < 100 { n.to_string() } else { human(n as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Figure::of(&[]), None);
        assert_eq!(Figure::of(&[f64::NAN]), None);
        assert_eq!(Figure::of(&[3.0, 1.0, 2.0]), Some(Figure { median: 2.0, min: 1.0, max: 3.0, n: 3 }));
        assert_eq!(Figure::of(&[4.0, 1.0]).unwrap().median, 2.5);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(human(0.0), "0");
        assert_eq!(human(0.04567), "0.046");
        assert_eq!(human(2.9), "2.90");
        assert_eq!(human(23.46), "23.5");
        assert_eq!(human(1234567.8), "1,234,568");
        assert_eq!(human(-1234.0), "-1,234");
        assert_eq!([count(7), count(99), count(12_345)], ["7", "99", "12,345"]);
    }
}
