//! What a trial is: a base, damages, and what is done with the database then. Written as
//! `BASE/LIFE/KIND:SEED+KIND:SEED`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, ensure};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::base::{DRAWN, PLANS};
use super::kinds::KINDS;

/// A trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Which database is damaged.
    pub base: usize,
    /// Seed of what is done with the damaged database.
    pub life: u64,
    /// Kinds, as positions in `KINDS`, with the seeds of the places.
    pub damages: Vec<(usize, u32)>,
}

impl Trial {
    /// The trial of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Trial {
        let mut rng = SmallRng::seed_from_u64(seed);
        let kinds: Vec<usize> = (0..KINDS.len()).collect();
        let count = [1, 1, 1, 2, 2, 3][rng.random_range(0..6)];
        let kind = |rng: &mut SmallRng| {
            let drawn = kinds.choose_weighted(rng, |kind| KINDS[*kind].weight);
            *drawn.expect("there are kinds, and all have a weight")
        };
        let damages = (0..count).map(|_| (kind(&mut rng), rng.random())).collect();
        Trial { base: rng.random_range(0..DRAWN), life: rng.random_range(0..1_000_000), damages }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let damages: Vec<String> =
            self.damages.iter().map(|(kind, seed)| format!("{}:{seed}", KINDS[*kind].name)).collect();
        write!(f, "{}/{}/{}", self.base, self.life, damages.join("+"))
    }
}

impl FromStr for Trial {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Trial> {
        let form = "a trial is BASE/LIFE/KIND:SEED+KIND:SEED";
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().context(form);
        let (base, life) = (part()?.parse().context(form)?, part()?.parse().context(form)?);
        ensure!(base < PLANS.len(), "there are bases 0 to {}", PLANS.len() - 1);
        let damage = |text: &str| {
            let (name, seed) = text.split_once(':').context(form)?;
            let kind = KINDS.iter().position(|kind| kind.name == name);
            anyhow::Ok((kind.with_context(|| format!("there is no damage `{name}`"))?, seed.parse().context(form)?))
        };
        let damages = part()?.split('+').map(damage).collect::<anyhow::Result<_>>()?;
        Ok(Trial { base, life, damages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_reads_as_written() {
        for seed in 0..50 {
            let trial = Trial::draw(seed);
            assert_eq!(trial.to_string().parse::<Trial>().unwrap(), trial);
        }
        assert!("1/2".parse::<Trial>().is_err() && "1/2/no:3".parse::<Trial>().is_err());
        assert!("99/2/slot:3".parse::<Trial>().is_err());
    }

    #[test]
    fn names_of_kinds_are_different() {
        let mut names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KINDS.len());
    }
}
