//! The arguments of `holdfast lab`: those of all experiments, those of the experiments on the
//! embedded engine alone, and, here, the choice of one.

mod common;
pub mod rig;

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use holdfast_workload::dist::Kind;
use serde_json::json;

use self::common::DIRECTORY;
pub use self::common::{CommonArgs, DiskArg, TargetArg};
use self::rig::{RigArgs, RigExperiment};
use crate::claims::Answer;
use crate::conditions::Watch;
use crate::document::{self, Document};
use crate::experiments::sideload::scale::Scale;
use crate::experiments::{scan, sideload};
use crate::machine::Machine;
use crate::pin::{self, Cores};
use crate::progress::Progress;
use crate::server::contender::{Contender, Engine};
use crate::server::turns::running::{self, What};
use crate::server::turns::{self, Plan};
use crate::server::{self, foreign};
use crate::turns::Rounds;
use crate::{report, text};

/// `holdfast lab`: the experiments.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// The experiment.
    #[command(subcommand)]
    pub experiment: Experiment,
}

/// An experiment.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// A dump of a big table beside OLTP on a small one: does the small one stay, or become,
    /// resident
    #[command(after_help = SIDELOAD_EXAMPLES)]
    Sideload(SideloadArgs),
    /// A report query over a big table between queries of a small one
    #[command(after_help = SCAN_EXAMPLES)]
    Scan(ScanArgs),
    /// The server's query cache, on and off, with statements prepared and not, on InnoDB and
    /// Holdfast
    #[command(after_help = QUERYCACHE_EXAMPLES)]
    Querycache(QuerycacheArgs),
    /// The experiments on the embedded engine.
    #[command(flatten)]
    Rig(RigExperiment),
    /// All experiments, one report
    #[command(after_help = ALL_EXAMPLES)]
    All(RigArgs),
}

const SIDELOAD_EXAMPLES: &str = "\
Examples:
  holdfast lab sideload                               the experiment at a twentieth of the published size
  holdfast lab sideload --quick --check               the same in under a minute; exit code 3 or 4 if a claim does not hold
  holdfast lab sideload --report sideload.html        with charts
  holdfast lab sideload --disk real --dir /mnt/ssd    on a real disk instead of the model of a spinning one
  holdfast lab sideload --full --json full.json       the published size; takes hours
  holdfast lab sideload --target mariadb --quick      real sysbench and mariadb-dump, InnoDB, MyRocks and Holdfast";

const SCAN_EXAMPLES: &str = "\
Examples:
  holdfast lab scan
  holdfast lab scan --quick --check --report scan.html
  holdfast lab scan --disk real --dir /mnt/ssd
  holdfast lab scan --target mariadb                  InnoDB with its knobs, and Holdfast, on private servers
  holdfast lab scan --target mysql55                  InnoDB as it was in 2011";

const QUERYCACHE_EXAMPLES: &str = "\
The default is a private MariaDB server, which is fetched by apt.
Examples:
  holdfast lab querycache --quick --check
  holdfast lab querycache --target mysql55                   what the cache costs on a server of 2011
  holdfast lab querycache --full --report querycache.html    1,000,000 rows and turns of 60 s, as published";

const ALL_EXAMPLES: &str = "\
Examples:
  holdfast lab all --quick --check --report all.html
  holdfast lab all --dir /mnt/ssd --json all.json";

/// `holdfast lab sideload`.
#[derive(Debug, Args)]
pub struct SideloadArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Divide tables and pool by S [default: 20, with --quick 30, with --full 1]
    #[arg(long, value_name = "S", value_parser = above_zero)]
    pub scale: Option<f64>,
    /// Make disk, request rate and dump D times as fast [default: 5, with --quick 6, with --full 1]
    #[arg(long, value_name = "D", value_parser = above_zero)]
    pub speed: Option<f64>,
    /// OLTP sessions
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Transactions per second of the runs at a fixed rate [default: 300 x D, as published]
    #[arg(long, value_name = "TPS", value_parser = above_zero)]
    pub rate: Option<f64>,
    /// Rows per second that the dump's client takes; 0: no limit [default: the published pace x D]
    #[arg(long, value_name = "ROWS", value_parser = zero_or_above)]
    pub dump_rate: Option<f64>,
    /// With --target mariadb: the engines [default: all, with --quick innodb,holdfast]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
    /// Distribution of the rows that OLTP reads: uniform, special, pareto or zipf
    #[arg(long, default_value = "uniform", value_name = "KIND")]
    pub rand_type: Kind,
}

/// `holdfast lab scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `holdfast lab querycache`.
#[derive(Debug, Args)]
pub struct QuerycacheArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// OLTP sessions
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// With --target dsn: the engine of the table, the first of the list [default: innodb]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
    /// Size of the query cache, in MiB; with --target dsn the server's own size counts
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub query_cache_mib: u64,
}

fn above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v > 0.0 && v.is_finite() => Ok(v),
        _ => Err("give a number above 0".to_owned()),
    }
}

fn zero_or_above(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v >= 0.0 && v.is_finite() => Ok(v),
        _ => Err("give a number, 0 or above".to_owned()),
    }
}

impl SideloadArgs {
    fn options(&self) -> sideload::Options {
        let common = &self.common;
        let (size, speed) = match (common.quick, common.full) {
            (true, _) => (36.0, 5.0),
            (_, true) => (1.0, 1.0),
            _ => (20.0, 5.0),
        };
        let scale = Scale::new(self.scale.unwrap_or(size), self.speed.unwrap_or(speed), 1.0);
        let dump_rate = self.dump_rate.unwrap_or_else(|| scale.dump_rows_per_second());
        sideload::Options {
            scale,
            distribution: self.rand_type,
            threads: usize::from(self.threads),
            rate: self.rate.unwrap_or_else(|| scale.rate()),
            dump_rows_per_second: (dump_rate > 0.0).then_some(dump_rate),
            turns: 15,
            enough: Duration::from_secs(if common.full { 3600 } else { 60 }),
            turn_minutes: if common.quick { 0.3 } else { 0.5 },
            rate_minutes: if common.quick { 3.0 } else { 4.0 },
            cold_minutes: 8.0,
            policy_alone: !common.quick,
            real_disk: common.real_disk(),
            cores: Cores::new(!common.no_pin),
            seed: common.seed,
        }
    }
}

impl SideloadArgs {
    /// On private servers sizes shrink less than on the engine alone, since small pools cause
    /// problems of their own there.
    fn server_options(&self) -> server::sideload::Options {
        let common = &self.common;
        let (size, speed) = match (common.quick, common.full) {
            (true, _) => (16.0, 5.0),
            (_, true) => (1.0, 1.0),
            _ => (4.0, 5.0),
        };
        let size = self.scale.unwrap_or(size);
        let scale = Scale::new(size, self.speed.unwrap_or(speed), 1.0);
        // MyRocks takes long to load, and has no buffer pool that a dump could wash out.
        let engines = match (self.engines.as_slice(), common.quick) {
            ([], true) => &[Engine::Innodb, Engine::Holdfast],
            ([], false) => Engine::value_variants(),
            (named, _) => named,
        };
        let old_blocks_time_ms = scale_time(1000.0, size);
        let contenders = engines.iter().flat_map(|e| e.contenders(old_blocks_time_ms)).collect();
        self.on_server(scale, size, contenders)
    }

    fn on_server(&self, scale: Scale, size: f64, contenders: Vec<Contender>) -> server::sideload::Options {
        let common = &self.common;
        let seconds = |quick: u64, other: u64| Duration::from_secs(if common.quick { quick } else { other });
        let times = server::sideload::Times {
            turn: Duration::from_secs(1),
            rounds: if common.quick { Rounds::up_to_four_times(10) } else { Rounds::up_to_twice(80) },
            alone: seconds(3, 10),
            patience: seconds(12, 60),
        };
        let (rows, threads) = (scale.hot_rows(), usize::from(self.threads));
        let oltp = server::load::Oltp {
            rate: self.rate,
            distribution: self.rand_type.to_string(),
            ..server::load::Oltp::read_only(rows, server::data::SCHEMA, threads, common.seed)
        };
        let (modelled, cores) = (common.disk == Some(DiskArg::Model), Cores::new(!common.no_pin));
        server::sideload::Options { scale, size, contenders, oltp, times, modelled, cores }
    }

    /// Runs on the target that the arguments name.
    fn run(&self, progress: &mut Progress) -> Result<(Document, String)> {
        let common = &self.common;
        match &common.target {
            TargetArg::Embedded => sideload::run(&self.options(), progress),
            TargetArg::MariaDb => server::run(&self.server_options(), progress),
            TargetArg::Historic(server) => {
                anyhow::ensure!(common.disk != Some(DiskArg::Model), "that server runs on the real disk");
                let pool = if common.quick {
                    32 << 20
                } else if common.full {
                    512 << 20
                } else {
                    128 << 20
                };
                let make = |scale, size, contenders| self.on_server(scale, size, contenders);
                server::historic::sideload(*server, pool, &Cores::new(!common.no_pin), &make, progress)
            }
            TargetArg::Server(address) => {
                anyhow::ensure!(self.common.disk != Some(DiskArg::Model), "the disk of that server is what it is");
                let engine = self.engines.first().copied().unwrap_or(Engine::Innodb);
                let make = |scale, size, contenders| self.on_server(scale, size, contenders);
                foreign::run("A running server", address, engine, self.scale, &make, progress)
            }
        }
    }
}

impl QuerycacheArgs {
    /// Runs on the target that the arguments name. The embedded engine has no query cache, so the
    /// default is a private server.
    fn run(&self, progress: &mut Progress) -> Result<(Document, String)> {
        ensure!(self.common.disk != Some(DiskArg::Model), "querycache has its table in memory; leave --disk out");
        let chosen = self.engines.first().copied();
        ensure!(
            chosen.is_none() || matches!(self.common.target, TargetArg::Server(_)),
            "--engines is for a server of yours; on a private one InnoDB and Holdfast are compared"
        );
        let options = self.options();
        match &self.common.target {
            TargetArg::Embedded | TargetArg::MariaDb => server::querycache::run(&options, progress),
            TargetArg::Historic(server) => server::historic::in_turns(*server, What::Querycache(options), progress),
            TargetArg::Server(address) => {
                running::run(What::Querycache(options), address, chosen.unwrap_or(Engine::Innodb), progress)
            }
        }
    }

    fn options(&self) -> server::querycache::Options {
        let common = &self.common;
        let (rows, pairs, turn) = match (common.quick, common.full) {
            (true, _) => (60_000, 7, 1),
            (_, true) => (1_000_000, 7, 60),
            _ => (200_000, 9, 4),
        };
        let plan = Plan {
            contenders: turns::contenders(&[]),
            rounds: Rounds::up_to_twice(pairs),
            turn: Duration::from_secs(turn),
            cores: Cores::new(!common.no_pin),
            seed: common.seed,
        };
        let (threads, cache_bytes) = (usize::from(self.threads), self.query_cache_mib << 20);
        server::querycache::Options { plan, rows, threads, cache_bytes }
    }
}

/// Scales a time of the published size to one that is `size` times smaller: what takes that time
/// shrinks with the size.
fn scale_time(ms: f64, size: f64) -> u32 {
    (ms / size).round().max(1.0) as u32
}

impl ScanArgs {
    /// Runs on the target that the arguments name.
    fn run(&self, progress: &mut Progress) -> Result<(Document, String)> {
        let common = &self.common;
        match &common.target {
            TargetArg::Embedded => scan::run(&self.options(), progress),
            TargetArg::MariaDb => {
                let model = (common.disk == Some(DiskArg::Model)).then_some((Duration::from_millis(8), 100_000_000));
                server::scan::run(&self.server_options(), model, progress)
            }
            TargetArg::Historic(server) => {
                ensure!(common.disk != Some(DiskArg::Model), "that server runs on the real disk");
                server::scan::run_historic(*server, &self.server_options(), progress)
            }
            TargetArg::Server(_) => {
                anyhow::bail!("scan sets the server's cache; --target mariadb, mysql55 or mysql56 start one for it")
            }
        }
    }

    /// The published pool is not scaled down on servers: InnoDB does not divide smaller pools into
    /// young and old, and a row is larger in the servers' formats than in the engine's own.
    fn server_options(&self) -> scan::Options {
        scan::Options { factor: 1.0, new_order_warehouses: 18.0, ..self.options() }
    }

    fn options(&self) -> scan::Options {
        let common = &self.common;
        scan::Options {
            factor: if common.quick { 2.0 } else { 1.0 },
            new_order_warehouses: 24.0,
            repetitions: if common.quick { 2 } else { 3 },
            real_disk: common.real_disk(),
            cores: Cores::new(!common.no_pin),
            seed: common.seed,
        }
    }
}

/// Runs an experiment and writes its document and report. Returns the worst answer to a claim with
/// `--check`, else [`Answer::Holds`].
///
/// # Errors
/// If the experiment cannot be run, or a file cannot be written.
pub fn run(args: &LabArgs) -> Result<Answer> {
    let common = args.experiment.common();
    std::fs::create_dir_all(&common.dir).with_context(|| format!("create the directory {}", common.dir.display()))?;
    let mut progress = Progress::new();
    let result = match &args.experiment {
        Experiment::All(args) => all(args, &mut progress).map(|(documents, text)| (Written::All(documents), text)),
        one => experiment(one, &mut progress).map(|(document, text)| (Written::One(Box::new(document)), text)),
    };
    progress.finish();
    let (written, text) = result?;
    output(&written, &text, common)?;
    let worst = written.documents().iter().map(Document::answer).max();
    Ok(worst.filter(|_| common.check).unwrap_or(Answer::Holds))
}

impl Experiment {
    fn common(&self) -> &CommonArgs {
        match self {
            Experiment::Sideload(args) => &args.common,
            Experiment::Scan(args) => &args.common,
            Experiment::Querycache(args) => &args.common,
            Experiment::Rig(one) => &one.args().common,
            Experiment::All(args) => &args.common,
        }
    }
}

/// Runs one experiment.
fn experiment(one: &Experiment, progress: &mut Progress) -> Result<(Document, String)> {
    let watch = Watch::start();
    let result = match one {
        Experiment::Sideload(args) => args.run(progress),
        Experiment::Scan(args) => args.run(progress),
        Experiment::Querycache(args) => args.run(progress),
        Experiment::Rig(one) => one.run(progress),
        Experiment::All(_) => bail!("all is not one experiment"),
    };
    // Some experiments pin the thread that runs them; the next one must not begin on that core
    // alone.
    pin::unpin();
    let (mut document, mut text) = result?;
    document.judge(watch.conditions());
    text.push_str(&text::verdicts(&document.verdicts));
    Ok((document, text))
}

/// The experiments of `all`, in the order of the report.
const ALL: [&str; 9] = ["sideload", "scan", "overflow", "purge", "flush", "sessions", "iobound", "querycache", "soak"];

/// A separate command line, so that each experiment gets its own defaults.
#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    lab: LabArgs,
}

fn all(args: &RigArgs, progress: &mut Progress) -> Result<(Vec<Document>, String)> {
    ensure!(args.common.target == TargetArg::Embedded, "all runs on the embedded engine; leave --target out");
    let mut documents = Vec::new();
    let mut text = String::new();
    for name in ALL {
        let mut words = vec!["lab".to_owned(), name.to_owned(), "--seed".to_owned(), args.common.seed.to_string()];
        words.extend(["--dir".to_owned(), args.common.dir.display().to_string()]);
        let flags = [(args.common.quick, "--quick"), (args.common.full, "--full"), (args.common.no_pin, "--no-pin")];
        words.extend(flags.iter().filter(|f| f.0).map(|f| f.1.to_owned()));
        let alone = Alone::try_parse_from(words).context("the arguments of an experiment")?;
        progress.line(&format!("== {name} =="));
        let (document, shown) = match left_out(&alone.lab.experiment, progress) {
            Some(said) => said,
            None => experiment(&alone.lab.experiment, progress).with_context(|| format!("lab {name}"))?,
        };
        text.push_str(&format!("== {name} ==\n\n{shown}\n"));
        documents.push(document);
    }
    text.push_str(&text::summary(&documents));
    Ok((documents, text))
}

/// Replaces the results of an experiment that cannot be run here. `querycache` needs a server;
/// without one the report has the other experiments.
fn left_out(one: &Experiment, progress: &mut Progress) -> Option<(Document, String)> {
    let Experiment::Querycache(_) = one else { return None };
    turns::equip(progress).err().map(|error| without_server(&error))
}

fn without_server(error: &anyhow::Error) -> (Document, String) {
    let mut document = Document::new("querycache", json!({}), Machine::this(None));
    "The cost of the query cache".clone_into(&mut document.title);
    document.figures.words = vec![format!("Left out: it needs a MariaDB server. {error:#}.")];
    let text = document.figures.text();
    (document, text)
}

/// The result of a run.
enum Written {
    One(Box<Document>),
    All(Vec<Document>),
}

impl Written {
    fn documents(&self) -> &[Document] {
        match self {
            Written::One(document) => std::slice::from_ref(document),
            Written::All(documents) => documents,
        }
    }

    fn name(&self) -> &str {
        match self {
            Written::One(document) => &document.experiment,
            Written::All(_) => "all",
        }
    }

    fn write_json(&self, path: &Path) -> Result<()> {
        match self {
            Written::One(document) => document::write_json(document.as_ref(), path),
            Written::All(documents) => document::write_json(documents, path),
        }
    }

    fn write_report(&self, path: &Path) -> Result<()> {
        match self {
            Written::One(document) => report::write(document, path),
            Written::All(documents) => report::write_all(documents, path),
        }
    }
}

fn output(written: &Written, text: &str, common: &CommonArgs) -> Result<()> {
    // With the document on standard output, the text goes to standard error.
    let json_on_stdout = common.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if json_on_stdout {
        eprintln!("{text}");
    } else if let Err(error) = writeln!(std::io::stdout().lock(), "{text}")
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        // A reader that closed the pipe does not lose the document and the report.
        return Err(error).context("print the figures");
    }
    if let Some(path) = &common.json {
        written.write_json(path).with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = common.report_path(written.name()) {
        if common.report.is_none() {
            std::fs::create_dir_all(DIRECTORY).with_context(|| format!("create the directory {DIRECTORY}"))?;
        }
        written.write_report(&path)?;
        eprintln!("report: {}", path.display());
    }
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    eprintln!("This build is not optimised; its figures say nothing. Use `cargo run --release`.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_says_why() {
        let (document, text) = without_server(&anyhow::anyhow!("apt is not installed"));
        let page = report::page_of_all(&[document]);
        for said in [&text, &page] {
            assert!(said.contains("Left out: it needs a MariaDB server. apt is not installed."), "{said}");
        }
        assert!(!page.contains("A dump beside OLTP"), "the body of another experiment");
    }
}
