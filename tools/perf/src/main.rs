//! `cargo xtask perf`: measures what `docs/performance/README.md` tells, on one machine, and writes
//! its tables and its picture.
//!
//! 1. A measurement ([`plan`]) is a command that writes JSON. It is run once; its result stays in a
//!    folder, with the machine that gave it ([`results`]), until `--again` names it.
//! 2. The results make the tables ([`tables`], [`servers`]), which replace those between the
//!    markers of the page and of README ([`page`]), the picture of all ratios ([`picture`]), and
//!    that of a cold table on each server ([`cold`]). Results of different machines are refused.

#![forbid(unsafe_code)]

mod cold;
mod page;
mod picture;
mod plan;
mod results;
mod servers;
mod tables;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;
use holdfast_server::run::{cargo, check, root};

use crate::plan::{MEASUREMENTS, Measurement};
use crate::results::Results;

/// Measures what the page about performance tells, and writes its tables and its picture.
#[derive(Parser)]
#[command(name = "cargo xtask perf", max_term_width = 100)]
struct Options {
    /// Measure these again, though there are results of them
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    again: Vec<String>,
    /// Measure nothing; write the page from the results that are there
    #[arg(long, conflicts_with = "again")]
    no_measuring: bool,
    /// Sizes that say nothing about speed: whether all commands work, and what the page looks like
    #[arg(long)]
    quick: bool,
    /// Where the results are [default: .lab/perf, with --quick .lab/perf-quick]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The page whose tables are written
    #[arg(long, default_value = "docs/performance/README.md")]
    page: PathBuf,
    /// The page whose sentences about a dump are written
    #[arg(long, default_value = "README.md")]
    readme: PathBuf,
    /// The picture of all ratios
    #[arg(long, default_value = "docs/pictures/performance.svg")]
    picture: PathBuf,
    /// The picture of `sideload` on each server
    #[arg(long, default_value = "docs/pictures/servers.svg")]
    servers: PathBuf,
    /// Measure only these
    names: Vec<String>,
}

impl Options {
    /// True if a measurement is to be made: one that is named again, or one of those that are
    /// chosen and have no result.
    fn asks_for(&self, name: &str, has_result: bool) -> bool {
        let has = |names: &[String]| names.iter().any(|one| one == name);
        has(&self.again) || (!has_result && (self.names.is_empty() || has(&self.names)))
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    std::env::set_current_dir(root())?;
    for name in options.names.iter().chain(&options.again) {
        let known = || MEASUREMENTS.map(|one| one.name).join(", ");
        ensure!(MEASUREMENTS.iter().any(|one| one.name == *name), "`{name}` is not measured; there are {}", known());
    }
    let usual = if options.quick { ".lab/perf-quick" } else { ".lab/perf" };
    let results = Results::new(options.dir.clone().unwrap_or_else(|| usual.into()))?;
    if !options.no_measuring {
        measure(&options, &results)?;
    }
    let measured = results.of_one_machine()?;
    let text = std::fs::read_to_string(&options.page).with_context(|| options.page.display().to_string())?;
    let (page, left) = page::with_tables(&text, &measured)?;
    let readme = std::fs::read_to_string(&options.readme).with_context(|| options.readme.display().to_string())?;
    let readme = page::readme(&readme, &measured)?;
    let mut pictures = vec![("picture.svg", &options.picture, picture::svg(&tables::ratios(&measured)))];
    pictures.extend(cold::svg(&measured).map(|drawn| ("servers.svg", &options.servers, drawn)));
    if options.quick {
        results.keep("page.md", &page)?;
        results.keep("readme.md", &readme)?;
        pictures.iter().try_for_each(|(name, _, drawn)| results.keep(name, drawn))?;
    } else {
        std::fs::write(&options.page, page)?;
        std::fs::write(&options.readme, readme)?;
        pictures.iter().try_for_each(|(_, path, drawn)| std::fs::write(path, drawn))?;
    }
    for name in left {
        println!("{name}: not measured; its table stays as it was");
    }
    Ok(())
}

/// Runs what has no result, and says how long the rest takes.
fn measure(options: &Options, results: &Results) -> anyhow::Result<()> {
    let chosen: Vec<&Measurement> =
        MEASUREMENTS.iter().filter(|one| options.asks_for(one.name, results.has(one.name))).collect();
    for (n, one) in chosen.iter().enumerate() {
        let minutes: u32 = chosen[n..].iter().map(|one| one.minutes).sum();
        let left = if options.quick { String::new() } else { format!(", about {minutes} minutes left") };
        println!("== {} ({} of {}{left})", one.name, n + 1, chosen.len());
        let begun = Instant::now();
        let file = results.new_file(one.name);
        check(cargo("").args(one.arguments(options.quick, &file)))?;
        results.take(one, &file)?;
        println!("{} took {:.0} s", one.name, begun.elapsed().as_secs_f64());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was not among those chosen stayed as it was.
    #[test]
    fn what_is_named_again_is_measured_again() {
        let asks = |line: &[&str], name, has_result| {
            Options::parse_from([&["perf"], line].concat()).asks_for(name, has_result)
        };
        assert!(asks(&["a", "--again", "b"], "b", true) && asks(&["a", "--again", "b"], "a", false));
        assert!(!asks(&["a", "--again", "b"], "c", false) && !asks(&["a", "--again", "b"], "a", true));
        assert!(asks(&["--again", "b"], "c", false) && !asks(&[], "c", true));
    }
}
