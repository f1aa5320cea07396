//! What the generators ask of their random numbers.

use holdfast_workload::rng::Rng;

/// Choices.
pub trait Dice {
    /// One of several.
    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T;

    /// True in so many of a hundred cases.
    fn chance(&mut self, percent: u64) -> bool;
}

impl Dice for Rng {
    fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
