//! Running a transaction again after a conflict or a deadlock.
//!
//! A transaction conflicts because another one changed a row between its snapshot and its own
//! change of the row. Run again in the same way, it can meet the next change of that row, and the
//! next. So every attempt begins by locking what earlier ones conflicted on, before anything is
//! read: it waits for its turn in line, and its snapshot is taken when it has the lock. The locks
//! are taken in the order of indexes and keys, so that attempts do not block each other in a circle
//! over them.
//!
//! A snapshot that is older than a table which the transaction reads is the third reason: another
//! transaction has created the table in between. The next attempt has a younger snapshot. An error
//! of that name that comes from somewhere else, such as a read transaction that the body uses, is
//! no reason. Nor is a snapshot that was given up to keep old versions to their limit: that of the
//! next attempt would be needed for as long.

use std::collections::BTreeSet;

use crate::session::transaction::{Contended, Transaction};
use crate::{Error, Result};

/// So often a transaction is run. Each attempt after a conflict locks one entry more, so only one
/// that touches other rows each time comes near.
const ATTEMPTS: usize = 1_000;

/// Runs `body` in a transaction that `begin` begins, and commits it; see
/// [`crate::Database::transact`].
pub(crate) fn transact<W: AsRef<Transaction>, T>(
    begin: impl Fn() -> Result<W>,
    mut body: impl FnMut(&W) -> Result<T>,
) -> Result<T> {
    let mut contended = BTreeSet::new();
    for _ in 1..ATTEMPTS {
        let txn = begin()?;
        match attempt(&txn, &contended, &mut body) {
            Err(error) if error.is_retryable() => contended.extend(txn.as_ref().conflict()),
            Err(Error::SnapshotTooOld) if txn.as_ref().is_too_old() => {}
            result => return result,
        }
    }
    attempt(&begin()?, &contended, &mut body)
}

fn attempt<W: AsRef<Transaction>, T>(
    txn: &W,
    contended: &BTreeSet<Contended>,
    body: &mut impl FnMut(&W) -> Result<T>,
) -> Result<T> {
    txn.as_ref().lock_first(contended)?;
    let value = body(txn)?;
    txn.as_ref().commit(None)?;
    Ok(value)
}
