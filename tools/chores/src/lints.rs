//! The lints of everything that Cargo compiles: of the workspace, of the build for the simulation,
//! and of the two workspaces beside it. What no default suite compiled would rot unseen.

use std::process::Command;

use crate::run::{cargo, check, works};
use crate::simulation;

/// The programs outside the workspace, and what each is compiled with. The comparison is compiled
/// without its peers, whose libraries a machine may lack; the fuzz targets need a C++ compiler.
const COMPARISON: &str = "--manifest-path tools/bench-compare/Cargo.toml --no-default-features";
const FUZZ_TARGETS: &str = "--manifest-path fuzz/Cargo.toml";

/// Runs clippy over all of it.
///
/// # Errors
/// If it finds something.
pub fn run() -> anyhow::Result<()> {
    clippy("--workspace --all-targets")?;
    simulation::lints()?;
    // They share most of what they are made of with the workspace, and so its folder.
    clippy(&format!("{COMPARISON} --target-dir target"))?;
    if works(Command::new("g++").arg("--version")) {
        clippy(&format!("{FUZZ_TARGETS} --target-dir target"))?;
    } else {
        println!("no lints of the fuzz targets: g++ is missing");
    }
    Ok(())
}

fn clippy(what: &str) -> anyhow::Result<()> {
    check(&mut cargo(&format!("clippy --quiet {what} -- -D warnings")))
}
