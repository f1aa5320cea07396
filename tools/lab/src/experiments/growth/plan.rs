//! What is measured, and at which sizes.

use std::path::PathBuf;

pub(super) const GB: f64 = 1e9;

/// The options of the experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes of the table, in MiB, ascending.
    pub mib: Vec<u64>,
    /// The cache, the same at every size.
    pub pool_bytes: u64,
    /// The log between checkpoints.
    pub log_bytes: u64,
    /// Directory of the disk.
    pub dir: PathBuf,
    /// Seed of data and updates.
    pub seed: u64,
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
    pub(super) const ALL: [Step; 7] =
        [Step::Load, Step::Dump, Step::Check, Step::Index, Step::Backup, Step::Restore, Step::Recovery];

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
