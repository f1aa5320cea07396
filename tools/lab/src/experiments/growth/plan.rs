//! What is measured, and at which sizes.

use holdfast::limits::CACHE_SIZE_MIN;

use crate::args::rig::{MIB, RigArgs, Sizes};
use crate::server::turns::Plan;

/// The name of the engine in this process.
pub(super) const EMBEDDED: &str = "holdfast";
pub(super) const GB: f64 = 1e9;
/// Updates of a transaction before the kill, and of the one that has not ended when it comes.
pub(super) const UPDATES: u32 = 100;
pub(super) const UNFINISHED: u32 = 1_000;
/// The age of the log that flushing keeps to, as a share of its capacity.
pub(super) const USUAL_AGE: f64 = 0.6;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Seed; on servers the engines, of which the first is judged, and the cores.
    pub plan: Plan,
    /// Sizes of the table, in MiB, ascending.
    pub mib: Vec<u64>,
    /// The cache, the same at every size.
    pub pool_bytes: u64,
    /// The log between checkpoints.
    pub log_bytes: u64,
}

impl Options {
    /// Those that the arguments ask for.
    pub fn of(args: &RigArgs) -> Options {
        let sizes: Sizes<&[u64]> = [&[4, 8], &[32, 128], &[256, 1024], &[1024, 10_240, 40_960]];
        let mib = if args.mib.is_empty() { args.sized(sizes).to_vec() } else { args.mib.clone() };
        let smallest = mib.iter().min().copied().unwrap_or_default() * MIB;
        let half = (smallest / 2).clamp(CACHE_SIZE_MIN, 256 * MIB);
        Options {
            plan: args.plan([1; 4], [0.0; 4]),
            mib,
            pool_bytes: args.sized([8 * MIB, half, half, half]),
            log_bytes: args.sized([8, 8, 96, 96]) * MIB,
        }
    }
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Load,
    Dump,
    Check,
    Index,
    Backup,
    Restore,
    Recovery,
}

impl Step {
    pub(super) fn name(self) -> &'static str {
        match self {
            Step::Load => "load",
            Step::Dump => "dump",
            Step::Check => "check",
            Step::Index => "index",
            Step::Backup => "backup",
            Step::Restore => "restore",
            Step::Recovery => "recovery",
        }
    }

    /// True if its time is judged by the size.
    pub(super) fn is_per_gb(self) -> bool {
        self != Step::Recovery
    }

    /// The unit of its cost.
    pub(super) fn unit(self) -> &'static str {
        if self.is_per_gb() { "s/GB" } else { "s" }
    }
}
