//! The arguments of `holdfast sim`, and its execution.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use crate::{Declared, Kind, OltpDump, PolicyName};

/// Replay page reference traces through replacement policies and print miss ratios.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    #[command(subcommand)]
    command: Option<SimCommand>,
    #[command(flatten)]
    replay: ReplayArgs,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    /// Generate a trace file.
    #[command(subcommand)]
    Generate(GenerateCommand),
}

#[derive(Debug, Args)]
struct ReplayArgs {
    /// Cache sizes in frames (pages).
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1000, 5000, 15000])]
    frames: Vec<usize>,
    /// Policies, or all: optimum, holdfast, holdfast_no_hint, midpoint_lru_0, midpoint_lru, lru,
    /// clock, 2q, arc, lirs, sieve, s3fifo, w_tinylfu, w_tinylfu_10.
    #[arg(long = "policy", value_delimiter = ',', value_name = "LIST", default_value = "all")]
    policies: Vec<Policies>,
    /// Tell `holdfast` that each trace is a loop: one table that is scanned again and again.
    #[arg(long)]
    declare_scans: bool,
    /// Write the results as JSON to this file; `-` prints them instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Trace files: one page number per line, the ARC paper's .lis, or generated; plain, .gz or
    /// .zst.
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
}

/// The policies that a name in the list means.
#[derive(Clone, Debug)]
enum Policies {
    All,
    One(PolicyName),
}

impl Policies {
    fn one(&self) -> Option<PolicyName> {
        match self {
            Policies::All => None,
            Policies::One(policy) => Some(*policy),
        }
    }
}

impl FromStr for Policies {
    type Err = holdfast_base::Error;

    fn from_str(name: &str) -> Result<Policies, Self::Err> {
        if name == "all" { Ok(Policies::All) } else { name.parse().map(Policies::One) }
    }
}

#[derive(Debug, Subcommand)]
enum GenerateCommand {
    /// Point lookups on a hot table, beside a dump of a large table.
    OltpDump(OltpDumpArgs),
    /// A loop over one table.
    Loop(LoopArgs),
}

#[derive(Debug, Args)]
struct OltpDumpArgs {
    /// Leaf pages of the hot table.
    #[arg(long, default_value_t = 60_000)]
    leaves: u32,
    /// Exponent of the Zipf distribution over the leaves.
    #[arg(long, default_value_t = 0.8)]
    theta: f64,
    /// OLTP touches before the measurement.
    #[arg(long, default_value_t = 2_000_000)]
    warm_up: u64,
    /// OLTP touches measured.
    #[arg(long, default_value_t = 1_000_000)]
    touches: u64,
    /// OLTP touches per page of the dump (0: no dump).
    #[arg(long, default_value_t = 3)]
    dump_every: u32,
    /// Pages of the dumped table.
    #[arg(long, default_value_t = 200_000)]
    dump_pages: u32,
    /// Touches of each page by the dump.
    #[arg(long, default_value_t = 60)]
    dump_touches: u16,
    /// The dump walks the hot table.
    #[arg(long)]
    dump_hot_table: bool,
    /// In the middle of the run other leaves become popular.
    #[arg(long)]
    shift: bool,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct LoopArgs {
    /// Pages of the loop.
    #[arg(long, default_value_t = 1011)]
    pages: u32,
    /// Rounds of the loop.
    #[arg(long, default_value_t = 500)]
    laps: u32,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// One page number per touch and line, for other simulators; without the marks of OLTP and
    /// dump.
    #[arg(long)]
    plain: bool,
    /// The file to write, compressed if its name ends in .gz; `-` for standard output.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command. Results are printed on standard output.
///
/// # Errors
/// Files that cannot be read or written, and arguments that do not fit each other, each by its
/// name.
pub fn run(args: SimArgs) -> anyhow::Result<()> {
    match args.command {
        Some(SimCommand::Generate(command)) => generate(command),
        None => replay(&args.replay),
    }
}

fn replay(args: &ReplayArgs) -> anyhow::Result<()> {
    let policies: Vec<PolicyName> = match args.policies.iter().any(|p| matches!(p, Policies::All)) {
        true => PolicyName::all().collect(),
        false => args.policies.iter().filter_map(Policies::one).collect(),
    };
    let declared = if args.declare_scans { Declared::Whole } else { Declared::AsTraced };
    let mut rows = Vec::new();
    for path in &args.traces {
        let trace = crate::read(path)?;
        rows.extend(crate::run(&policies, &args.frames, std::slice::from_ref(&trace), declared)?);
    }
    let mut out = io::stdout().lock();
    match &args.json {
        Some(path) if path == Path::new("-") => writeln!(out, "{}", crate::report::json(&rows)?)?,
        Some(path) => {
            let text = crate::report::json(&rows)? + "\n";
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
            write!(out, "{}", crate::report::table(&rows))?;
        }
        None => write!(out, "{}", crate::report::table(&rows))?,
    }
    Ok(())
}

fn generate(command: GenerateCommand) -> anyhow::Result<()> {
    let (name, kind, output) = match command {
        GenerateCommand::OltpDump(a) => {
            let options = OltpDump {
                leaves: a.leaves,
                theta: a.theta,
                warm_up: a.warm_up,
                touches: a.touches,
                dump_every: a.dump_every,
                dump_pages: a.dump_pages,
                dump_touches: a.dump_touches,
                dump_hot_table: a.dump_hot_table,
                shift: a.shift,
                seed: a.seed,
            };
            ("oltp-dump", Kind::OltpDump(options), a.output)
        }
        GenerateCommand::Loop(a) => ("loop", Kind::Loop { pages: a.pages, laps: a.laps }, a.output),
    };
    let trace = crate::generate(name, &kind)?;
    let shown = output.file.display();
    if output.file == Path::new("-") {
        return crate::write(&trace, output.plain, &mut BufWriter::new(io::stdout().lock())).context("standard output");
    }
    if output.file.extension().is_some_and(|e| e == "zst") {
        bail!("{shown}: writing .zst is not supported; name the file .gz or without compression");
    }
    let file = File::create(&output.file).with_context(|| format!("create {shown}"))?;
    if output.file.extension().is_some_and(|e| e == "gz") {
        let mut out = flate2::write::GzEncoder::new(BufWriter::new(file), flate2::Compression::fast());
        crate::write(&trace, output.plain, &mut out).with_context(|| format!("write {shown}"))?;
        out.finish().and_then(|mut f| f.flush()).with_context(|| format!("write {shown}"))
    } else {
        crate::write(&trace, output.plain, &mut BufWriter::new(file)).with_context(|| format!("write {shown}"))
    }
}
