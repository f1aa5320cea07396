//! Figures that differ from turn to turn, with the intervals in which they lie.
//!
//! The interval is a bootstrap: the turns are drawn again, with replacement, a fixed number of
//! times; the statistic of each draw differs from the others by about as much as that of a new run
//! would. The deviation of the draws, times Student's t for the number of turns, is half of the
//! interval. Figures above 0 are treated as their logarithms: what is measured here are ratios and
//! times, where half as much and twice as much are equally far.
//!
//! The draws come from a generator with a fixed seed, so the same turns give the same interval.

use holdfast_workload::rng::Rng;
use serde::Serialize;

/// Draws of a bootstrap, and how many of them may have no statistic.
const DRAWS: usize = 400;
const UNKNOWN: usize = DRAWS / 20;

/// Where a figure lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// A figure with its intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub value: f64,
    /// Where it lies in 95 of 100 runs.
    pub likely: Interval,
    /// Where it lies in 99 of 100 runs.
    pub firm: Interval,
    /// Where it lies in 9,995 of 10,000 runs. The deviation comes from all turns, the outer ones
    /// included, so all of them but one are free.
    pub sure: Interval,
    /// Where it lies in 9,999 of 10,000 runs, with the freedom of the values that decide it, as the
    /// first two.
    pub certain: Interval,
    /// Turns, or seconds, or whatever was drawn from.
    pub turns: usize,
    /// The distance between the quartiles of the turns, as a share of their median.
    pub spread: f64,
}

impl Estimate {
    /// The middle of `values` ([`middle`]); `None` for fewer than two, which show no spread.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let finite = values.iter().filter(|v| v.is_finite()).count();
        let kept = finite - 2 * (finite / 4);
        Estimate::by(&[values], kept, &|parts| middle_of(&mut parts[0]))
    }

    /// The `statistic` of several groups of values, which it may reorder; `None` if a group has
    /// fewer than two, or the statistic is not a number, or is none in more than a twentieth of the
    /// draws: the others would be closer together than all are. `kept` is the number of values that
    /// decide it.
    pub fn by(groups: &[&[f64]], kept: usize, statistic: &dyn Fn(&mut [Vec<f64>]) -> Option<f64>) -> Option<Estimate> {
        let groups: Vec<Vec<f64>> =
            groups.iter().map(|g| g.iter().copied().filter(|v| v.is_finite()).collect()).collect();
        let turns = groups.iter().map(Vec::len).min()?;
        let value = statistic(&mut groups.clone()).filter(|v| v.is_finite() && turns > 1)?;
        let draws = draws(&groups, statistic);
        if DRAWS - draws.len() > UNKNOWN {
            return None;
        }
        // A figure that may be 0 or less has no logarithm.
        let logarithms = value > 0.0 && draws.iter().all(|v| *v > 0.0);
        let to = |v: f64| if logarithms { v.ln() } else { v };
        let from = |v: f64| if logarithms { v.exp() } else { v };
        // A draw of n values deviates less than n new values do, by this factor.
        let correction = (turns as f64 / (turns as f64 - 1.0)).sqrt();
        let deviation = deviation(draws.into_iter().map(to)) * correction;
        let freedom = kept.clamp(2, turns) - 1;
        let interval =
            |t: f64| Interval { low: from(to(value) - t * deviation), high: from(to(value) + t * deviation) };
        Some(Estimate {
            value,
            likely: interval(student(LIKELY, freedom)),
            firm: interval(student(FIRM, freedom)),
            sure: interval(student(SURE, turns - 1)),
            certain: interval(student(CERTAIN, freedom)),
            turns,
            spread: groups.iter().map(|group| spread(group)).fold(0.0, f64::max),
        })
    }
}

/// The statistics of [`DRAWS`] draws that have one.
fn draws(groups: &[Vec<f64>], statistic: &dyn Fn(&mut [Vec<f64>]) -> Option<f64>) -> Vec<f64> {
    let mut rng = Rng::for_part(1, groups.iter().map(Vec::len).sum::<usize>() as u64);
    let mut drawn: Vec<Vec<f64>> = groups.to_vec();
    let mut draw = |_| {
        for (drawn, group) in drawn.iter_mut().zip(groups) {
            drawn.iter_mut().for_each(|value| *value = group[rng.below(group.len() as u64) as usize]);
        }
        statistic(&mut drawn).filter(|v| v.is_finite())
    };
    (0..DRAWS).filter_map(&mut draw).collect()
}

/// The mean of the middle half of `values`: a turn that something else disturbed does not move it,
/// and it is steadier than the median.
pub fn middle(values: &[f64]) -> Option<f64> {
    middle_of(&mut values.to_vec())
}

fn middle_of(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let left_out = values.len() / 4;
    let kept = &values[left_out..values.len() - left_out];
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let (low, high) = (sorted[n / 4], sorted[n - 1 - n / 4]);
    (high - low) / sorted[n / 2].abs().max(1e-9)
}

fn deviation(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let n = values.clone().count().max(2) as f64;
    let mean = values.clone().sum::<f64>() / n;
    (values.map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
}

/// How sure an interval is: Student's t for 1 to 10 degrees of freedom, two-sided, and for
/// infinitely many.
type Confidence = ([f64; 10], f64);

/// 95 %.
const LIKELY: Confidence = ([12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228], 1.959_964);
/// 99 %.
const FIRM: Confidence = ([63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169], 2.575_829);
/// 99.95 %.
const SURE: Confidence = ([1273.2, 44.705, 16.326, 10.306, 7.976, 6.788, 6.082, 5.617, 5.291, 5.049], 3.480_756);
/// 99.99 %.
const CERTAIN: Confidence = ([6366.2, 99.992, 28.0, 15.544, 11.178, 9.082, 7.885, 7.120, 6.594, 6.211], 3.890_592);

/// Student's t, two-sided. Above the tables by the expansion of Cornish and Fisher, which is right
/// to a hundredth of itself there.
fn student((table, z): Confidence, freedom: usize) -> f64 {
    if let Some(t) = table.get(freedom.saturating_sub(1)) {
        return *t;
    }
    let n = freedom as f64;
    z + (z.powi(3) + z) / (4.0 * n)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * n.powi(3))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A normal figure with mean 0 and deviation 1: the sum of twelve uniform ones.
    pub(crate) fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
    }

    /// Of 1,000 samples of `n` values, those whose likely, sure and certain interval has `truth`.
    fn coverage(n: usize, truth: f64, value: fn(&mut Rng) -> f64) -> [usize; 3] {
        let mut rng = Rng::new(7);
        let mut counts = [0; 3];
        for _ in 0..1000 {
            let values: Vec<f64> = (0..n).map(|_| value(&mut rng)).collect();
            let e = Estimate::of(&values).unwrap();
            for (count, interval) in counts.iter_mut().zip([e.likely, e.sure, e.certain]) {
                *count += usize::from(interval.low <= truth && truth <= interval.high);
            }
        }
        counts
    }

    #[test]
    fn the_interval_of_known_distributions_has_their_middle_as_often_as_it_says() {
        type Named = (&'static str, fn(&mut Rng) -> f64);
        let distributions: [Named; 3] = [
            ("normal", |rng| 1.0 + 0.1 * normal(rng)),
            ("even logarithms", |rng| (0.4 * (rng.unit() - 0.5)).exp()),
            // One value in ten is of a turn that something else disturbed, in either direction.
            ("disturbed", |rng| (0.1 * normal(rng) * if rng.below(10) == 0 { 10.0 } else { 1.0 }).exp()),
        ];
        for (name, value) in distributions {
            for n in [4, 5, 8, 10, 15, 40] {
                let [likely, sure, certain] = coverage(n, 1.0, value);
                let said = format!("{name}, {n} values: {likely}, {sure} and {certain} of 1,000");
                assert!(likely >= 940 && sure >= 998 && certain >= 999, "{said}");
            }
        }
    }

    #[test]
    fn students_t_continues_its_tables() {
        assert!((student(LIKELY, 11) - 2.201).abs() < 0.01);
        assert!((student(FIRM, 11) - 3.106).abs() < 0.01);
        assert!((student(SURE, 11) - 4.863).abs() < 0.03);
        assert!((student(CERTAIN, 11) - 5.921).abs() < 0.03);
        assert!((student(LIKELY, 1000) - 1.962).abs() < 0.01);
        assert!((student(SURE, 30) - 3.902).abs() < 0.01);
        assert!((student(CERTAIN, 30) - 4.482).abs() < 0.01);
    }

    #[test]
    fn a_disturbed_turn_does_not_move_the_middle() {
        assert_eq!(middle(&[1.0, 1.0, 1.0, 0.01]), Some(1.0));
        assert_eq!(middle(&[1.0, 3.0]), Some(2.0));
        assert_eq!(middle(&[]), None);
    }

    #[test]
    fn one_turn_shows_no_spread() {
        assert_eq!(Estimate::of(&[1.0]), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN]), None);
        let equal = Estimate::of(&[0.5; 5]).unwrap();
        assert_eq!((equal.value, equal.spread), (0.5, 0.0));
        assert!((equal.sure.low - 0.5).abs() < 1e-9 && (equal.sure.high - 0.5).abs() < 1e-9);
    }

    /// The turns without a figure counted as turns that decide it.
    #[test]
    fn a_turn_without_a_figure_makes_an_estimate_no_surer() {
        let values = [0.9, 1.0, 1.1, 1.2];
        let mut with = values.to_vec();
        with.extend([f64::INFINITY, f64::NAN, f64::NAN, f64::NAN]);
        assert_eq!(Estimate::of(&with).map(|e| e.likely), Estimate::of(&values).map(|e| e.likely));
    }

    /// The figure was as sure as can be, for all draws that have one have the same.
    #[test]
    fn a_figure_that_most_draws_do_not_have_is_no_estimate() {
        let ratio = |parts: &mut [Vec<f64>]| Some(parts[0][0] / parts[1][0]);
        assert_eq!(Estimate::by(&[&[1.0, 1.0], &[1.0, 0.0, 0.0]], 2, &ratio), None);
        assert!(Estimate::by(&[&[1.0, 1.0], &[1.0, 1.0, 2.0]], 2, &ratio).is_some());
    }

    #[test]
    fn figures_below_zero_have_an_interval_too() {
        let e = Estimate::of(&[-1.0, 0.0, 1.0, 0.5, -0.5, 0.25]).unwrap();
        assert!(e.likely.low < 0.0 && e.likely.high > 0.0 && e.sure.low < e.likely.low, "{e:?}");
    }
}
