//! Choices made per transaction, per statement, per scan.

use std::time::Duration;

pub use holdfast_txn::{FlushAtCommit, Isolation};

/// What a statement does when a row that it must lock is locked by another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum WaitMode {
    /// Waits up to the transaction's lock wait timeout, then [`crate::Error::LockTimeout`].
    #[default]
    Wait,
    /// Fails at once with [`crate::Error::WouldBlock`].
    NoWait,
    /// Passes over the row as if it were not there.
    SkipLocked,
}

/// Options of one write transaction. `WriteOptions::default()` takes what the database was opened
/// with.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub(crate) isolation: Isolation,
    pub(crate) flush_at_commit: Option<FlushAtCommit>,
    pub(crate) lock_wait_timeout: Option<Duration>,
    pub(crate) snapshot_isolation: Option<bool>,
}

impl WriteOptions {
    /// The defaults of the database.
    #[must_use]
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// Sets the isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> WriteOptions {
        self.isolation = isolation;
        self
    }

    /// Sets what the commit waits for.
    #[must_use]
    pub fn flush_at_commit(mut self, flush: FlushAtCommit) -> WriteOptions {
        self.flush_at_commit = Some(flush);
        self
    }

    /// Sets how long a statement waits for a row lock.
    #[must_use]
    pub fn lock_wait_timeout(mut self, timeout: Duration) -> WriteOptions {
        self.lock_wait_timeout = Some(timeout);
        self
    }

    /// Whether changing a row that another transaction changed since this one's snapshot is a
    /// [`crate::Error::Conflict`] (on, the crate's default) or acts on the newest committed row
    /// (off, as MySQL does).
    #[must_use]
    pub fn snapshot_isolation(mut self, on: bool) -> WriteOptions {
        self.snapshot_isolation = Some(on);
        self
    }
}

/// Whether a range is a scan, that is, reads pages which it will not come back to.
///
/// The cache needs no hint: a cursor that walks many leaves is found out. Saying so beforehand only
/// saves it the finding out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Scan {
    /// It becomes one after some leaves. The default.
    #[default]
    Auto,
    /// It is one: a dump, a report over everything.
    Yes,
    /// It is none, however long it gets: its pages are to stay cached.
    No,
}

/// Options of a range or cursor.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    pub(crate) scan: Scan,
}

impl ReadOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> ReadOptions {
        ReadOptions::default()
    }

    /// Declares the range to be a scan, or not to be one.
    #[must_use]
    pub fn scan(mut self, scan: Scan) -> ReadOptions {
        self.scan = scan;
        self
    }
}
