//! Running a transaction again after a conflict or a deadlock.
//!
//! A transaction conflicts because another one changed a row between its snapshot and its own change of the row. Run again in the same
//! way, it can meet the next change of that row, and the next. So every attempt begins by locking what earlier ones conflicted on, before
//! anything is read: it waits for its turn in line, and its snapshot is taken when it has the lock. The locks are taken in
//! the order of indexes and keys, so that attempts do not block each other in a circle over them.

use std::collections::BTreeSet;

use holdfast_base::IndexId;

use crate::options::WriteOptions;
use crate::transaction::WriteTransaction;
use crate::{Database, Result};

/// So often a transaction is run. Each attempt after a conflict locks one entry more, so only one that touches other rows each time
/// comes near.
const ATTEMPTS: usize = 1_000;

/// An entry of an index that transactions have conflicted on.
pub(crate) type Contended = (IndexId, Vec<u8>);

/// See [`Database::transact_with`].
pub(crate) fn transact<T>(
    database: &Database,
    options: &WriteOptions,
    mut body: impl FnMut(&WriteTransaction) -> Result<T>,
) -> Result<T> {
    let mut contended = BTreeSet::new();
    for _ in 1..ATTEMPTS {
        let txn = database.begin_write_with(options)?;
        match attempt(&txn, &contended, &mut body) {
            Err(error) if error.is_retryable() => contended.extend(txn.context().conflict()),
            result => return result,
        }
    }
    attempt(&database.begin_write_with(options)?, &contended, &mut body)
}

fn attempt<T>(
    txn: &WriteTransaction,
    contended: &BTreeSet<Contended>,
    body: &mut impl FnMut(&WriteTransaction) -> Result<T>,
) -> Result<T> {
    txn.context().lock_first(contended)?;
    let value = body(txn)?;
    txn.context().commit(None)?;
    Ok(value)
}
