//! Draws of traces. They stay the same in every version and on every machine: a trace is named by
//! its seed.

use holdfast_testkit::SplitMix64;

/// A random order of `0 .. n`.
pub(crate) fn permutation(rng: &mut SplitMix64, n: u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..n).collect();
    for i in (1..all.len()).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

/// Ranks `0 .. n`, rank r with a probability proportional to `1 / (r + 1)^theta`.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Cumulative, the last one 1.
    cumulative: Vec<f64>,
}

impl Zipf {
    pub(crate) fn new(n: u32, theta: f64) -> Zipf {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=n)
            .map(|r| {
                sum += f64::from(r).powf(-theta);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|c| *c /= sum);
        Zipf { cumulative }
    }

    pub(crate) fn sample(&self, rng: &mut SplitMix64) -> u32 {
        let u = rng.fraction();
        self.cumulative.partition_point(|&c| c <= u).min(self.cumulative.len() - 1) as u32
    }
}
