//! The direction of a walk, and how far it has come.

use holdfast_base::PageNo;

/// Which way a cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// Ascending keys.
    #[default]
    Forward,
    /// Descending keys.
    Reverse,
}

/// How far a walk has come; what tells a scan from a look at a few rows.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// Leaves visited. A leaf that is entered again, because it has changed or because another
    /// cursor continues there, counts once.
    pub leaves: u64,
    /// The last of them.
    pub(super) last: PageNo,
    /// How many of the leaves that follow the pool was asked for.
    pub(super) ahead: usize,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { leaves: 0, last: PageNo::NONE, ahead: 0 }
    }
}
