//! The arguments of the experiments on the embedded engine: `--quick`, `--full`, the seed and a
//! directory. Each experiment has its own kind of disk.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use holdfast_testkit::DiskModel;

use super::common::{CommonArgs, DiskArg, TargetArg, judged_with_holdfast};
use crate::document::Document;
use crate::experiments::{flush, freepages, growth, iobound, overflow, purge, sessions, soak};
use crate::progress::Progress;
use crate::rig::fio::Fio;
use crate::server;
use crate::server::contender::Engine;
use crate::server::turns::Plan;
use crate::server::turns::running::{self, OnServer};
use crate::server::turns::workload::Workload;

/// The arguments of an experiment.
#[derive(Debug, Args)]
pub struct RigArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// With --target mariadb (overflow, purge, flush, freepages, sessions, iobound, growth): the
    /// engines [default: innodb,holdfast]; with dsn: the first of them [default: innodb]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
    /// With --target mariadb or dsn (flush, sessions): the workload of the sessions
    #[arg(long, value_enum, default_value_t = WorkloadArg::Dbstress)]
    pub workload: WorkloadArg,
    /// Capacities of the redo log, in MiB (flush): several on the embedded engine and with --target
    /// mariadb [default: 32,256; with --full also 2048; with --quick on servers 32]; the capacity
    /// (freepages) [default: 16; with --full 256]
    #[arg(long, value_delimiter = ',', value_name = "MIB", value_parser = clap::value_parser!(u64).range(8..=65_536))]
    pub log_mib: Vec<u64>,
    /// Sizes of the table, in MiB, ascending (growth); the cache is half of the smallest, at most
    /// 256 MiB [default: 256,1024; with --quick 32,128; with --full 1024,10240,40960]
    #[arg(long, overrides_with = "mib", value_delimiter = ',', value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u64).range(16..=1_048_576))]
    pub mib: Vec<u64>,
}

/// The workload of the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadArg {
    /// READs of two SELECTs, WRITEs of one UPDATE in place
    Dbstress,
    /// Nine tables, five transactions in the standard mix
    Dbt2,
}

/// The experiments that have these arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RigExperiment {
    Overflow,
    Purge,
    Flush,
    Freepages,
    Sessions,
    Iobound,
    Soak,
    Growth,
}

impl RigArgs {
    /// Runs the experiment on the target that the arguments name.
    pub(crate) fn run(&self, what: RigExperiment, progress: &mut Progress) -> Result<Document> {
        use RigExperiment::{Flush, Freepages, Growth, Iobound, Overflow, Purge, Sessions, Soak};
        let embedded = self.common.target == TargetArg::Embedded;
        ensure!(
            (matches!(what, Flush | Sessions) && !embedded) || self.workload == WorkloadArg::Dbstress,
            "--workload is for flush and sessions on servers: --target mariadb or dsn:"
        );
        ensure!(
            self.log_mib.is_empty() || matches!(what, Flush | Freepages),
            "--log-mib is for flush and freepages: they are about the redo log"
        );
        ensure!(self.log_mib.len() < 2 || what != Freepages, "freepages takes one capacity: --log-mib MIB");
        ensure!(
            self.log_mib.is_empty() || !matches!(self.common.target, TargetArg::Server(_)),
            "the redo log of that server is what it is; leave --log-mib out"
        );
        self.common.ensure_has_choice(&self.engines)?;
        ensure!(self.mib.is_empty() || what == Growth, "--mib is for growth: it is about sizes");
        ensure!(what != Soak || embedded, "soak runs on the embedded engine only; leave --target out");
        match what {
            Overflow => self.anywhere(self.overflow(), overflow::run, overflow::servers::run, progress),
            Purge => self.anywhere(self.purge(), purge::run, purge::on_servers, progress),
            Flush => self.anywhere(self.flush(), flush::run, flush::on_servers, progress),
            Freepages => self.anywhere(self.freepages(), freepages::run, freepages::on_servers, progress),
            Sessions => self.anywhere(self.sessions(), sessions::run, sessions::on_servers, progress),
            Iobound => self.run_iobound(progress),
            Soak => soak::run(&self.soak(), progress),
            Growth => self.run_growth(progress),
        }
    }

    /// Runs an experiment that every target has: on the embedded engine, on private servers, on
    /// another server.
    fn anywhere<O: OnServer>(
        &self,
        mut options: O,
        embedded: fn(&O, &mut Progress) -> Result<Document>,
        private: fn(&O, &mut Progress) -> Result<Document>,
        progress: &mut Progress,
    ) -> Result<Document> {
        match &self.common.target {
            TargetArg::Embedded => embedded(&options, progress),
            TargetArg::MariaDb => Ok(judged_with_holdfast(&self.engines, private(&options, progress)?)),
            TargetArg::Server(address) => {
                self.ensure_real_disk()?;
                let engine = self.engines.first().copied().unwrap_or(Engine::Innodb);
                running::run(&mut options, address, engine, progress)
            }
            TargetArg::Released(server) => {
                self.ensure_real_disk()?;
                server::released::in_turns(*server, &mut options, progress)
            }
        }
    }

    fn run_iobound(&self, progress: &mut Progress) -> Result<Document> {
        match &self.common.target {
            TargetArg::Embedded => {
                progress.step("looking for fio");
                iobound::run(&self.iobound(), progress)
            }
            TargetArg::MariaDb => {
                Ok(judged_with_holdfast(&self.engines, iobound::servers::run(&self.iobound(), progress)?))
            }
            TargetArg::Released(server) => {
                self.ensure_real_disk()?;
                iobound::servers::run_released(*server, &self.iobound(), progress)
            }
            TargetArg::Server(_) => bail!(
                "iobound sets the server's cache; --target mariadb starts servers for it, mariadb118 a released one"
            ),
        }
    }

    fn run_growth(&self, progress: &mut Progress) -> Result<Document> {
        match &self.common.target {
            TargetArg::Embedded => growth::run(&self.growth(), progress),
            TargetArg::MariaDb => {
                Ok(judged_with_holdfast(&self.engines, growth::on_servers(&self.growth(), progress)?))
            }
            TargetArg::Released(_) | TargetArg::Server(_) => {
                bail!("growth kills its server; leave --target out, or give mariadb for a private one")
            }
        }
    }

    fn ensure_real_disk(&self) -> Result<()> {
        ensure!(self.common.disk != Some(DiskArg::Model), "the disk of that server is what it is");
        Ok(())
    }
}

const MIB: u64 = 1 << 20;

impl RigArgs {
    fn sized<T>(&self, quick: T, default: T, full: T) -> T {
        self.common.sized(quick, default, full)
    }

    fn seconds(&self, quick: f64, default: f64, full: f64) -> Duration {
        Duration::from_secs_f64(self.sized(quick, default, full))
    }

    /// Capacities of the log, in bytes: those of the arguments, or those of the size, given in MiB.
    fn capacities(&self, quick: &[u64], default: &[u64], full: &[u64]) -> Vec<u64> {
        let asked = if self.log_mib.is_empty() { self.sized(quick, default, full) } else { &self.log_mib };
        asked.iter().map(|mib| mib * MIB).collect()
    }

    fn overflow(&self) -> overflow::Options {
        let embedded = self.common.target == TargetArg::Embedded;
        let (turns, turn, quick, all): (_, _, &[f64], &[f64]) = match embedded {
            true => {
                (3, self.seconds(1.0, 2.0, 10.0), &[0.25, 0.5, 0.9, 2.0], &[0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 2.0])
            }
            false => (
                self.sized(3, 5, 5),
                self.seconds(1.5, 4.0, 20.0),
                &[0.5, 0.9, 2.0],
                &[0.25, 0.5, 0.75, 0.9, 1.25, 2.0],
            ),
        };
        overflow::Options {
            plan: self.plan(turns, turn),
            rows: self.sized(150_000, 300_000, 1_000_000),
            shares: self.sized(quick, all, all).to_vec(),
            threads: vec![1, 8, 40],
        }
    }

    fn purge(&self) -> purge::Options {
        let embedded = self.common.target == TargetArg::Embedded;
        let (turns, pools) = if embedded { (7, [192, 384]) } else { (6, [128, 256]) };
        purge::Options {
            plan: self.plan(self.sized(turns, 10, 12), self.seconds(3.0, 6.0, 10.0)),
            objects: self.sized(10_000, 20_000, 1_000_000),
            sessions: 32,
            pool_bytes: self.sized(pools[0], pools[1], 16_384) * MIB,
        }
    }

    fn flush(&self) -> flush::Options {
        let embedded = self.common.target == TargetArg::Embedded;
        let (turns, turn) = match embedded {
            true => (1, self.seconds(10.0, 30.0, 300.0)),
            false => (self.sized(3, 4, 6), self.seconds(8.0, 15.0, 60.0)),
        };
        // Made faster than the published disk: on servers by five, as in other experiments there.
        let faster = if embedded { self.sized(20.0, 20.0, 1.0) } else { 5.0 };
        let model = DiskModel::spinning().times_as_fast(faster);
        flush::Options {
            plan: self.plan(turns, turn),
            workload: self.server_workload(self.sized(10_000, 20_000, 1_000_000)),
            sessions: 32,
            capacities: self.capacities(if embedded { &[32, 256] } else { &[32] }, &[32, 256], &[32, 256, 2048]),
            settle: if embedded { self.seconds(3.0, 10.0, 120.0) } else { turn },
            modelled: (embedded || self.common.disk == Some(DiskArg::Model)).then_some(model),
        }
    }

    fn sessions(&self) -> sessions::Options {
        let embedded = self.common.target == TargetArg::Embedded;
        let (turns, turn, objects) = match embedded {
            true => (self.sized(3, 6, 6), self.seconds(0.7, 2.0, 20.0), 10_000),
            false => (self.sized(3, 5, 5), self.seconds(1.5, 4.0, 20.0), 5_000),
        };
        let all = || vec![1, 2, 4, 8, 16, 32, 64, 128, 256, 1024];
        sessions::Options {
            plan: self.plan(turns, turn),
            workload: self.server_workload(self.sized(objects, 20_000, 1_000_000)),
            counts: self.sized(vec![1, 2, 8, 32, 128, 256], all(), all()),
            short_turns: embedded.then_some(12),
        }
    }

    /// The plan of turns on private servers.
    fn plan(&self, pairs: usize, turn: Duration) -> Plan {
        self.common.plan(&self.engines, pairs, turn)
    }

    fn server_workload(&self, objects: u32) -> Workload {
        match self.workload {
            WorkloadArg::Dbstress => Workload::DbStress { objects },
            WorkloadArg::Dbt2 => Workload::Dbt2 {
                warehouses: self.sized(2, 8, 100),
                items: self.sized(5_000, 20_000, 100_000),
                customers: self.sized(150, 600, 3_000),
            },
        }
    }

    fn freepages(&self) -> freepages::Options {
        let mib = self.log_mib.first().copied().unwrap_or(self.sized(16, 16, 256));
        freepages::Options {
            plan: self.plan(self.sized(2, 4, 6), self.seconds(10.0, 20.0, 60.0)),
            objects: self.sized(20_000, 50_000, 1_000_000),
            sessions: 32,
            log_bytes: mib * MIB,
        }
    }

    fn soak(&self) -> soak::Options {
        soak::Options {
            plan: self.plan(1, self.seconds(40.0, 300.0, 1800.0)),
            objects: self.sized(10_000, 20_000, 20_000),
            sessions: 16,
            pool_bytes: self.sized(16 * MIB, 32 * MIB, 32 * MIB),
        }
    }

    fn growth(&self) -> growth::Options {
        let sizes = self.sized(vec![32, 128], vec![256, 1024], vec![1024, 10_240, 40_960]);
        let mib = if self.mib.is_empty() { sizes } else { self.mib.clone() };
        let smallest = mib.iter().min().copied().unwrap_or_default() * MIB;
        growth::Options {
            plan: self.plan(1, Duration::ZERO),
            mib,
            pool_bytes: (smallest / 2).clamp(growth::LEAST_POOL, 256 * MIB),
            log_bytes: self.sized(8, 96, 96) * MIB,
        }
    }

    fn iobound(&self) -> iobound::Options {
        let embedded = self.common.target == TargetArg::Embedded;
        let turn = if embedded { self.seconds(1.0, 3.0, 20.0) } else { self.seconds(1.5, 4.0, 20.0) };
        let fio = if embedded { Fio::fetched().map_err(|error| format!("{error:#}")) } else { Err(String::new()) };
        iobound::Options {
            plan: self.plan(self.sized(3, 5, 5), turn),
            objects: self.sized(50_000, 100_000, 10_000_000),
            sessions: 32,
            fio,
        }
    }
}
