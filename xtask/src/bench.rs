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
        None => parts(),
    }
}

/// The parts, from the disk up. The files go to a folder of the project, so that its disk is what is measured.
fn parts() -> anyhow::Result<()> {
    std::fs::create_dir_all(".lab/bench")?;
    check(&mut cargo("run --release --package holdfast-io --example io_bench -- .lab/bench"))?;
    check(&mut cargo("run --release --package holdfast-wal --example log_bench -- .lab/bench"))?;
    for what in ["hit", "threads", "miss .lab/bench"] {
        check(&mut cargo(&format!("run --release --package holdfast-pool --example pool_cost -- {what}")))?;
    }
    check(&mut cargo("bench --package holdfast-tree"))
}
