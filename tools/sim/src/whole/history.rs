//! What the sessions of a run did and saw, in the order in which it happened.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast::{FlushAtCommit, Isolation};

/// A row's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub table: usize,
    pub key: u64,
}

/// A version that a transaction wrote: its number and a running number within it. Version 0 of
/// transaction 0 is never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Version(pub u64);

impl Version {
    pub fn new(txn: u64, n: u64) -> Version {
        Version(txn << 16 | n)
    }

    pub fn txn(self) -> u64 {
        self.0 >> 16
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It has not.
    Open,
    /// The commit was acknowledged.
    Committed(FlushAtCommit),
    /// The commit failed or was cut: it may be there.
    Unknown,
    /// It was rolled back, or the life ended before its commit.
    Aborted,
    /// It is prepared, as durably as that, and not decided.
    Prepared(FlushAtCommit),
    /// A prepare, or the rollback of what was prepared, failed or was cut: it may be prepared.
    InDoubt,
}

/// A read of a row that the transaction had not written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub item: Item,
    /// What was found; `None` if there was no row.
    pub version: Option<Version>,
    /// With a lock, so the newest version.
    pub locking: bool,
    /// When.
    pub at: u64,
}

/// A change of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub item: Item,
    pub version: Version,
    pub deletes: bool,
    /// When.
    pub at: u64,
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Txn {
    pub number: u64,
    pub isolation: Isolation,
    pub snapshot_isolation: bool,
    pub reads: Vec<Read>,
    pub writes: Vec<Write>,
    /// What it has tried to write: of a statement that failed, or was undone, damage may leave it.
    pub tried: Vec<(Item, Version)>,
    pub end: End,
    /// When its commit was asked for; 0: it was not.
    pub asked: u64,
    /// When its end was entered.
    pub over: u64,
    /// Before it began.
    pub begun: u64,
    /// When it released, prepared, what it had only read; 0: it did not.
    pub released: u64,
    /// What its coordinator calls it, and how durably it was prepared by that name.
    pub prepared: Option<(Vec<u8>, FlushAtCommit)>,
    /// One of its two threads met its rollback: the other one may have noted later what it had done
    /// before.
    pub noted_late: bool,
}

impl Txn {
    /// One that begins at `begun`.
    pub fn new(number: u64, isolation: Isolation, snapshot_isolation: bool, begun: u64) -> Txn {
        let (reads, writes, tried, end) = (Vec::new(), Vec::new(), Vec::new(), End::Open);
        let (asked, over, released, prepared, noted_late) = (0, 0, 0, None, false);
        Txn {
            number,
            isolation,
            snapshot_isolation,
            reads,
            writes,
            tried,
            end,
            begun,
            asked,
            over,
            released,
            prepared,
            noted_late,
        }
    }

    /// What may have been of rows at some time.
    pub fn versions(&self) -> impl Iterator<Item = (Item, Version)> {
        self.writes.iter().map(|write| (write.item, write.version)).chain(self.tried.iter().copied())
    }

    /// What it leaves of each row that it has changed.
    pub fn outcome(&self) -> BTreeMap<Item, Write> {
        self.writes.iter().map(|write| (write.item, *write)).collect()
    }
}

#[derive(Default)]
struct Inner {
    clock: u64,
    txns: BTreeMap<u64, Txn>,
}

/// All transactions of a life. Its mutex is not one of the scheduler: no thread waits while it
/// holds it.
#[derive(Default)]
pub(super) struct History(Mutex<Inner>);

impl History {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next moment.
    pub fn tick(&self) -> u64 {
        let mut inner = self.inner();
        inner.clock += 1;
        inner.clock
    }

    /// Enters a transaction; it is entered again with what it did when it ends.
    pub fn enter(&self, txn: Txn) {
        let mut inner = self.inner();
        inner.clock += 1;
        let over = inner.clock;
        inner.txns.insert(txn.number, Txn { over, ..txn });
    }

    /// All transactions by number.
    pub fn txns(&self) -> Vec<Txn> {
        self.inner().txns.values().cloned().collect()
    }
}

/// How often each kind of thing happened.
#[derive(Default)]
pub(super) struct Coverage(Mutex<BTreeMap<&'static str, u64>>);

impl Coverage {
    pub fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub fn add(&self, what: &'static str, n: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += n;
    }

    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
