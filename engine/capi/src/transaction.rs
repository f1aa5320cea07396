//! Transactions: begin, statements, savepoints, the two phases of a commit.

use std::ffi::c_void;
use std::time::Duration;

use holdfast::raw::{RawOptions, RawTransaction, TxnSavepoint};
use holdfast::{Error, FlushAtCommit, Result};

use crate::handle::{Options, Slice, check_out, close, entry_points, exclusive, give, options, put, shared, take};
use crate::{Code, Database};

/// A transaction. One thread uses it at a time; which one may change.
pub struct Transaction {
    pub(crate) raw: RawTransaction,
    /// Where statement, row and named savepoints are, by the changes before them. The named ones
    /// are in order, each place once.
    statement: Option<(u64, TxnSavepoint)>,
    row: Option<(u64, TxnSavepoint)>,
    named: Vec<(u64, TxnSavepoint)>,
}

impl Transaction {
    fn new(raw: RawTransaction) -> Transaction {
        Transaction { raw, statement: None, row: None, named: Vec::new() }
    }

    fn statement(&mut self, lock_wait_timeout_ms: u64) -> Result<u64> {
        let savepoint = self.raw.statement(Duration::from_millis(lock_wait_timeout_ms))?;
        let at = self.raw.txn().changes();
        self.statement = Some((at, savepoint));
        Ok(at)
    }

    fn savepoint(&mut self, keep: bool) -> u64 {
        let at = self.raw.txn().changes();
        let savepoint = (at, self.raw.txn().savepoint());
        if !keep {
            self.row = Some(savepoint);
        } else if self.named.last().is_none_or(|(last, _)| *last < at) {
            self.named.push(savepoint);
        }
        at
    }

    fn rollback_to(&mut self, savepoint: u64) -> Result<()> {
        let behind = self.named.partition_point(|(at, _)| *at <= savepoint);
        let mut known = self.row.iter().chain(&self.statement).chain(self.named[..behind].last());
        let place = known.find(|(at, _)| *at == savepoint).map(|(_, place)| *place);
        let place = place.ok_or_else(|| Error::InvalidArgument("there is no such savepoint".into()))?;
        self.raw.txn().rollback_to(place)?;
        // Those behind it would be places among other changes later.
        self.named.truncate(behind);
        for latest in [&mut self.row, &mut self.statement] {
            latest.take_if(|(at, _)| *at > savepoint);
        }
        Ok(())
    }
}

/// What a transaction sees of the others: the numbers of a MariaDB server.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// As `ReadCommitted`: nothing that is not committed is ever read.
    ReadUncommitted = 0,
    /// Every statement sees what was committed when it began.
    ReadCommitted = 1,
    /// All statements see one snapshot.
    RepeatableRead = 2,
    /// As if transactions ran one after the other.
    Serializable = 3,
}

impl From<Isolation> for holdfast::Isolation {
    fn from(isolation: Isolation) -> holdfast::Isolation {
        match isolation {
            Isolation::ReadUncommitted | Isolation::ReadCommitted => holdfast::Isolation::ReadCommitted,
            Isolation::RepeatableRead => holdfast::Isolation::RepeatableRead,
            Isolation::Serializable => holdfast::Isolation::Serializable,
        }
    }
}

/// How a transaction begins.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    /// Bytes of this structure.
    pub struct_size: usize,
    /// What it sees of the others.
    pub isolation: Isolation,
    /// True if the first updater wins.
    pub snapshot_isolation: bool,
    /// Changes are refused.
    pub read_only: bool,
}

// SAFETY: it begins with its size, and zero is a value of each field.
unsafe impl Options for TransactionOptions {
    const SIZE_MIN: usize = 16;
}

/// What a commit waits for: the values of `flush_log_at_trx_commit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// For nothing.
    Lazy = 0,
    /// Until the log is synced.
    Sync = 1,
    /// Until the log is handed to the operating system.
    Write = 2,
}

impl From<Flush> for FlushAtCommit {
    fn from(flush: Flush) -> FlushAtCommit {
        match flush {
            Flush::Lazy => FlushAtCommit::Lazy,
            Flush::Sync => FlushAtCommit::Sync,
            Flush::Write => FlushAtCommit::Write,
        }
    }
}

entry_points! {
    /// Begins a transaction. Costs little: ids and snapshots come with the first use.
    fn hf_begin(database: *const Database, options: *const TransactionOptions, out: *mut *mut Transaction) {
        let (database, options) = (take!(shared(database))?, take!(self::options(options))?);
        let raw = database.0.begin(&RawOptions {
            isolation: options.isolation.into(),
            snapshot_isolation: options.snapshot_isolation,
            read_only: options.read_only,
        })?;
        take!(give(out, Transaction::new(raw)))?;
        Ok(Code::Ok)
    }

    /// A statement begins: at READ COMMITTED it will see what is committed now. It waits for locks
    /// for so many milliseconds each, 0: not at all. `out` gets the savepoint to go back to if it
    /// fails; it is valid until the next statement.
    fn hf_statement(transaction: *mut Transaction, lock_wait_timeout_ms: u64, out: *mut u64) {
        let savepoint = take!(exclusive(transaction))?.statement(lock_wait_timeout_ms)?;
        take!(put(out, savepoint));
        Ok(Code::Ok)
    }

    /// From now on the transaction waits for locks for so many milliseconds each, 0: not at all: a
    /// statement within the statement that has begun may have another limit.
    fn hf_lock_wait(transaction: *mut Transaction, lock_wait_timeout_ms: u64) {
        take!(exclusive(transaction))?.raw.set_lock_wait(Duration::from_millis(lock_wait_timeout_ms));
        Ok(Code::Ok)
    }

    /// The statement has ended: at READ COMMITTED what it saw is kept no longer, once no cursor
    /// reads it.
    fn hf_statement_end(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.raw.txn().statement_end();
        Ok(Code::Ok)
    }

    /// Takes the snapshot now.
    fn hf_snapshot(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.raw.txn().take_snapshot();
        Ok(Code::Ok)
    }

    /// The point that the transaction has reached: valid to the end of the transaction if `keep`,
    /// else to the next call of this function without it; and until the transaction goes back to a
    /// point before it.
    fn hf_savepoint(transaction: *mut Transaction, keep: bool, out: *mut u64) {
        let savepoint = take!(exclusive(transaction))?.savepoint(keep);
        take!(put(out, savepoint));
        Ok(Code::Ok)
    }

    /// Undoes what was changed since `savepoint`. Locks stay.
    fn hf_rollback_to(transaction: *mut Transaction, savepoint: u64) {
        take!(exclusive(transaction))?.rollback_to(savepoint)?;
        Ok(Code::Ok)
    }

    /// Locks a name, which means something to the caller alone: one transaction at a time has it,
    /// until `hf_unlock_name` or its end.
    fn hf_lock_name(transaction: *mut Transaction, name: Slice) {
        take!(exclusive(transaction))?.raw.txn().lock_name(take!(name.bytes()))?;
        Ok(Code::Ok)
    }

    /// Gives up the lock of a name.
    fn hf_unlock_name(transaction: *mut Transaction, name: Slice) {
        take!(exclusive(transaction))?.raw.txn().unlock_name(take!(name.bytes()));
        Ok(Code::Ok)
    }

    /// First phase: from here on the transaction survives a crash until it is committed or rolled
    /// back.
    fn hf_prepare(transaction: *mut Transaction, xid: Slice, flush: Flush) {
        take!(exclusive(transaction))?.raw.prepare(take!(xid.bytes()), flush.into())?;
        Ok(Code::Ok)
    }

    /// Releases the locks by which a prepared transaction kept what it has only read: it reads no
    /// more.
    fn hf_release_reads(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.raw.release_reads()?;
        Ok(Code::Ok)
    }

    /// Fixes the transaction's place in the commit order and makes its changes visible, without
    /// waiting for the disk.
    fn hf_commit_ordered(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.raw.txn().commit_ordered()?;
        Ok(Code::Ok)
    }

    /// Commits. After `hf_commit_ordered` it only waits for the disk.
    fn hf_commit(transaction: *mut Transaction, flush: Flush) {
        take!(exclusive(transaction))?.raw.commit(flush.into())?;
        Ok(Code::Ok)
    }

    /// Undoes everything.
    fn hf_rollback(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.raw.txn().rollback()?;
        Ok(Code::Ok)
    }

    /// Frees a transaction; one that has not ended is rolled back, a prepared one stays prepared.
    fn hf_transaction_free(transaction: *mut Transaction) {
        drop(take!(close(transaction)));
        Ok(Code::Ok)
    }

    /// The transaction's number, for `hf_kill`, and how many changes it has made.
    fn hf_transaction_info(transaction: *mut Transaction, serial: *mut u64, changes: *mut u64) {
        let transaction = take!(exclusive(transaction))?;
        take!(put(serial, transaction.raw.txn().serial()));
        take!(put(changes, transaction.raw.txn().changes()));
        Ok(Code::Ok)
    }

    /// Whether the transaction holds any lock, that of rows which it has changed included.
    fn hf_holds_locks(transaction: *mut Transaction, out: *mut bool) {
        let holds = take!(exclusive(transaction))?.raw.txn().holds_locks();
        take!(put(out, holds));
        Ok(Code::Ok)
    }

    /// Whether the transaction's snapshot was given up, to keep old versions to their limit: then
    /// that is why a read came to [`Code::SnapshotTooOld`].
    fn hf_snapshot_is_given_up(transaction: *mut Transaction, out: *mut bool) {
        let given_up = take!(exclusive(transaction))?.raw.txn().is_view_given_up();
        take!(put(out, given_up));
        Ok(Code::Ok)
    }

    /// Ends the lock wait of a transaction, by its number: the one that it is in, or else the next
    /// one of its statement. From any thread. Nothing happens if there is no such transaction.
    fn hf_kill(database: *const Database, serial: u64) {
        take!(shared(database))?.0.kill(serial);
        Ok(Code::Ok)
    }

    /// Calls `each` with the xid of every prepared transaction that no session holds: of those that
    /// an earlier run did not end, and of those that `hf_transaction_free` has left prepared.
    fn hf_prepared(
        database: *const Database,
        each: Option<extern "C" fn(context: *mut c_void, xid: Slice)>,
        context: *mut c_void,
    ) {
        if let Some(each) = each {
            for xid in take!(shared(database))?.0.prepared() {
                each(context, Slice::of(&xid));
            }
        }
        Ok(Code::Ok)
    }

    /// Takes over a prepared transaction, to commit or to roll it back.
    fn hf_adopt(database: *const Database, xid: Slice, out: *mut *mut Transaction) {
        check_out(out)?;
        let transaction = take!(shared(database))?.0.adopt(take!(xid.bytes()))?;
        take!(give(out, Transaction::new(transaction)))?;
        Ok(Code::Ok)
    }
}

#[cfg(test)]
mod tests {
    use holdfast::Database;
    use holdfast::raw::{Lifetime, RawDatabase};

    use super::*;

    /// Each SAVEPOINT of a loop was kept, and looked through by each ROLLBACK TO.
    #[test]
    fn a_savepoint_in_a_loop_is_kept_once() {
        let db = RawDatabase::new(Database::builder().cache_size_bytes(8 << 20).in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let table = db.open_table("t").unwrap();
        let options =
            RawOptions { isolation: holdfast::Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };
        let mut txn = Transaction::new(db.begin(&options).unwrap());
        let first = txn.savepoint(true);
        txn.raw.insert(&table, 0, b"first", b"row").unwrap();
        for _ in 0..100 {
            let here = txn.savepoint(true);
            txn.raw.insert(&table, 0, b"second", b"row").unwrap();
            txn.rollback_to(here).unwrap();
            assert_eq!((txn.named.len(), txn.raw.txn().changes()), (2, 1));
        }
        txn.rollback_to(first).unwrap();
        assert_eq!((txn.named.len(), txn.raw.txn().changes()), (1, 0));
    }
}
