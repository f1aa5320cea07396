//! The common parameters of the experiments in turns.

use std::time::Duration;

use crate::pin::Cores;
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
}
