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
mod parent;
mod process;
mod scale;
mod table;

use clap::Parser;

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

#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Engines to run
    #[arg(long, value_delimiter = ',', default_value = "holdfast,lmdb,redb,fjall,rocksdb,sqlite")]
    engines: Vec<String>,
    /// Memory limit of each engine's process, page cache included, in MiB; engines with a cache of
    /// their own get half, and Holdfast, which does not use the page cache, three quarters
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Rows of the in-memory data set (100-byte values)
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows of the larger-than-memory data set; the default is 4 times the memory limit
    #[arg(long)]
    large_rows: Option<u64>,
    /// Slices of each cell
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Length of a slice, in milliseconds
    #[arg(long, default_value_t = 1000)]
    slice_ms: u64,
    /// Where the folder with the databases is made (it is removed afterwards)
    #[arg(long, default_value = ".lab")]
    dir: std::path::PathBuf,
    /// Also write the table as Markdown to this file
    #[arg(long)]
    markdown: Option<std::path::PathBuf>,
    /// Write every slice to this file as JSON
    #[arg(long)]
    json: Option<std::path::PathBuf>,
    /// A few thousand rows and one short slice each: only shows that every adapter works
    #[arg(long)]
    smoke: bool,
    /// Run as the child of one engine (used by the parent)
    #[arg(long, hide = true)]
    child: Option<String>,
}

impl Options {
    /// Refuses sizes of which there is nothing to measure, or of whose bytes there is no number.
    fn check(&self) -> anyhow::Result<()> {
        let sizes = [
            ("--memory-mib", self.memory_mib, 16..=1 << 20),
            ("--rows", self.rows, 1..=data::MOST_ROWS),
            ("--large-rows", self.large_rows.unwrap_or(1), 1..=data::MOST_ROWS),
            ("--repeats", self.repeats as u64, 1..=10_000),
            ("--slice-ms", self.slice_ms, 1..=3_600_000),
        ];
        for (name, given, range) in sizes {
            let (least, most) = (range.start(), range.end());
            anyhow::ensure!(range.contains(&given), "{name} is {given}, and takes {least} to {most}");
        }
        Ok(())
    }

    fn large_rows(&self) -> u64 {
        self.large_rows.unwrap_or_else(|| 4 * (self.memory_mib << 20) / data::ROW_BYTES)
    }
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
