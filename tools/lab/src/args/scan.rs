//! `scan` on the target that the arguments name.

use anyhow::{Result, ensure};
use clap::Args;
use holdfast_testkit::DiskModel;

use super::common::{CommonArgs, DiskArg, TargetArg, judged_with_holdfast};
use crate::document::Document;
use crate::experiments::scan;
use crate::progress::Progress;
use crate::server::contender::Engine;
use crate::server::turns;

/// `holdfast lab scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
    /// With --target mariadb: the engines, and other servers beside them [default:
    /// innodb,holdfast]
    #[arg(long, value_delimiter = ',', value_name = "ENGINES")]
    pub engines: Vec<Engine>,
}

/// Runs on the target that the arguments name.
pub(crate) fn run(ScanArgs { common, engines }: &ScanArgs, progress: &mut Progress) -> Result<Document> {
    common.ensure_has_choice(engines)?;
    ensure!(!engines.contains(&Engine::Myrocks), "scan asks a buffer pool for its pages, and MyRocks has none");
    match &common.target {
        // The registry refuses a server that runs already.
        TargetArg::Embedded | TargetArg::Server(_) => scan::run(&options(common), progress),
        TargetArg::MariaDb => {
            let model = (common.disk == Some(DiskArg::Model)).then(DiskModel::spinning);
            let result = scan::servers::run(&server_options(common), &turns::contenders(engines), model, progress);
            result.map(|document| judged_with_holdfast(engines, document))
        }
        TargetArg::Released(server) => {
            ensure!(common.disk != Some(DiskArg::Model), "that server runs on the real disk");
            scan::servers::run_released(*server, &server_options(common), progress)
        }
    }
}

/// The published pool is not scaled down on servers: InnoDB does not divide smaller pools into
/// young and old, and a row is larger in the servers' formats than in the engine's own.
fn server_options(common: &CommonArgs) -> scan::Options {
    scan::Options { factor: 1.0, new_order_warehouses: 18.0, ..options(common) }
}

fn options(common: &CommonArgs) -> scan::Options {
    scan::Options {
        factor: if common.quick { 2.0 } else { 1.0 },
        new_order_warehouses: 24.0,
        repetitions: if common.quick { 2 } else { 3 },
        real_disk: common.real_disk(),
        cores: common.cores(),
        seed: common.seed,
    }
}
