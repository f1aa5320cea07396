//! The common parameters of the experiments in turns.

use std::path::PathBuf;
use std::time::Duration;

use crate::pin::Cores;
use crate::rig::site::DiskKind;
use crate::server::contender::Contender;
use crate::turns::Rounds;

/// The common parameters of the experiments in turns.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The engines; the first is compared with the others.
    pub contenders: Vec<Contender>,
    /// Turns of each side in a cell.
    pub rounds: Rounds,
    /// Length of a turn.
    pub turn: Duration,
    /// Cores.
    pub cores: Cores,
    /// Seed of data and load.
    pub seed: u64,
    /// Directory of the data of the embedded engine, where it is on files.
    pub dir: PathBuf,
    /// True if tables that are sized for the cache of a server that the user names may have any
    /// size.
    pub any_size: bool,
}

impl Plan {
    /// The longest time of a cell with so many sides.
    pub(crate) fn cell(&self, sides: usize) -> Duration {
        self.turn * (self.rounds.most.max(1) * sides) as u32
    }

    /// Files past the system's cache in that directory.
    pub(crate) fn files(&self) -> DiskKind {
        DiskKind::files(&self.dir)
    }
}
