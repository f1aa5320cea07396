//! Transactions: begin, statements, savepoints, the two phases of a commit.

use std::ffi::c_void;

use crate::handle::{Slice, close, entry_points, exclusive, give, put, shared, take};
use crate::{Code, Database, raw};

/// A transaction. One thread uses it at a time; which one may change.
pub struct Transaction(pub(crate) raw::Transaction);

/// How a transaction begins.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TransactionOptions {
    /// 0 READ UNCOMMITTED, 1 READ COMMITTED, 2 REPEATABLE READ, 3 SERIALIZABLE: the server's
    /// numbers.
    pub isolation: u32,
    /// Whether the first updater wins.
    pub snapshot_isolation: bool,
    /// Changes are refused.
    pub read_only: bool,
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

entry_points! {
    /// Begins a transaction. Costs little: ids and snapshots come with the first use.
    fn hf_begin(database: *const Database, options: *const TransactionOptions, out: *mut *mut Transaction) {
        let (database, options) = (take!(shared(database))?, take!(shared(options))?);
        take!(give(out, Transaction(database.0.begin(options)?)))?;
        Ok(Code::Ok)
    }

    /// A statement begins: at READ COMMITTED it will see what is committed now. It waits for locks
    /// for so many milliseconds each, 0: not at all. `out` gets the savepoint to go back to if it
    /// fails; it is valid until the next statement.
    fn hf_statement(transaction: *mut Transaction, lock_wait_timeout_ms: u64, out: *mut u64) {
        let savepoint = take!(exclusive(transaction))?.0.statement(lock_wait_timeout_ms)?;
        take!(put(out, savepoint));
        Ok(Code::Ok)
    }

    /// Takes the snapshot now.
    fn hf_snapshot(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.0.take_snapshot();
        Ok(Code::Ok)
    }

    /// The point that the transaction has reached: valid to the end of the transaction if `keep`,
    /// else to the next call of this function without it.
    fn hf_savepoint(transaction: *mut Transaction, keep: bool, out: *mut u64) {
        let savepoint = take!(exclusive(transaction))?.0.savepoint(keep);
        take!(put(out, savepoint));
        Ok(Code::Ok)
    }

    /// Undoes what was changed since `savepoint`. Locks stay.
    fn hf_rollback_to(transaction: *mut Transaction, savepoint: u64) {
        take!(exclusive(transaction))?.0.rollback_to(savepoint)?;
        Ok(Code::Ok)
    }

    /// Locks a name, which means something to the caller alone: one transaction at a time has it,
    /// until `hf_unlock_name` or its end.
    fn hf_lock_name(transaction: *mut Transaction, name: Slice) {
        take!(exclusive(transaction))?.0.lock_name(take!(name.bytes()))?;
        Ok(Code::Ok)
    }

    /// Gives up the lock of a name.
    fn hf_unlock_name(transaction: *mut Transaction, name: Slice) {
        take!(exclusive(transaction))?.0.unlock_name(take!(name.bytes()));
        Ok(Code::Ok)
    }

    /// First phase: from here on the transaction survives a crash until it is committed or rolled
    /// back.
    fn hf_prepare(transaction: *mut Transaction, xid: Slice, flush: Flush) {
        take!(exclusive(transaction))?.0.prepare(take!(xid.bytes()), flush)?;
        Ok(Code::Ok)
    }

    /// Releases the locks by which a prepared transaction kept what it has only read: it reads no
    /// more.
    fn hf_release_reads(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.0.release_reads()?;
        Ok(Code::Ok)
    }

    /// Fixes the transaction's place in the commit order and makes its changes visible, without
    /// waiting for the disk.
    fn hf_commit_ordered(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.0.commit_ordered()?;
        Ok(Code::Ok)
    }

    /// Commits. After `hf_commit_ordered` it only waits for the disk.
    fn hf_commit(transaction: *mut Transaction, flush: Flush) {
        take!(exclusive(transaction))?.0.commit(flush)?;
        Ok(Code::Ok)
    }

    /// Undoes everything.
    fn hf_rollback(transaction: *mut Transaction) {
        take!(exclusive(transaction))?.0.rollback()?;
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
        take!(put(serial, transaction.0.serial()));
        take!(put(changes, transaction.0.changes()));
        Ok(Code::Ok)
    }

    /// Whether the transaction holds any lock, that of rows which it has changed included.
    fn hf_holds_locks(transaction: *mut Transaction, out: *mut bool) {
        let holds = take!(exclusive(transaction))?.0.holds_locks();
        take!(put(out, holds));
        Ok(Code::Ok)
    }

    /// Ends the lock wait of a transaction, by its number; from any thread. Nothing happens if
    /// there is none.
    fn hf_kill(database: *const Database, serial: u64) {
        take!(shared(database))?.0.kill(serial);
        Ok(Code::Ok)
    }

    /// Calls `each` with the xid of every transaction that an earlier run prepared and did not end.
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
        let transaction = take!(shared(database))?.0.adopt(take!(xid.bytes()))?;
        take!(give(out, Transaction(transaction)))?;
        Ok(Code::Ok)
    }
}
