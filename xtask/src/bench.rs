//! Benchmarks: the engine's own parts, and the comparison with its peers.

use clap::Subcommand;

use crate::run::{cargo, check};

#[derive(Subcommand)]
pub enum What {
    /// Compare with LMDB, redb, fjall, RocksDB and SQLite (a workspace of its own; builds them first)
    Compare {
        /// Passed on to the comparison; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Runs the comparison, or without an argument the benchmarks of the parts.
pub fn run(what: Option<What>) -> anyhow::Result<()> {
    match what {
        Some(What::Compare { args }) => {
            check(cargo("run --release --manifest-path bench/compare/Cargo.toml --").args(args))
        }
        None => check(&mut cargo("bench --workspace")),
    }
}
