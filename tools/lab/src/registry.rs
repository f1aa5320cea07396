//! The experiments: the one list from which the command line, its help, `all` and the table of the
//! guide come.

use anyhow::{Result, bail, ensure};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::args::common::{CommonArgs, TargetArg};
use crate::args::rig::RigArgs;
use crate::args::scan::{self, ScanArgs};
use crate::args::sideload::SideloadArgs;
use crate::document::Document;
use crate::experiments::{flush, freepages, growth, iobound, overflow, purge, querycache, sessions, soak};
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
    /// Those of [`OPTIONS`] that it takes.
    options: &'static [&'static str],
    /// True if it cannot run without a server.
    pub needs_server: bool,
    /// Why it does not run on a target; `None` if it does.
    pub(crate) refuses: fn(&TargetArg) -> Option<&'static str>,
    /// Adds its arguments.
    arguments: fn(Command) -> Command,
    run: fn(&ArgMatches, &mut Progress) -> Result<Document>,
}

/// The options that not all experiments take.
const OPTIONS: [&str; 6] = ["engines", "workload", "log_mib", "mib", "threads", "query_cache_mib"];

/// What most of the experiments have in common.
const IN_TURNS: Experiment = Experiment {
    name: "",
    about: "",
    question: "",
    published: "-",
    help: REAL,
    minutes: [0.0; 3],
    options: &["engines"],
    needs_server: false,
    refuses: |_| None,
    arguments: RigArgs::augment_args,
    run: |_, _| bail!("an experiment without a run"),
};

/// That of an experiment which starts its server several times.
fn of_released_servers(target: &TargetArg) -> Option<&'static str> {
    let why = "sets the server's cache; --target mariadb starts servers for it, mariadb118 and the like a released one";
    matches!(target, TargetArg::Server(_)).then_some(why)
}

impl Experiment {
    /// Its subcommand, which shows the options that it takes.
    pub fn command(&self) -> Command {
        let command = (self.arguments)(Command::new(self.name)).about(self.about).after_help(self.help);
        command.mut_args(|arg| {
            let hidden = arg.is_hide_set() || (OPTIONS.contains(&arg.get_id().as_str()) && !self.takes(arg.get_id()));
            arg.hide(hidden)
        })
    }

    fn takes(&self, option: &clap::Id) -> bool {
        self.options.iter().any(|own| option == own)
    }

    /// Why it does not run on the target that the arguments of [`Experiment::command`] name; `None`
    /// if it does.
    ///
    /// # Errors
    /// If they are those of another command.
    pub fn refusal(&self, matches: &ArgMatches) -> Result<Option<&'static str>> {
        Ok((self.refuses)(&CommonArgs::from_arg_matches(matches)?.target))
    }

    /// Runs it with the arguments of [`Experiment::command`]. The claims of the document are not
    /// judged yet.
    ///
    /// # Errors
    /// If it does not take one of them, or cannot be run to its end.
    pub fn run(&self, matches: &ArgMatches, progress: &mut Progress) -> Result<Document> {
        let given = |id: &clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        for other in matches.ids().filter(|id| OPTIONS.contains(&id.as_str()) && given(id)) {
            let those: Vec<&str> = EXPERIMENTS.iter().filter(|one| one.takes(other)).map(|one| one.name).collect();
            let name = other.as_str().replace('_', "-");
            ensure!(self.takes(other), "--{name} is for {}", those.join(" and "));
        }
        if let Some(why) = self.refusal(matches)? {
            bail!("{} {why}", self.name);
        }
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
        options: &["engines", "threads"],
        arguments: SideloadArgs::augment_args,
        run: |matches, progress| SideloadArgs::from_arg_matches(matches)?.run(progress),
        ..IN_TURNS
    },
    Experiment {
        name: "scan",
        about: "A report query over a big table between queries of a small one",
        question: "does one report over a big table?",
        published: "2009: 0.02 s, after the report 0.20 s",
        help: SCAN,
        minutes: [0.5, 1.0, 30.0],
        refuses: of_released_servers,
        arguments: ScanArgs::augment_args,
        run: |matches, progress| scan::run(&ScanArgs::from_arg_matches(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "overflow",
        about: "The active set a little larger than the pool: misses and throughput at every pool size",
        question: "what happens when the active set is a little larger than the pool?",
        published: "2016: 660 tps, after an update of the server 36",
        minutes: [2.5, 10.0, 60.0],
        run: |matches, progress| overflow::sizes::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "purge",
        about: "Updates in place beside a long snapshot: history, free pages, versions",
        question: "do old versions fill the pool?",
        published: "2010: free pages fall continuously under updates in place",
        help: MEMORY,
        minutes: [1.0, 3.0, 10.0],
        run: |matches, progress| purge::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "flush",
        about: "The checkpoint age under updates: is flushing even",
        question: "does flushing come in bursts?",
        published: "2010: the redo log ran full, then TPS dropped",
        help: BOTH,
        minutes: [1.5, 3.5, 30.0],
        options: &["engines", "workload", "log_mib"],
        run: |matches, progress| flush::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "freepages",
        about: "Readers that miss while a small redo log is full: does a second pass without a transaction",
        question: "does a reader that misses get a frame while the log is full?",
        published: "2023: the page cleaner frees no page while it flushes for the checkpoint, and InnoDB stands still for seconds",
        minutes: [1.0, 2.5, 10.0],
        options: &["engines", "log_mib"],
        run: |matches, progress| freepages::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "sessions",
        about: "1 to 256 sessions beside a control that only computes",
        question: "what do 256 sessions cost?",
        published: "2010: throughput falls from 32 sessions on",
        help: MEMORY,
        minutes: [2.0, 10.0, 90.0],
        options: &["engines", "workload"],
        run: |matches, progress| sessions::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "iobound",
        about: "The same workload, ten times the pages: what a miss costs",
        question: "what does a miss cost beyond its read?",
        published: "2010: throughput falls far deeper than the disk explains, even with every byte in the system's cache",
        minutes: [2.5, 7.0, 60.0],
        refuses: of_released_servers,
        run: |matches, progress| iobound::sizes::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "querycache",
        about: "The server's query cache, on and off, with statements prepared and not, on InnoDB and Holdfast",
        question: "what does the server's query cache cost, and which engine?",
        published: "2010: MySQL 5.0 1,309 tps, 5.1 425, with the cache off 1,313",
        help: QUERYCACHE,
        minutes: [2.0, 6.0, 60.0],
        options: &["engines", "threads", "query_cache_mib"],
        needs_server: true,
        refuses: |target| {
            let why = "needs a query cache, and MySQL has none since 8.0";
            matches!(target, TargetArg::Released(server) if !server.has_query_cache()).then_some(why)
        },
        run: |matches, progress| querycache::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "soak",
        about: "Everything at once for a long time: half an hour with --full",
        question: "what grows slowly: memory, files, latencies?",
        minutes: [1.0, 5.5, 31.0],
        options: &[],
        refuses: |target| {
            (*target != TargetArg::Embedded).then_some("runs on the embedded engine only; leave --target out")
        },
        run: |matches, progress| soak::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
    Experiment {
        name: "growth",
        about: "Load, dump, check, index, backup, restore and recovery of a table that grows, with the same cache",
        question: "what does an operation on all of a table cost per GB as it grows?",
        minutes: [0.5, 2.0, 60.0],
        options: &["engines", "mib"],
        refuses: |target| {
            let why = "kills its server; leave --target out, or give mariadb for a private one";
            matches!(target, TargetArg::Released(_) | TargetArg::Server(_)).then_some(why)
        },
        run: |matches, progress| growth::run(&RigArgs::of(matches)?, progress),
        ..IN_TURNS
    },
];

const SIDELOAD: &str = "\
Examples:
  holdfast lab sideload                               the experiment at a twentieth of the published size
  holdfast lab sideload --quick --check               the same in under a minute; exit code 3 or 4 if a claim does not hold
  holdfast lab sideload --report sideload.html        with charts
  holdfast lab sideload --disk real --dir /mnt/ssd    on a real disk instead of the model of a spinning one
  holdfast lab sideload --full --json full.json       the published size; takes hours
  holdfast lab sideload --target mariadb              real sysbench and mariadb-dump, InnoDB, MyRocks and Holdfast
  holdfast lab sideload --target mariadb --engines holdfast,innodb,mariadb118,mysql97
                                                      other servers as they were released beside them";

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
    fn an_option_of_other_experiments_is_hidden_and_refused() {
        let one = |name: &str| EXPERIMENTS.iter().find(|one| one.name == name).unwrap();
        let run = |words: &[&str]| {
            let matches = one(words[0]).command().try_get_matches_from(words).unwrap();
            one(words[0]).run(&matches, &mut Progress::hidden()).unwrap_err().to_string()
        };
        assert_eq!(run(&["purge", "--log-mib", "32"]), "--log-mib is for flush and freepages");
        assert_eq!(run(&["soak", "--target", "mariadb"]), "soak runs on the embedded engine only; leave --target out");
        let shows = |name: &str, option: &str| one(name).command().render_help().to_string().contains(option);
        assert!(shows("flush", "--log-mib") && !shows("purge", "--log-mib"));
        assert!(shows("purge", "--engines") && !shows("purge", "--tiny"));
        assert!(shows("sideload", "--threads") && !shows("sessions", "--threads"));
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
