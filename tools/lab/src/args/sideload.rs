//! The arguments of `sideload`.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use holdfast_workload::dist::Kind;

use super::common::{CommonArgs, DiskArg, TargetArg, judged_with_holdfast};
use crate::document::Document;
use crate::experiments::sideload;
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::servers::{self, foreign, runs};
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server;
use crate::server::contender::{Contender, Engine};
use crate::turns::Rounds;

/// `holdfast lab sideload`.
#[derive(Debug, Args)]
pub struct SideloadArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Divide tables and pool by S, 0.005 to 100 [default: 20, with --quick 36, with --full 1; on
    /// servers 4, 16 and 1]
    #[arg(long, value_name = "S", value_parser = |text: &str| between(text, 0.005..=100.0))]
    pub scale: Option<f64>,
    /// Make disk, request rate and dump D times as fast, 0.1 to 100 [default: 5, with --full 1]
    #[arg(long, value_name = "D", value_parser = |text: &str| between(text, 0.1..=100.0))]
    pub speed: Option<f64>,
    /// OLTP sessions
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Transactions per second of the runs at a fixed rate [default: 300 x D, as published]; on
    /// servers of all runs, a whole number [default: no limit]
    #[arg(long, value_name = "TPS", value_parser = |text: &str| between(text, 0.01..=1e9))]
    pub rate: Option<f64>,
    /// Rows per second that the dump's client takes, on the embedded engine; 0: no limit [default:
    /// the published pace x D]
    #[arg(long, value_name = "ROWS", value_parser = zero_or_pace)]
    pub dump_rate: Option<f64>,
    /// With --target mariadb: the engines, and other servers beside them [default: innodb,myrocks,
    /// holdfast; with --quick innodb,holdfast]
    #[arg(long, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
    /// Distribution of the rows that OLTP reads: uniform, special, pareto or zipf
    #[arg(long, default_value = "uniform", value_name = "KIND")]
    pub rand_type: Kind,
}

fn between(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("give a number from {} to {}", range.start(), range.end()))
}

fn zero_or_pace(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) { Ok(0.0) } else { between(text, 1.0..=1e9) }
}

impl SideloadArgs {
    fn options(&self) -> sideload::Options {
        let common = &self.common;
        let quick = if common.tiny { (100.0, 16.0) } else { (36.0, 5.0) };
        let (size, speed) = common.sized(quick, (20.0, 5.0), (1.0, 1.0));
        let scale = Scale::new(self.scale.unwrap_or(size), self.speed.unwrap_or(speed));
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
            cores: common.cores(),
            seed: common.seed,
        }
    }

    /// The divisor of sizes on servers that are started for the experiment. Sizes shrink less than
    /// on the engine alone, since small pools cause problems of their own there.
    fn server_size(&self) -> f64 {
        let quick = if self.common.tiny { 64.0 } else { 16.0 };
        self.scale.unwrap_or(self.common.sized(quick, 4.0, 1.0))
    }

    /// On private servers.
    fn server_options(&self) -> runs::Options {
        let common = &self.common;
        let size = self.server_size();
        let speed = if common.full { 1.0 } else { 5.0 };
        let scale = Scale::new(size, self.speed.unwrap_or(speed));
        // MyRocks takes long to load, and has no buffer pool that a dump could wash out.
        let engines = match (self.engines.as_slice(), common.quick) {
            ([], true) => &[Engine::Innodb, Engine::Holdfast][..],
            ([], false) => &Engine::HERE,
            (named, _) => named,
        };
        let old_blocks_time_ms = scale_time(1000.0, size);
        let contenders = engines.iter().flat_map(|e| e.contenders(old_blocks_time_ms)).collect();
        self.on_server(scale, contenders)
    }

    fn on_server(&self, scale: Scale, contenders: Vec<Contender>) -> runs::Options {
        let common = &self.common;
        let seconds = |quick: u64, other: u64| Duration::from_secs(if common.quick { quick } else { other });
        let times = runs::Times {
            turn: Duration::from_secs(1),
            rounds: if common.quick { Rounds::up_to_four_times(10) } else { Rounds::up_to_twice(80) },
            alone: seconds(3, 10),
            patience: seconds(12, 60),
        };
        let (rows, threads) = (scale.hot_rows(), usize::from(self.threads));
        let oltp = server::load::Oltp {
            rate: self.rate,
            distribution: in_sysbench(self.rand_type),
            ..server::load::Oltp::read_only(rows, server::data::SCHEMA, threads, common.seed)
        };
        let (modelled, cores) = (common.disk == Some(DiskArg::Model), common.cores());
        runs::Options { scale, contenders, oltp, times, modelled, cores }
    }

    /// On a server that the lab does not start: it has the cores that it has, and so have clients.
    fn on_running_server(&self, scale: Scale, contenders: Vec<Contender>) -> runs::Options {
        runs::Options { cores: Cores::new(false), ..self.on_server(scale, contenders) }
    }

    /// sysbench takes a whole number, of which 0 means no limit.
    fn ensure_rate(&self) -> Result<()> {
        let is_whole = self.rate.is_none_or(|rate| rate >= 1.0 && rate.fract() == 0.0);
        ensure!(
            is_whole || self.common.target == TargetArg::Embedded,
            "on servers --rate takes a whole number from 1 on"
        );
        Ok(())
    }

    /// Runs on the target that the arguments name.
    pub(crate) fn run(&self, progress: &mut Progress) -> Result<Document> {
        let common = &self.common;
        let embedded = common.target == TargetArg::Embedded;
        common.ensure_has_choice(&self.engines)?;
        ensure!(
            self.dump_rate.is_none() || embedded,
            "--dump-rate is for the embedded engine: on servers the dump's client takes what it gets"
        );
        self.ensure_rate()?;
        match &common.target {
            TargetArg::Embedded => sideload::run(&self.options(), progress),
            TargetArg::MariaDb => {
                let result = servers::run(&self.server_options(), progress)?;
                Ok(judged_with_holdfast(&self.engines, result))
            }
            TargetArg::Released(server) => {
                anyhow::ensure!(common.disk != Some(DiskArg::Model), "that server runs on the real disk");
                let pool = Scale::new(self.server_size(), 1.0).pool_bytes();
                let make = |scale, contenders| self.on_server(scale, contenders);
                server::released::sideload(*server, (pool, self.scale), &common.cores(), &make, progress)
            }
            TargetArg::Server(address) => {
                anyhow::ensure!(self.common.disk != Some(DiskArg::Model), "the disk of that server is what it is");
                let engine = self.engines.first().copied().unwrap_or(Engine::Innodb);
                let make = |scale, contenders| self.on_running_server(scale, contenders);
                foreign::run(("A running server", "dsn"), address, engine, self.scale, &make, progress)
            }
        }
    }
}

/// The name of a distribution in sysbench's `--rand-type`. Its parameters are the same there.
fn in_sysbench(distribution: Kind) -> String {
    match distribution {
        Kind::Zipf { .. } => "zipfian".to_owned(),
        other => other.to_string(),
    }
}

/// Scales a time of the published size to one that is `size` times smaller: what takes that time
/// shrinks with the size.
fn scale_time(ms: f64, size: f64) -> u32 {
    (ms / size).round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SideloadArgs,
    }

    fn parsed(words: &[&str]) -> SideloadArgs {
        Line::parse_from([&["sideload"], words].concat()).args
    }

    /// A rate below a half was no limit.
    #[test]
    fn a_rate_on_servers_is_one_that_sysbench_takes() {
        let refused = |words: &[&str]| parsed(words).ensure_rate().is_err();
        assert!(!refused(&["--rate", "0.4"]) && !refused(&["--target", "mariadb"]));
        assert!(
            refused(&["--rate", "0.4", "--target", "mariadb"]) && refused(&["--rate", "1.5", "--target", "mysql55"])
        );
        assert!(!refused(&["--rate", "300", "--target", "mariadb"]));
    }

    /// The document said that all was pinned, and the dump alone was, to half of the cores.
    #[test]
    fn nothing_is_pinned_beside_a_running_server() {
        let args = parsed(&["--target", "dsn:mysql://me@host/", "--engines", "innodb"]);
        assert!(!args.on_running_server(Scale::new(64.0, 1.0), Vec::new()).cores.pins());
    }

    /// The run ended, after the tables were loaded, for sysbench knows no "zipf".
    #[test]
    fn distributions_have_sysbenchs_names() {
        let scale = || Scale::new(64.0, 1.0);
        let of = |name: &str| parsed(&["--rand-type", name]).on_server(scale(), Vec::new()).oltp.distribution;
        assert_eq!(["uniform", "special", "pareto", "zipf"].map(of), ["uniform", "special", "pareto", "zipfian"]);
    }

    #[test]
    fn the_help_has_the_default_sizes() {
        let help = Line::command().render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        let all: Vec<&[&str]> = vec![&[], &["--quick"], &["--full"]];
        let of = |size: &dyn Fn(&SideloadArgs) -> f64| all.iter().map(|words| size(&parsed(words))).collect::<Vec<_>>();
        let embedded = of(&|args| 1_100_000.0 / f64::from(args.options().scale.hot_rows()));
        let [usual, quick, full] = [0, 1, 2].map(|n: usize| embedded[n].round());
        let servers = of(&SideloadArgs::server_size);
        let said = format!(
            "[default: {usual}, with --quick {quick}, with --full {full}; on servers {}, {} and {}]",
            servers[0], servers[1], servers[2]
        );
        assert!(help.contains(&said), "{said} is not in {help}");
        let speeds = of(&|args| args.options().scale.rate() / 300.0);
        assert_eq!(speeds[0], speeds[1]);
        assert!(help.contains(&format!("[default: {}, with --full {}]", speeds[0], speeds[2])), "{speeds:?} in {help}");
    }
}
