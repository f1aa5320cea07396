//! The arguments of `querycache`.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use super::common::{CommonArgs, DiskArg, TargetArg};
use crate::document::Document;
use crate::experiments::querycache;
use crate::progress::Progress;
use crate::server;
use crate::server::contender::Engine;
use crate::server::turns::running;

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

impl QuerycacheArgs {
    /// Runs on the target that the arguments name. The embedded engine has no query cache, so the
    /// default is a private server.
    pub(crate) fn run(&self, progress: &mut Progress) -> Result<Document> {
        ensure!(self.common.disk != Some(DiskArg::Model), "querycache has its table in memory; leave --disk out");
        let chosen = self.engines.first().copied();
        ensure!(
            chosen.is_none() || matches!(self.common.target, TargetArg::Server(_)),
            "--engines is for a server of yours; on a private one InnoDB and Holdfast are compared"
        );
        let mut options = self.options();
        match &self.common.target {
            TargetArg::Embedded | TargetArg::MariaDb => querycache::run(&options, progress),
            TargetArg::Released(server) => server::released::in_turns(*server, &mut options, progress),
            TargetArg::Server(address) => {
                running::run(&mut options, address, chosen.unwrap_or(Engine::Innodb), progress)
            }
        }
    }

    fn options(&self) -> querycache::Options {
        let common = &self.common;
        let (rows, pairs, turn) = common.sized((60_000, 7, 1), (200_000, 9, 4), (1_000_000, 7, 60));
        let plan = common.plan(&[], pairs, Duration::from_secs(turn));
        let (threads, cache_bytes) = (usize::from(self.threads), self.query_cache_mib << 20);
        querycache::Options { plan, rows, threads, cache_bytes }
    }
}
