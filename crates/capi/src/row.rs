//! Single entries of an index, by key. Index 0 of a table holds its rows.

use crate::handle::{Slice, entry_points, exclusive, shared, take};
use crate::{Buffer, Code, Table, Transaction};

/// Whether a read locks what it reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// No: it reads the snapshot.
    None = 0,
    /// Against changes by others; reads the newest committed version.
    Shared = 1,
    /// Against changes and locks by others; reads the newest committed version.
    Exclusive = 2,
}

entry_points! {
    /// Adds an entry; [`Code::DuplicateKey`] if there is one.
    fn hf_insert(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice, value: Slice) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        transaction.0.insert(&table.0, index, take!(key.bytes()), take!(value.bytes()))?;
        Ok(Code::Ok)
    }

    /// Adds an entry; [`Code::DuplicateKey`] if another one begins with the first `prefix` bytes of `key`.
    fn hf_insert_unique(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        prefix: usize,
        value: Slice,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        transaction.0.insert_unique(&table.0, index, take!(key.bytes()), prefix, take!(value.bytes()))?;
        Ok(Code::Ok)
    }

    /// Replaces the value of an entry; [`Code::NotFound`] if there is none.
    fn hf_update(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice, value: Slice) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let found = transaction.0.update(&table.0, index, take!(key.bytes()), take!(value.bytes()))?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// Removes an entry; [`Code::NotFound`] if there is none.
    fn hf_delete(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let found = transaction.0.delete(&table.0, index, take!(key.bytes()))?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// Gives up the lock that `hf_get` took last, on an entry that did not qualify: at READ COMMITTED, if the
    /// transaction did not have it before.
    fn hf_unlock(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        transaction.0.unlock(&table.0, index, take!(key.bytes()))?;
        Ok(Code::Ok)
    }

    /// Replaces the content of `out` by the value of an entry; [`Code::NotFound`] if there is none.
    fn hf_get(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        lock: Lock,
        skip_locked: bool,
        out: *mut Buffer,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let out = &mut take!(exclusive(out))?.0;
        let found = transaction.0.get(&table.0, index, take!(key.bytes()), lock, skip_locked, out)?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }
}
