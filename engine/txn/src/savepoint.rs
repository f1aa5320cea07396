//! What a rollback to a savepoint has to know of the transaction, which goes on.

use std::sync::Arc;

use holdfast_base::IndexId;

use holdfast_lock::Owner;

/// A transaction that goes on after its rollback, to a savepoint.
pub(crate) struct GoesOn<'a> {
    /// Keeps the rows locked that are put back.
    pub owner: &'a Arc<Owner>,
    /// By how much it has changed the number of live entries of each index.
    pub deltas: &'a mut Vec<(IndexId, i64)>,
}

pub(crate) fn add_delta(deltas: &mut Vec<(IndexId, i64)>, index: IndexId, by: i64) {
    match deltas.iter_mut().find(|(i, _)| *i == index) {
        Some((_, n)) => *n += by,
        None => deltas.push((index, by)),
    }
}
