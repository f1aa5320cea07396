//! The experiments of the registry at sizes whose figures mean nothing.

use anyhow::Result;
use holdfast_lab::document::Document;
use holdfast_lab::progress::Progress;
use holdfast_lab::registry::{EXPERIMENTS, Experiment};

/// Those whose claims all have a value at such sizes. The two others have tests of their own.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    EXPERIMENTS.iter().filter(|one| !["sideload", "scan"].contains(&one.name))
}

/// Runs one with further `words` on its command line; `None` if it does not run on their target.
pub fn run(one: &Experiment, words: &[&str]) -> Option<Result<Document>> {
    let words = [&[one.name, "--quick", "--tiny", "--seed", "1"], words].concat();
    let matches = one.command().try_get_matches_from(words).expect("its arguments");
    let refused = one.refusal(&matches).expect("its target").is_some();
    (!refused).then(|| one.run(&matches, &mut Progress::hidden()))
}
