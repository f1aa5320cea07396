//! Benchmarks: the engine's own parts, the comparison with its peers, how all scale with cores.

mod pack;
mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;

use self::peers::{BINDGEN, ROCKSDB, peers};
use crate::packages::{self, Need};
use crate::run::{built, cargo, check, works};

/// What is measured, on the command line.
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
    /// Measure how operations scale with threads, beside LMDB, RocksDB and redb
    #[command(disable_help_flag = true)]
    Scale {
        /// Passed on to the measurement; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Find the lines of memory that threads share in an operation, in a trace of valgrind's
    Lines {
        /// `cargo bench -p holdfast-engine --bench rows` has them
        #[arg(default_values = ["get-hot", "update", "insert"])]
        operations: Vec<String>,
        /// Threads that do operations in turns
        #[arg(long, default_value_t = 4)]
        threads: u64,
        /// Where to write the result as JSON, for `holdfast-coherence model`
        #[arg(long, default_value = ".lab/lines.json")]
        json: PathBuf,
    },
    /// Pack the measurements of scaling (`bench scale`, `mariadb bench --cores`, recovery, the
    /// lab's side load and sessions), with all that they need, for a machine with more cores
    Pack {
        /// The archive to write
        file: PathBuf,
        /// Leave the server out
        #[arg(long)]
        without_server: bool,
    },
}

/// Runs the comparison, or without an argument the benchmarks of the parts.
pub fn run(what: Option<What>) -> anyhow::Result<()> {
    match what {
        Some(What::Compare { args }) => compare(&args),
        Some(What::Scale { args }) => scale(&args),
        Some(What::Lines { operations, threads, json }) => lines(&operations, threads, &json),
        Some(What::Pack { file, without_server }) => pack::run(&file, !without_server),
        None => parts(),
    }
}

const FIO: Need = Need {
    package: "fio",
    reason: "the yardstick of the larger-than-memory reads",
    is_there: || works(Command::new("fio").arg("--version")),
};

/// What the comparison needs.
pub const NEEDS: [Need; 3] = [BINDGEN, ROCKSDB, FIO];

fn compare(args: &[String]) -> anyhow::Result<()> {
    packages::provide(&NEEDS)?;
    check(peers("run --release", "--").args(args))
}

fn scale(args: &[String]) -> anyhow::Result<()> {
    packages::provide(&[BINDGEN, ROCKSDB])?;
    check(peers("run --release", "-- scale").args(args))
}

const VALGRIND: Need = Need {
    package: "valgrind",
    reason: "it traces the accesses to memory",
    is_there: || works(Command::new("valgrind").arg("--version")),
};

/// Valgrind knows no system call that the program makes past the C library.
const FOR_VALGRIND: &str = "--cfg rustix_use_libc";

fn lines(operations: &[String], threads: u64, json: &Path) -> anyhow::Result<()> {
    packages::provide(&[VALGRIND])?;
    if let Some(folder) = json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut build = cargo("build --release --package holdfast-engine --bench rows --target-dir target/valgrind");
    let program = built(build.arg("--message-format=json").env("RUSTFLAGS", FOR_VALGRIND))?;
    let mut trace = cargo("run --release --package holdfast-coherence -- lines");
    trace.arg("--threads").arg(threads.to_string()).arg("--json").arg(json);
    check(trace.arg(program).args(operations))
}

/// The quick check of a long suite: the unit tests of the workspace of the peers, every adapter,
/// and the measurement of scaling at a size that says nothing about speed.
pub fn smoke() -> anyhow::Result<()> {
    packages::provide(&NEEDS)?;
    check(&mut peers("test --release", ""))?;
    compare(&["--smoke".into()])?;
    std::fs::create_dir_all(".lab")?;
    let quick = "--rows 2000 --threads 1,2 --turns 2 --seconds 0.05 --json .lab/scale.json --picture .lab/scale.svg";
    scale(&quick.split(' ').map(String::from).collect::<Vec<_>>())?;
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(".lab/scale.json")?)?;
    // Three operations that commit nothing, four in three modes; four engines, two numbers of
    // threads.
    let cells = result["cells"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(cells == (3 + 4 * 3) * 4 * 2, "the measurement of scaling has {cells} cells");
    let panels = std::fs::read_to_string(".lab/scale.svg")?.matches("<g ").count();
    anyhow::ensure!(panels == 15, "the picture of scaling has {panels} panels");
    Ok(())
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
