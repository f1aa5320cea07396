//! Random numbers that never change: xoshiro256++ seeded through SplitMix64, bounded by Lemire's
//! method.
//!
//! The generator is written here, and not taken from a crate, because data sets and results are
//! named by their seed: a new version of a library must not change the numbers of seed 1.

use holdfast_testkit::SplitMix64;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        let mut seeds = SplitMix64::new(seed);
        Rng { state: std::array::from_fn(|_| seeds.next_u64()) }
    }

    /// A separate stream for `part` (a table, a row, a session) of the data with seed `seed`. So
    /// parts can be generated in any order and in parallel.
    #[must_use]
    pub fn for_part(seed: u64, part: u64) -> Rng {
        Rng::new(SplitMix64::new(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93)).next_u64())
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in `0..n`, uniform up to a bias below n / 2^64.
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "nothing is below 0");
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `lo..=hi`.
    #[inline]
    pub fn between(&mut self, lo: u64, hi: u64) -> u64 {
        lo + self.below(hi - lo + 1)
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut rng = Rng::new(1);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [14971601782005023387, 13781649495232077965, 1847458086238483744]);
        assert_ne!(Rng::for_part(1, 1).next_u64(), Rng::for_part(1, 2).next_u64());
    }

    #[test]
    fn numbers_stay_in_their_range_and_fill_it() {
        let mut rng = Rng::new(2);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
    }
}
