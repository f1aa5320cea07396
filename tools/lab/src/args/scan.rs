//! `scan` on the target that the arguments name.

use anyhow::{Result, ensure};
use holdfast_testkit::DiskModel;

use super::common::{CommonArgs, DiskArg, TargetArg};
use crate::document::Document;
use crate::experiments::scan;
use crate::progress::Progress;

/// Runs on the target that the arguments name.
pub(crate) fn run(common: &CommonArgs, progress: &mut Progress) -> Result<Document> {
    match &common.target {
        // The registry refuses a server that runs already.
        TargetArg::Embedded | TargetArg::Server(_) => scan::run(&options(common), progress),
        TargetArg::MariaDb => {
            let model = (common.disk == Some(DiskArg::Model)).then(DiskModel::spinning);
            scan::servers::run(&server_options(common), model, progress)
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
