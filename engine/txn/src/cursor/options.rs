//! How a cursor reads.

use holdfast_lock::{LockMode, LockWait};
use holdfast_tree::Direction;

use crate::entry::values::Part;

/// Whether a cursor is a scan. A scan reads pages that it will not read again, and must not
/// displace others from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScanMode {
    /// It becomes one when it has walked over some leaves.
    #[default]
    Auto,
    /// It is one from the start.
    Declared,
    /// It is none, however long it gets.
    Never,
}

/// How a cursor reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorOptions {
    /// Which way.
    pub direction: Direction,
    /// Whether it is a scan.
    pub scan: ScanMode,
    /// Lock each entry; `None`: read at the view (except at SERIALIZABLE).
    pub lock: Option<LockMode>,
    /// What to do about a lock of another transaction; `None`: what the transaction's options say.
    pub wait: Option<LockWait>,
    /// Which part of large values is read where nothing is locked.
    pub part: Part,
    /// At READ COMMITTED, do not wait for an entry that another transaction has locked, but return
    /// it without a lock, as it was committed last: a caller that finds that it matters waits then
    /// ([`crate::RowCursor::lock_given`]). InnoDB's "semi-consistent read".
    pub committed_if_locked: bool,
    /// It looks for what a reference leads to: also where the view is older than the index; and at
    /// READ COMMITTED, too, others insert nothing into what it has read, as long as it is open.
    pub linked: bool,
}
