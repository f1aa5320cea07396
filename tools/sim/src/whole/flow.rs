//! How a statement ends, and how its transaction goes on.

use holdfast::Error;

/// Fails with `what` unless it `holds`.
pub(super) fn demand(holds: bool, what: impl FnOnce() -> String) -> anyhow::Result<()> {
    if holds { Ok(()) } else { Err(anyhow::Error::msg(what())) }
}

/// How a transaction goes on after a statement.
pub(super) enum Flow {
    On,
    RollBack,
    LifeOver,
}

/// Why a statement did not come to its end.
pub(super) enum Stop {
    /// The table is damaged.
    Damaged,
    /// The engine says so.
    Error(Error),
    /// What it said is wrong.
    Wrong(anyhow::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl From<anyhow::Error> for Stop {
    /// What the engine says stays that: the power may have gone while a check read what it
    /// compares.
    fn from(error: anyhow::Error) -> Stop {
        error.downcast().map_or_else(Stop::Wrong, Stop::Error)
    }
}
