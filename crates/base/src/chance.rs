//! Hash maps and random numbers of the engine, which the simulation repeats.

/// How hash maps of the engine hash: seeded at random, or alike in every run under `--cfg sim`.
#[cfg(not(sim))]
pub type HashState = foldhash::fast::RandomState;
/// How hash maps of the engine hash: seeded at random, or alike in every run under `--cfg sim`.
#[cfg(sim)]
pub type HashState = foldhash::fast::FixedState;

/// A hash map whose order of iteration the simulation repeats.
pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;

/// A hash set whose order of iteration the simulation repeats.
pub type HashSet<K> = std::collections::HashSet<K, HashState>;

/// A random number from the system, or from the seed of a simulated run.
#[must_use]
pub fn random_number() -> u64 {
    #[cfg(sim)]
    if let Some(number) = crate::sim::random() {
        return number;
    }
    use std::hash::BuildHasher;
    // The standard library seeds each of these from the system's source of random bytes.
    std::collections::hash_map::RandomState::new().hash_one(0u64)
}
