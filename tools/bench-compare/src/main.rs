//! Holdfast beside its peers: one workload source, an adapter for each engine, the same memory
//! limit for all.
//!
//! The parent starts one child process per engine in a memory cgroup of its own (several engines
//! live in the page cache, which is charged to the cgroup too), lets each load the same data, and
//! then hands out short slices of work round robin: every engine meets the same weather of a shared
//! machine. What is reported is the median of a cell's slices with their spread. For the
//! larger-than-memory reads, slices of `fio` on the same disk with the same number of synchronous
//! readers take part in the round.
//!
//! `scale` is another measurement with the same adapters: how operations scale with threads.

#![deny(unsafe_code)]

mod cgroup;
mod child;
mod data;
mod engines;
mod fio;
mod folder;
mod options;
mod parent;
mod process;
mod scale;
mod table;

use clap::Parser;

use crate::options::Options;

/// Compares Holdfast with LMDB, redb, fjall, RocksDB and SQLite
#[derive(Parser)]
#[command(max_term_width = 100, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    other: Option<Other>,
}

/// Measurements beside the comparison.
#[derive(clap::Subcommand)]
enum Other {
    /// Measure how operations scale with threads
    Scale(scale::Options),
}

fn main() -> anyhow::Result<()> {
    let Arguments { mut options, other } = Arguments::parse();
    if let Some(Other::Scale(options)) = other {
        return scale::run(options);
    }
    if options.smoke {
        options = Options { rows: 5_000, large_rows: Some(20_000), repeats: 1, slice_ms: 100, ..options };
    }
    options.check()?;
    match &options.child {
        Some(engine) => child::serve(engine, &options),
        None => parent::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No rows ended an engine's process with a panic, and the others were sizes of another number.
    #[test]
    fn sizes_at_either_end_are_refused_or_work() {
        let checked = |words: &[&str]| {
            let words = ["compare"].into_iter().chain(words.iter().copied());
            Arguments::try_parse_from(words).unwrap().options.check()
        };
        assert!(checked(&[]).is_ok() && checked(&["--rows", "1", "--repeats", "1", "--slice-ms", "1"]).is_ok());
        for name in ["--memory-mib", "--rows", "--large-rows", "--repeats", "--slice-ms"] {
            for given in ["0", "18446744073709551615"] {
                let error = checked(&[name, given]).unwrap_err().to_string();
                assert!(error.starts_with(&format!("{name} is {given}, and takes ")), "{error}");
            }
        }
    }
}
