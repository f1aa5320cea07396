//! Benchmarks: the engine's own parts, and the comparison with its peers.

use std::path::Path;
use std::process::Command;

use clap::Subcommand;

use crate::packages::{self, Need};
use crate::run::{cargo, check, works};

#[derive(Subcommand)]
pub enum What {
    /// Compare with LMDB, redb, fjall, RocksDB and SQLite (a workspace of its own; builds them
    /// first)
    #[command(disable_help_flag = true)]
    Compare {
        /// Passed on to the comparison; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Runs the comparison, or without an argument the benchmarks of the parts.
pub fn run(what: Option<What>) -> anyhow::Result<()> {
    match what {
        Some(What::Compare { args }) => compare(&args),
        None => parts(),
    }
}

fn compare(args: &[String]) -> anyhow::Result<()> {
    packages::provide(&[
        Need {
            package: "libclang-dev",
            reason: "RocksDB's bindings are generated with it",
            is_there: packages::has_libclang,
        },
        Need {
            package: "librocksdb-dev",
            reason: "RocksDB itself",
            is_there: || Path::new(&rocksdb().0).join("rocksdb/c.h").exists(),
        },
        Need {
            package: "fio",
            reason: "the yardstick of the larger-than-memory reads",
            is_there: || works(Command::new("fio").arg("--version")),
        },
    ])?;
    let (include, lib) = rocksdb();
    let mut run = cargo("run --release --manifest-path bench/compare/Cargo.toml --");
    check(run.args(args).env(ROCKSDB_INCLUDE, include).env(ROCKSDB_LIB, lib))
}

const ROCKSDB_INCLUDE: &str = "ROCKSDB_INCLUDE_DIR";
const ROCKSDB_LIB: &str = "ROCKSDB_LIB_DIR";

/// Where RocksDB's headers and library lie: where these variables say, or where Debian puts them.
fn rocksdb() -> (String, String) {
    let set = |name: &str| std::env::var(name).ok();
    let lib = || format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    (set(ROCKSDB_INCLUDE).unwrap_or_else(|| "/usr/include".into()), set(ROCKSDB_LIB).unwrap_or_else(lib))
}

/// The parts, from the disk up. The files are in a folder of the project, so that its disk is
/// measured.
fn parts() -> anyhow::Result<()> {
    std::fs::create_dir_all(".lab/bench")?;
    check(&mut cargo("run --release --package holdfast-io --example io_bench -- .lab/bench"))?;
    check(&mut cargo("run --release --package holdfast-wal --example log_bench -- .lab/bench"))?;
    for what in ["hit", "threads", "miss .lab/bench"] {
        check(&mut cargo(&format!("run --release --package holdfast-pool --example pool_cost -- {what}")))?;
    }
    for package in ["holdfast-tree", "holdfast-txn", "holdfast-engine"] {
        check(cargo("bench --benches --package").arg(package))?;
    }
    Ok(())
}
