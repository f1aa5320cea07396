//! The simulation of the whole engine, built with the scheduler in place of the system's threads,
//! in a target folder of its own.

use crate::run::{cargo, check};

/// Builds the simulation and runs it with `args`.
///
/// # Errors
/// If it does not compile, or finds something.
pub fn run(args: &[String]) -> anyhow::Result<()> {
    let mut command = cargo("run --quiet --target-dir target/sim --package holdfast-sim -- whole");
    check(command.args(args).env("RUSTFLAGS", "--cfg sim"))
}

/// The lints of what is compiled for the simulation only.
///
/// # Errors
/// If one of them finds something.
pub fn lints() -> anyhow::Result<()> {
    let clippy = "clippy --quiet --target-dir target/sim --package holdfast-base --package holdfast-sim --all-targets";
    check(cargo(clippy).args(["--", "-D", "warnings"]).env("RUSTFLAGS", "--cfg sim"))
}

/// The unit tests of the checkers, and of the scheduler.
///
/// # Errors
/// If they do not compile, or fail.
pub fn unit_tests() -> anyhow::Result<()> {
    let test = "test --quiet --target-dir target/sim --package holdfast-sim --lib";
    check(cargo(test).env("RUSTFLAGS", "--cfg sim"))?;
    let test = "test --quiet --target-dir target/sim --package holdfast-base --lib sim::";
    check(cargo(test).env("RUSTFLAGS", "--cfg sim"))
}

/// So many seeds.
///
/// # Errors
/// The errors of [`run`].
pub fn seeds(count: u64) -> anyhow::Result<()> {
    run(&["--seeds".into(), count.to_string()])
}
