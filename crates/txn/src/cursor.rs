//! Cursors over a range of an index.
//!
//! A cursor belongs to a transaction and lives beside it: it holds the view, not the transaction, and between two calls
//! no latch and no page. It reads entries in batches that grow while it is used, judges each by the view, and reads the
//! batch anew if its own transaction changed something meanwhile.
//!
//! A locking cursor (always at SERIALIZABLE) registers its whole range before it reads, where the isolation level keeps
//! phantoms out, and locks each entry before it shows it. A cursor that is closed early gives back the part of
//! the range that it did not reach.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::{Error, Result};
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;

pub use holdfast_tree::Direction;

use crate::index::{IndexKind, TableIndex};
use crate::lock::{KeyRange, LockMode, Owner, RangeId, WaitMode};
use crate::options::Isolation;
use crate::reads::{is_locked_by_others, lock_and_read};
use crate::row::VersionHeader;
use crate::system::{OpenView, TxnSystem};
use crate::txn::Txn;
use crate::visibility::{Seen, split};

/// Entries of the first batch.
const BATCH_MIN: usize = 16;
/// Entries of the largest batch.
const BATCH_MAX: usize = 2048;
/// Bytes after which a batch ends, whatever its entries.
const BATCH_BYTES: usize = 256 << 10;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorOptions {
    /// Which way.
    pub direction: Direction,
    /// A declared scan: its pages do not disturb the pool.
    pub scan: bool,
    /// Lock each entry; `None`: read at the view (except at SERIALIZABLE).
    pub lock: Option<LockMode>,
    /// What to do about somebody else's lock; `None`: what the transaction's options say.
    pub wait: Option<WaitMode>,
}

struct Locking {
    mode: LockMode,
    wait: WaitMode,
    range: Option<RangeId>,
    first_updater_wins: bool,
    keep: bool,
}

/// A cursor. Obtained from [`Txn::cursor`].
pub struct RowCursor {
    system: Arc<TxnSystem>,
    owner: Arc<Owner>,
    index: Arc<TableIndex>,
    view: Arc<OpenView>,
    locking: Option<Locking>,
    direction: Direction,
    scan: bool,
    from: Bound<Box<[u8]>>,
    to: Bound<Box<[u8]>>,
    changes: Arc<AtomicU64>,
    changes_seen: u64,
    batch: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
    batch_len: usize,
    /// The last key that was looked at.
    last: Option<Vec<u8>>,
    done: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Txn {
    /// A cursor over the entries between `from` and `to`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the transaction has ended.
    pub fn cursor(
        &mut self,
        index: &Arc<TableIndex>,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        options: CursorOptions,
    ) -> Result<RowCursor> {
        self.check_open()?;
        let serializable = self.options.isolation == Isolation::Serializable;
        let mode = options.lock.or(serializable.then_some(LockMode::Shared));
        let locking = mode.map(|mode| {
            let keep = self.options.isolation != Isolation::ReadCommitted;
            let locks = &self.system.locks;
            let range = if keep { locks.lock_range(&self.owner, index.id(), KeyRange::new(from, to)) } else { None };
            let first_updater_wins =
                self.options.isolation == Isolation::RepeatableRead && self.options.snapshot_isolation;
            Locking { mode, wait: options.wait.unwrap_or(self.wait_mode()), range, first_updater_wins, keep }
        });
        Ok(RowCursor {
            view: self.current_view(),
            system: Arc::clone(&self.system),
            owner: Arc::clone(&self.owner),
            index: Arc::clone(index),
            locking,
            direction: options.direction,
            scan: options.scan,
            from: from.map(Box::from),
            to: to.map(Box::from),
            changes: Arc::clone(&self.changes),
            changes_seen: self.changes.load(Ordering::Relaxed),
            batch: Vec::new(),
            at: 0,
            batch_len: BATCH_MIN,
            last: None,
            done: false,
            key: Vec::new(),
            value: Vec::new(),
        })
    }
}

impl RowCursor {
    /// The next entry that the transaction sees, or `None` at the end of the range. The slices are valid until the next
    /// call.
    ///
    /// # Errors
    /// As [`Txn::get`], or as [`Txn::get_locked`] for a locking cursor. The entry that caused it is passed over by the
    /// next call.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while let Some((key, payload)) = self.next_entry()? {
            self.key = key;
            let visible = if self.locking.is_some() { self.lock_entry()? } else { self.judge(payload)? };
            if visible {
                if self.index.kind() == IndexKind::Rows {
                    self.system.metrics.inc(Counter::RowsRead);
                }
                return Ok(Some((&self.key, &self.value)));
            }
        }
        self.view.check()?;
        Ok(None)
    }

    /// The index that it walks.
    #[must_use]
    pub fn index(&self) -> &Arc<TableIndex> {
        &self.index
    }

    /// The next entry of the tree, whatever its version.
    fn next_entry(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let changes = self.changes.load(Ordering::Relaxed);
        if changes != self.changes_seen {
            self.changes_seen = changes;
            self.batch.clear();
            self.at = 0;
            self.done = false;
        }
        if self.at == self.batch.len() {
            if self.done {
                return Ok(None);
            }
            self.fill()?;
        }
        let Some(entry) = self.batch.get_mut(self.at) else { return Ok(None) };
        let entry = std::mem::take(entry);
        self.at += 1;
        self.last = Some(entry.0.clone());
        Ok(Some(entry))
    }

    /// Reads the next batch, from behind the last key.
    fn fill(&mut self) -> Result<()> {
        self.batch.clear();
        self.at = 0;
        let kind = if self.scan { AccessKind::Scan } else { AccessKind::Range };
        let acc = self.system.store.pool().access(kind).with_stats(self.index.access_stats());
        let forward = self.direction == Direction::Forward;
        let start = if forward { &self.from } else { &self.to };
        let start = match &self.last {
            Some(last) => Bound::Excluded(last.as_slice()),
            None => start.as_ref().map(|b| &**b),
        };
        let mut cursor = self.index.tree().cursor(&acc);
        cursor.seek(start, self.direction);
        let mut bytes = 0;
        while self.batch.len() < self.batch_len && bytes < BATCH_BYTES {
            let Some((key, payload)) = cursor.next()? else {
                self.done = true;
                break;
            };
            let inside = match if forward { &self.to } else { &self.from } {
                Bound::Unbounded => true,
                Bound::Included(b) => {
                    if forward {
                        key <= &**b
                    } else {
                        key >= &**b
                    }
                }
                Bound::Excluded(b) => {
                    if forward {
                        key < &**b
                    } else {
                        key > &**b
                    }
                }
            };
            if !inside {
                self.done = true;
                break;
            }
            bytes += key.len() + payload.len();
            self.batch.push((key.to_vec(), payload.to_vec()));
        }
        self.batch_len = (self.batch_len * 4).min(BATCH_MAX);
        Ok(())
    }

    /// Puts the value that the view sees into `self.value`; false if there is none.
    fn judge(&mut self, mut payload: Vec<u8>) -> Result<bool> {
        let me = self.owner.txn();
        let kind = if self.scan { AccessKind::Scan } else { AccessKind::Range };
        let acc = self.system.store.pool().access(kind).with_stats(self.index.access_stats());
        match self.system.version_at(&self.index, &self.key, &mut payload, &self.view, me)? {
            Seen::Version => {
                self.system.value_of(&self.index, &payload, Some(&self.view), &acc, &mut self.value)?;
                Ok(true)
            }
            Seen::Nothing => self.view.check().map(|()| false),
            Seen::Stale => self.system.read_at(&self.index, &self.key, &self.view, me, &acc, &mut self.value),
        }
    }

    /// Locks the entry and reads its newest version; false if there is none, or if it is to be skipped.
    fn lock_entry(&mut self) -> Result<bool> {
        let Some(locking) = &self.locking else { return Ok(false) };
        let acc = self.system.store.pool().access(AccessKind::Range).with_stats(self.index.access_stats());
        let (system, index, mode, wait) = (&self.system, &self.index, locking.mode, locking.wait);
        let mut payload = Vec::new();
        let found = match lock_and_read(system, &self.owner, index, &self.key, mode, wait, &acc, &mut payload) {
            Err(e) if is_locked_by_others(&e) && wait == WaitMode::SkipLocked => return Ok(false),
            other => other?,
        };
        let header: Option<VersionHeader> = if found { Some(split(index, &payload)?.0) } else { None };
        if let Some(h) = header
            && locking.first_updater_wins
            && h.txn != self.owner.txn()
            && !self.view.sees(h.txn, &system.map)
        {
            system.metrics.inc(Counter::TrxConflicts);
            return Err(Error::Conflict);
        }
        if header.is_none_or(|h| h.deleted) {
            if !locking.keep {
                system.locks.unlock_row(&self.owner, index.id(), &self.key);
            }
            return Ok(false);
        }
        system.value_of(index, &payload, None, &acc, &mut self.value)?;
        Ok(true)
    }
}

impl Drop for RowCursor {
    fn drop(&mut self) {
        let Some(Locking { range: Some(id), .. }) = &self.locking else { return };
        if self.done && self.at == self.batch.len() {
            return;
        }
        // What was not reached need not be kept free of others' inserts.
        let Some(last) = self.last.take() else { return };
        let read = match self.direction {
            Direction::Forward => KeyRange { from: self.from.clone(), to: Bound::Included(last.into()) },
            Direction::Reverse => KeyRange { from: Bound::Included(last.into()), to: self.to.clone() },
        };
        self.system.locks.shrink_range(self.index.id(), *id, read);
    }
}

impl fmt::Debug for RowCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCursor").field("index", &self.index.id()).finish_non_exhaustive()
    }
}
