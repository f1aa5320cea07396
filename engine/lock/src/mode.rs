//! Modes of locks, and what a request does about a lock in its way.

use std::time::Duration;

/// Shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with nothing.
    Exclusive,
}

impl LockMode {
    pub(crate) fn row(self) -> Mode {
        match self {
            LockMode::Shared => Mode::Shared,
            LockMode::Exclusive => Mode::Exclusive,
        }
    }

    pub(crate) fn intent(self) -> Mode {
        match self {
            LockMode::Shared => Mode::IntentShared,
            LockMode::Exclusive => Mode::IntentExclusive,
        }
    }
}

/// What to do about a lock that another transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait for at most so long, then [`LockTimeout`](holdfast_base::Error::LockTimeout).
    For(Duration),
    /// [`WouldBlock`](holdfast_base::Error::WouldBlock) at once.
    NoWait,
    /// As [`LockWait::NoWait`]; a cursor passes over the row instead of reporting it.
    SkipLocked,
}

impl LockWait {
    /// For how long at most a request waits; `None` if it does not.
    pub(crate) fn limit(self) -> Option<Duration> {
        match self {
            LockWait::For(limit) => Some(limit),
            LockWait::NoWait | LockWait::SkipLocked => None,
        }
    }
}

/// Modes of a queue. Rows know shared and exclusive; the intent modes exist only while a
/// transaction waits for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    IntentShared,
    IntentExclusive,
    Shared,
    Exclusive,
}

impl Mode {
    /// True if two owners may hold these at the same time.
    pub fn compatible(self, other: Mode) -> bool {
        use Mode::{Exclusive, IntentExclusive, IntentShared, Shared};
        match (self, other) {
            (IntentShared | IntentExclusive, IntentShared | IntentExclusive) => true,
            (Exclusive, _) | (_, Exclusive) => false,
            (Shared, Shared | IntentShared) | (IntentShared, Shared) => true,
            (Shared, IntentExclusive) | (IntentExclusive, Shared) => false,
        }
    }

    /// True if a holder of `self` needs nothing more for `other`.
    pub fn covers(self, other: Mode) -> bool {
        match self {
            Mode::Exclusive => true,
            Mode::Shared => matches!(other, Mode::Shared | Mode::IntentShared),
            Mode::IntentExclusive => matches!(other, Mode::IntentExclusive | Mode::IntentShared),
            Mode::IntentShared => other == Mode::IntentShared,
        }
    }

    /// The mode of a lock on rows that is held in this one.
    pub fn of_rows(self) -> LockMode {
        if self == Mode::Exclusive { LockMode::Exclusive } else { LockMode::Shared }
    }

    /// True if it says that its owner wants a row of the table.
    pub fn is_intent(self) -> bool {
        matches!(self, Mode::IntentShared | Mode::IntentExclusive)
    }

    pub fn name(self) -> &'static str {
        match self {
            Mode::IntentShared => "IS",
            Mode::IntentExclusive => "IX",
            Mode::Shared => "S",
            Mode::Exclusive => "X",
        }
    }
}
