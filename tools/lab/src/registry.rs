//! The experiments: the one list from which the command line, its help, `all` and the table of the
//! guide come.

use anyhow::Result;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::args::common::CommonArgs;
use crate::args::querycache::QuerycacheArgs;
use crate::args::rig::{RigArgs, RigExperiment};
use crate::args::scan;
use crate::args::sideload::SideloadArgs;
use crate::document::Document;
use crate::progress::Progress;

/// An experiment of the lab.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line and in the document.
    pub name: &'static str,
    /// What it does, for the help.
    pub about: &'static str,
    /// Its question, for the guide.
    pub question: &'static str,
    /// What was published about it, for the guide.
    pub published: &'static str,
    /// The end of its help.
    help: &'static str,
    /// About how long it takes on two cores with --quick, without, and with --full.
    pub minutes: [f64; 3],
    /// True if it cannot run without a server.
    pub needs_server: bool,
    /// Adds its arguments.
    arguments: fn(Command) -> Command,
    run: fn(&ArgMatches, &mut Progress) -> Result<Document>,
}

impl Experiment {
    /// Its subcommand.
    pub fn command(&self) -> Command {
        (self.arguments)(Command::new(self.name)).about(self.about).after_help(self.help)
    }

    /// Runs it with the arguments of [`Experiment::command`]. The claims of the document are not
    /// judged yet.
    pub fn run(&self, matches: &ArgMatches, progress: &mut Progress) -> Result<Document> {
        (self.run)(matches, progress)
    }
}

/// The experiments in the order of `all`.
pub static EXPERIMENTS: [Experiment; 11] = [
    Experiment {
        name: "sideload",
        about: "A dump of a big table beside OLTP on a small one: does the small one stay, or become, resident",
        question: "does a dump evict the hot table from the pool?",
        published: "2011: 330 requests/s alone, 2 beside mysqldump",
        help: SIDELOAD,
        minutes: [1.0, 3.0, 300.0],
        needs_server: false,
        arguments: SideloadArgs::augment_args,
        run: |matches, progress| SideloadArgs::from_arg_matches(matches)?.run(progress),
    },
    Experiment {
        name: "scan",
        about: "A report query over a big table between queries of a small one",
        question: "does one report over a big table?",
        published: "2009: 0.02 s, after the report 0.20 s",
        help: SCAN,
        minutes: [0.5, 1.0, 30.0],
        needs_server: false,
        arguments: CommonArgs::augment_args,
        run: |matches, progress| scan::run(&CommonArgs::from_arg_matches(matches)?, progress),
    },
    Experiment {
        name: "overflow",
        about: "The active set a little larger than the pool: misses and throughput at every pool size",
        question: "what happens when the active set is a little larger than the pool?",
        published: "2016: 660 tps, after an update of the server 36",
        help: REAL,
        minutes: [2.5, 10.0, 60.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Overflow, progress),
    },
    Experiment {
        name: "purge",
        about: "Updates in place beside a long snapshot: history, free pages, versions",
        question: "do old versions fill the pool?",
        published: "2010: free pages fall continuously under updates in place",
        help: MEMORY,
        minutes: [1.0, 3.0, 10.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Purge, progress),
    },
    Experiment {
        name: "flush",
        about: "The checkpoint age under updates: is flushing even",
        question: "does flushing come in bursts?",
        published: "2010: the redo log ran full, then TPS dropped",
        help: BOTH,
        minutes: [1.5, 3.5, 30.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Flush, progress),
    },
    Experiment {
        name: "freepages",
        about: "Readers that miss while a small redo log is full: does a second pass without a transaction",
        question: "does a reader that misses get a frame while the log is full?",
        published: "2023: the page cleaner frees no page while it flushes for the checkpoint, and InnoDB stands still for seconds",
        help: REAL,
        minutes: [1.0, 2.5, 10.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Freepages, progress),
    },
    Experiment {
        name: "sessions",
        about: "1 to 256 sessions beside a control that only computes",
        question: "what do 256 sessions cost?",
        published: "2010: throughput falls from 32 sessions on",
        help: MEMORY,
        minutes: [2.0, 10.0, 90.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Sessions, progress),
    },
    Experiment {
        name: "iobound",
        about: "The same workload, ten times the pages: what a miss costs",
        question: "what does a miss cost beyond its read?",
        published: "2010: throughput falls far deeper than the disk explains, even with every byte in the system's cache",
        help: REAL,
        minutes: [2.5, 7.0, 60.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Iobound, progress),
    },
    Experiment {
        name: "querycache",
        about: "The server's query cache, on and off, with statements prepared and not, on InnoDB and Holdfast",
        question: "what does the server's query cache cost, and which engine?",
        published: "2010: MySQL 5.0 1,309 tps, 5.1 425, with the cache off 1,313",
        help: QUERYCACHE,
        minutes: [2.0, 6.0, 60.0],
        needs_server: true,
        arguments: QuerycacheArgs::augment_args,
        run: |matches, progress| QuerycacheArgs::from_arg_matches(matches)?.run(progress),
    },
    Experiment {
        name: "soak",
        about: "Everything at once for a long time: half an hour with --full",
        question: "what grows slowly: memory, files, latencies?",
        published: "-",
        help: REAL,
        minutes: [1.0, 5.5, 31.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Soak, progress),
    },
    Experiment {
        name: "growth",
        about: "Load, dump, check, index, backup, restore and recovery of a table that grows, with the same cache",
        question: "what does an operation on all of a table cost per GB as it grows?",
        published: "-",
        help: REAL,
        minutes: [0.5, 2.0, 60.0],
        needs_server: false,
        arguments: RigArgs::augment_args,
        run: |matches, progress| RigArgs::from_arg_matches(matches)?.run(RigExperiment::Growth, progress),
    },
];

const SIDELOAD: &str = "\
Examples:
  holdfast lab sideload                               the experiment at a twentieth of the published size
  holdfast lab sideload --quick --check               the same in under a minute; exit code 3 or 4 if a claim does not hold
  holdfast lab sideload --report sideload.html        with charts
  holdfast lab sideload --disk real --dir /mnt/ssd    on a real disk instead of the model of a spinning one
  holdfast lab sideload --full --json full.json       the published size; takes hours
  holdfast lab sideload --target mariadb              real sysbench and mariadb-dump, InnoDB, MyRocks and Holdfast";

const SCAN: &str = "\
Examples:
  holdfast lab scan
  holdfast lab scan --quick --check --report scan.html
  holdfast lab scan --disk real --dir /mnt/ssd
  holdfast lab scan --target mariadb                  InnoDB with its knobs, and Holdfast, on private servers
  holdfast lab scan --target mysql55                  InnoDB as it was in 2011";

const QUERYCACHE: &str = "\
The default is a private MariaDB server, which is fetched by apt.
Examples:
  holdfast lab querycache --quick --check
  holdfast lab querycache --target mysql55                   what the cache costs on a server of 2011
  holdfast lab querycache --full --report querycache.html    1,000,000 rows and turns of 60 s, as published";

const REAL: &str = "The data is on files in --dir, for the disk is a part of the question: --disk has no effect here.";
const MEMORY: &str = "The database is in memory, so that sessions never wait for a disk: --disk has no effect here.";
const BOTH: &str = "The embedded engine runs on the modelled disk and on files in --dir, one after the other, whatever\n--disk says. On private servers --disk model chooses the modelled disk.";

/// The table of the experiments in the guide.
pub fn table() -> String {
    let row = |one: &Experiment| format!("| `{}` | {} | {} |\n", one.name, one.question, one.published);
    let rows: String = EXPERIMENTS.iter().map(row).collect();
    let left_out: Vec<String> =
        EXPERIMENTS.iter().filter(|one| one.needs_server).map(|one| format!("`{}`", one.name)).collect();
    format!(
        "| experiment | question | published |\n|---|---|---|\n{rows}\
         | `all` | all of them, one report with a summary on top; {} only if a server is available | |\n",
        left_out.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_has_the_table_of_the_experiments() {
        let guide = include_str!("../../../docs/user/lab.md");
        assert!(guide.contains(&table()), "the table of the guide should be:\n{}", table());
    }

    #[test]
    fn every_experiment_has_its_sizes_on_the_command_line() {
        for one in &EXPERIMENTS {
            one.command().debug_assert();
            let words = [one.name, "--quick", "--seed", "7", "--dir", "somewhere", "--check"];
            assert!(one.command().try_get_matches_from(words).is_ok(), "{}", one.name);
            assert!(one.command().try_get_matches_from([one.name, "--quick", "--full"]).is_err(), "{}", one.name);
        }
    }
}
