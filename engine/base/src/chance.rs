//! Hash maps and random numbers of the engine. A simulated run repeats them from its seed.

/// The hash function of the engine's maps: seeded at random, or with a constant under `--cfg sim`.
#[cfg(not(sim))]
pub type HashState = foldhash::fast::RandomState;
/// The hash function of the engine's maps: seeded at random, or with a constant under `--cfg sim`.
#[cfg(sim)]
pub type HashState = foldhash::fast::FixedState;

/// A hash map. In the simulation its order of iteration is the same in every run.
pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;

/// A hash set. In the simulation its order of iteration is the same in every run.
pub type HashSet<K> = std::collections::HashSet<K, HashState>;

/// A random number from the system, or from the seed of a simulated run.
#[must_use]
pub fn random_number() -> u64 {
    #[cfg(sim)]
    if let Some(number) = crate::sim::random() {
        return number;
    }
    use std::hash::BuildHasher;
    // The standard library seeds each of these with random bytes of the system.
    std::collections::hash_map::RandomState::new().hash_one(0u64)
}
