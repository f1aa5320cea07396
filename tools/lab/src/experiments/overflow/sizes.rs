//! The sizes of the experiment, and the target that the arguments name.

use anyhow::Result;

use super::{Options, servers};
use crate::args::rig::{RigArgs, Sizes};
use crate::document::Document;
use crate::progress::Progress;

/// Runs the experiment.
pub(crate) fn run(args: &RigArgs, progress: &mut Progress) -> Result<Document> {
    let all = &[0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.25, 2.0];
    let on_servers = &[0.25, 0.5, 0.75, 0.9, 1.25, 2.0];
    let (plan, shares): (_, Sizes<&[f64]>) = match args.embedded() {
        true => (args.plan([3; 4], [0.6, 1.0, 2.0, 10.0]), [&[2.0], &[0.25, 0.5, 0.9, 2.0], all, all]),
        false => {
            (args.plan([2, 3, 5, 5], [0.55, 1.5, 4.0, 20.0]), [&[0.5, 2.0], &[0.5, 0.9, 2.0], on_servers, on_servers])
        }
    };
    let options = Options {
        plan,
        rows: args.sized([40_000, 150_000, 300_000, 1_000_000]),
        shares: args.sized(shares).to_vec(),
        threads: args.sized::<&[usize]>([&[1, 8], &[1, 8, 40], &[1, 8, 40], &[1, 8, 40]]).to_vec(),
    };
    args.anywhere(options, super::run, servers::run, progress)
}
