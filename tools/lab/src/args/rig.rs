//! The arguments of the experiments in turns, and of those on the embedded engine alone. Each has
//! its sizes beside it, and its own kind of disk.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};

use super::common::{CommonArgs, DiskArg, TargetArg, judged_with_holdfast};
use crate::document::Document;
use crate::progress::Progress;
use crate::server;
use crate::server::contender::Engine;
use crate::server::turns::running::{self, OnServer};
use crate::server::turns::workload::Workload;
use crate::server::turns::{self, Plan};
use crate::turns::Rounds;

/// The arguments of an experiment; which of them it takes, the [registry](crate::registry) says.
#[derive(Debug, Args)]
pub struct RigArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// With --target mariadb: the engines, and other servers beside them [default:
    /// innodb,holdfast]; with dsn: the first of them [default: innodb]
    #[arg(long, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
    /// With --target mariadb or dsn: the workload of the sessions
    #[arg(long, value_enum, default_value_t = WorkloadArg::Dbstress)]
    pub workload: WorkloadArg,
    /// Capacities of the redo log, in MiB (flush): several on the embedded engine and with --target
    /// mariadb [default: 32,256; with --full also 2048; with --quick on servers 32]; the capacity
    /// (freepages) [default: 16; with --full 256]
    #[arg(long, value_delimiter = ',', value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..=65_536))]
    pub log_mib: Vec<u64>,
    /// Sizes of the table, in MiB, ascending; the cache is half of the smallest, at most 256 MiB
    /// [default: 256,1024; with --quick 32,128; with --full 1024,10240,40960]
    #[arg(long, overrides_with = "mib", value_delimiter = ',', value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(16..=1_048_576))]
    pub mib: Vec<u64>,
    /// OLTP sessions
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: u16,
    /// Size of the query cache, in MiB; with --target dsn the server's own size counts
    #[arg(long, default_value_t = 16, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub query_cache_mib: u64,
}

/// The workload of the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    /// READs of two SELECTs, WRITEs of one UPDATE in place
    Dbstress,
    /// Nine tables, five transactions in the standard mix
    Dbt2,
}

/// The bytes of a MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// A figure of each size of a run: with --tiny, with --quick, of neither, with --full.
pub(crate) type Sizes<T> = [T; 4];

impl RigArgs {
    /// Those of a command line.
    pub(crate) fn of(matches: &ArgMatches) -> Result<RigArgs> {
        let args = RigArgs::from_arg_matches(matches)?;
        ensure!(
            !args.embedded() || args.workload == WorkloadArg::Dbstress,
            "--workload is for flush and sessions on servers: --target mariadb or dsn:"
        );
        ensure!(
            args.log_mib.is_empty() || !matches!(args.common.target, TargetArg::Server(_)),
            "the redo log of that server is what it is; leave --log-mib out"
        );
        Ok(args)
    }

    /// True on the engine in this process.
    pub(crate) fn embedded(&self) -> bool {
        self.common.target == TargetArg::Embedded
    }

    /// The figure of the size of this run.
    pub(crate) fn sized<T: Copy>(&self, [tiny, quick, usual, full]: Sizes<T>) -> T {
        if self.common.tiny { tiny } else { self.common.sized(quick, usual, full) }
    }

    /// So many turns, of so many seconds each; up to twice as many if the claims are not decided.
    pub(crate) fn plan(&self, turns: Sizes<usize>, seconds: Sizes<f64>) -> Plan {
        let (least, common) = (self.sized(turns), &self.common);
        Plan {
            contenders: turns::contenders(&self.engines),
            rounds: if common.tiny { Rounds { least, most: least } } else { Rounds::up_to_twice(least) },
            turn: Duration::from_secs_f64(self.sized(seconds)),
            cores: common.cores(),
            seed: common.seed,
            dir: common.dir.clone(),
            any_size: common.full,
        }
    }

    /// The workload that was asked for, dbSTRESS with so many objects.
    pub(crate) fn workload(&self, objects: Sizes<u32>) -> Workload {
        match self.workload {
            WorkloadArg::Dbstress => Workload::DbStress { objects: self.sized(objects) },
            WorkloadArg::Dbt2 => Workload::Dbt2 {
                warehouses: self.sized([1, 2, 8, 100]),
                items: self.sized([300, 5_000, 20_000, 100_000]),
                customers: self.sized([30, 150, 600, 3_000]),
            },
        }
    }

    /// Runs an experiment that every target has: on the embedded engine, on private servers, on
    /// another server.
    pub(crate) fn anywhere<O: OnServer>(
        &self,
        mut what: O,
        embedded: fn(&O, &mut Progress) -> Result<Document>,
        private: fn(&O, &mut Progress) -> Result<Document>,
        progress: &mut Progress,
    ) -> Result<Document> {
        self.common.ensure_has_choice(&self.engines)?;
        match &self.common.target {
            TargetArg::Embedded => embedded(&what, progress),
            TargetArg::MariaDb => self.judged(private(&what, progress)),
            TargetArg::Server(address) => {
                self.ensure_real_disk()?;
                let engine = self.engines.first().copied().unwrap_or(Engine::Innodb);
                running::run(&mut what, address, engine, progress)
            }
            TargetArg::Released(server) => {
                self.ensure_real_disk()?;
                server::released::in_turns(*server, &mut what, progress)
            }
        }
    }

    /// The result on private servers with the engines that were asked for.
    pub(crate) fn judged(&self, result: Result<Document>) -> Result<Document> {
        result.map(|document| judged_with_holdfast(&self.engines, document))
    }

    /// Refuses the modelled disk, which only private servers have.
    pub(crate) fn ensure_real_disk(&self) -> Result<()> {
        ensure!(self.common.disk != Some(DiskArg::Model), "the disk of that server is what it is");
        Ok(())
    }
}
