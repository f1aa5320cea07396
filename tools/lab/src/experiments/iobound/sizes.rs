//! The sizes of the experiment, and the target that the arguments name.

use anyhow::Result;

use super::{Options, servers};
use crate::args::common::TargetArg;
use crate::args::rig::RigArgs;
use crate::document::Document;
use crate::progress::Progress;
use crate::rig::fio::Fio;

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    args.common.ensure_has_choice(&args.engines)?;
    let (turns, objects) = ([2, 3, 5, 5], args.sized([2_500, 50_000, 100_000, 10_000_000]));
    let options = |seconds, fio| {
        let sessions = args.sized([3, 32, 32, 32]);
        Options { plan: args.plan(turns, seconds), objects, sessions, fio }
    };
    let on_servers = || options([1.1, 1.5, 4.0, 20.0], Err(String::new()));
    match &args.common.target {
        TargetArg::MariaDb => args.judged(servers::run(&on_servers(), progress)),
        TargetArg::Released(server) => {
            args.ensure_real_disk()?;
            servers::run_released(*server, &on_servers(), progress)
        }
        // The registry refuses a server that runs already.
        TargetArg::Embedded | TargetArg::Server(_) => {
            progress.step("looking for fio");
            // Tests fetch nothing: a machine without fio uses the loop.
            let fio = if args.common.tiny { Fio::installed() } else { Fio::fetched() };
            let fio = fio.map_err(|error| format!("{error:#}"));
            super::run(&options([0.15, 1.0, 3.0, 20.0], fio), progress)
        }
    }
}
