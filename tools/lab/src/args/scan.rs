//! The arguments of `scan`.

use anyhow::{Result, ensure};
use clap::Args;
use holdfast_testkit::DiskModel;

use super::common::{CommonArgs, DiskArg, TargetArg};
use crate::document::Document;
use crate::experiments::scan;
use crate::progress::Progress;

/// `holdfast lab scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The arguments of all experiments.
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ScanArgs {
    /// Runs on the target that the arguments name.
    pub(crate) fn run(&self, progress: &mut Progress) -> Result<Document> {
        let common = &self.common;
        match &common.target {
            TargetArg::Embedded => scan::run(&self.options(), progress),
            TargetArg::MariaDb => {
                let model = (common.disk == Some(DiskArg::Model)).then(DiskModel::spinning);
                scan::servers::run(&self.server_options(), model, progress)
            }
            TargetArg::Released(server) => {
                ensure!(common.disk != Some(DiskArg::Model), "that server runs on the real disk");
                scan::servers::run_released(*server, &self.server_options(), progress)
            }
            TargetArg::Server(_) => {
                anyhow::bail!(
                    "scan sets the server's cache; --target mariadb, mysql55, mariadb118 and the like start one for it"
                )
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
            cores: common.cores(),
            seed: common.seed,
        }
    }
}
