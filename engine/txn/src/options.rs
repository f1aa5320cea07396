//! Settings of the transaction system, and the options of one transaction.

use std::time::Duration;

use holdfast_lock::LockWait;

/// How much of other transactions a transaction sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// A new view for every statement; only changed and locked rows are locked. READ UNCOMMITTED is
    /// the same.
    ReadCommitted,
    /// One view for the whole transaction; locking reads and changes also lock the ranges they
    /// read.
    #[default]
    RepeatableRead,
    /// Every read locks the rows and the ranges it reads, and reads the newest committed version.
    Serializable,
}

/// Settings of a [`crate::TxnSystem`].
#[derive(Clone, Debug)]
pub struct TxnConfig {
    /// Memory for explicit locks, in bytes; beyond it, row locks are escalated to table locks.
    pub lock_memory: usize,
    /// How long a row lock is waited for when the caller gives no limit.
    pub lock_wait_timeout: Duration,
    /// Memory for what older views may need of small committed transactions, in bytes; beyond it,
    /// that goes to the version tree. No more than a quarter of `max_old_versions` is used. 0:
    /// none.
    pub shelf_bytes: u64,
    /// Bytes of undo logs, shelf and version tree above which the oldest snapshot that gives way is
    /// given up: one of a transaction that is read-only, or that has changed nothing and acts on
    /// the newest rows.
    pub max_old_versions: u64,
    /// Bytes of undo that one transaction may write; its next statement then fails with
    /// `LimitReached`.
    pub max_undo_per_txn: u64,
    /// A view older than so many unpurged commits becomes long: purge no longer waits for it.
    pub short_view_commits: u64,
    /// Transaction ids that the commit map covers; rounded up to a power of two. 8 bytes each.
    pub commit_window: usize,
    /// Unpurged commits above which a committer purges some logs itself. While they are few, what
    /// purge wants of them - the undo page, the leaf with the delete mark - is still in the
    /// processor's caches; and a thread that is woken for it has had the time to do it.
    pub purge_help_above: usize,
    /// Unpurged commits above which a committer waits a moment for the purge mutex.
    pub purge_wait_above: usize,
    /// True if a thread of the system's own purges and rolls back. Without it `purge` and
    /// `roll_back_losers` have to be called, which makes tests deterministic.
    pub background: bool,
}

impl Default for TxnConfig {
    fn default() -> TxnConfig {
        TxnConfig {
            lock_memory: 64 << 20,
            lock_wait_timeout: Duration::from_secs(50),
            shelf_bytes: 32 << 20,
            max_old_versions: 4 << 30,
            max_undo_per_txn: 16 << 30,
            short_view_commits: 1024,
            commit_window: 1 << 16,
            purge_help_above: 128,
            purge_wait_above: 8192,
            background: true,
        }
    }
}

/// Options of one transaction.
#[derive(Clone, Debug)]
pub struct TxnOptions {
    /// Isolation level.
    pub isolation: Isolation,
    /// At REPEATABLE READ: whether a change of a row that another transaction changed after this
    /// one's snapshot fails with `Conflict` (the first updater wins), or acts on the newest
    /// committed version.
    pub snapshot_isolation: bool,
    /// Changes are refused, and its snapshot gives way when old versions reach their limit.
    pub read_only: bool,
    /// What to do about a lock of another transaction; `None`: wait for the configured time.
    pub wait: Option<LockWait>,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions { isolation: Isolation::default(), snapshot_isolation: true, read_only: false, wait: None }
    }
}

impl TxnOptions {
    /// A read-only transaction at REPEATABLE READ: one snapshot.
    #[must_use]
    pub fn snapshot() -> TxnOptions {
        TxnOptions { read_only: true, ..TxnOptions::default() }
    }

    /// True if a transaction that does not see the newest version of a row may not replace it.
    pub(crate) fn first_updater_wins(&self) -> bool {
        self.isolation == Isolation::RepeatableRead && self.snapshot_isolation
    }

    /// The default options at `isolation`.
    #[must_use]
    pub fn at(isolation: Isolation) -> TxnOptions {
        TxnOptions { isolation, ..TxnOptions::default() }
    }
}
