//! Random numbers that stay the same in every version and on every machine: a trace is named by its
//! seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// In `0.0 .. 1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `0 .. n`; `n` must not be 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A random order of `0 .. n`.
    pub(crate) fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.below(i as u64 + 1) as usize);
        }
        all
    }
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

    pub(crate) fn sample(&self, rng: &mut Rng) -> u32 {
        let u = rng.unit();
        self.cumulative.partition_point(|&c| c <= u).min(self.cumulative.len() - 1) as u32
    }
}
