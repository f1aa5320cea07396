//! Changing the indexes of a table in place.

use std::time::Duration;

use holdfast::raw::{self, RawAlter};

use crate::handle::{Slice, array, check_out, close, each_exclusive, entry_points, exclusive, give, put, shared, take};
use crate::{Code, Database, Definition, IndexSpec, Table, Transaction};

/// A change of a table's indexes that is under way.
pub struct Alter(RawAlter);

/// Where a secondary index of an altered table comes from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IndexSource {
    /// True if it was added.
    pub added: bool,
    /// Its number among those that were added, counted from 0; else the one that it had in the
    /// table.
    pub index: u32,
    /// The name that one which it had is to have; no bytes: as it was.
    pub name: Slice,
}

entry_points! {
    /// Begins to change the indexes of a table. `add`: the new ones. `with_deltas`: no transaction
    /// changes a row now, and from now on each one that does notes what that does to entries of the
    /// added indexes; otherwise rows must not change until the end. It waits for transactions that
    /// have written to the table for so many milliseconds.
    fn hf_alter_begin(
        database: *const Database,
        name: Slice,
        add: *const IndexSpec,
        count: usize,
        with_deltas: bool,
        lock_wait_timeout_ms: u64,
        out: *mut *mut Alter,
    ) {
        check_out(out)?;
        let (name, names) = (take!(name.text())?, take!(IndexSpec::names(add, count))?);
        let wait = Duration::from_millis(lock_wait_timeout_ms);
        let alter = take!(shared(database))?.0.begin_alter(name, &names, with_deltas, wait)?;
        take!(give(out, Alter(alter)))?;
        Ok(Code::Ok)
    }

    /// Takes an entry of an added index, counted from 0. The first `prefix` bytes of its key, or
    /// all of them, have to be unique. [`Code::DuplicateKey`] may come now, or later for an earlier
    /// entry.
    fn hf_alter_push(alter: *mut Alter, index: u32, key: Slice, prefix: usize, value: Slice) {
        take!(exclusive(alter))?.0.push(index, take!(key.bytes()), prefix, take!(value.bytes()))?;
        Ok(Code::Ok)
    }

    /// Notes, in a transaction that changes a row, that an entry of added index `added` has come or
    /// has another value. So many bytes of the key have to be unique.
    fn hf_alter_note_there(
        transaction: *mut Transaction,
        table: *const Table,
        added: u32,
        key: Slice,
        prefix: usize,
        value: Slice,
    ) {
        let (table, key, value) = (take!(shared(table))?, take!(key.bytes()), take!(value.bytes()));
        take!(exclusive(transaction))?.raw.note_entry(&table.0, added, key, Some((prefix, value)))?;
        Ok(Code::Ok)
    }

    /// Notes that an entry has gone.
    fn hf_alter_note_gone(transaction: *mut Transaction, table: *const Table, added: u32, key: Slice) {
        let (table, key) = (take!(shared(table))?, take!(key.bytes()));
        take!(exclusive(transaction))?.raw.note_entry(&table.0, added, key, None)?;
        Ok(Code::Ok)
    }

    /// Completes the added indexes.
    fn hf_alter_finish(alter: *mut Alter) {
        take!(exclusive(alter))?.0.finish()?;
        Ok(Code::Ok)
    }

    /// The entry that was refused with [`Code::DuplicateKey`]; [`Code::NotFound`] if none was.
    fn hf_alter_duplicate(alter: *const Alter, index: *mut u32, key: *mut Slice, value: *mut Slice) {
        let Some(duplicate) = take!(shared(alter))?.0.duplicate() else { return Ok(Code::NotFound) };
        take!(put(index, duplicate.index));
        take!(put(key, Slice::of(&duplicate.key)));
        take!(put(value, Slice::of(&duplicate.value)));
        Ok(Code::Ok)
    }

    /// Says what the table is to become: its secondary indexes in their order, all that were added
    /// among them, and what is kept with it.
    fn hf_alter_become(alter: *mut Alter, indexes: *const IndexSource, count: usize, definition: Slice) {
        let sources = take!(array(indexes, count));
        let mut indexes = Vec::with_capacity(count);
        for source in sources {
            let name = take!(source.name.text())?;
            indexes.push(match source.added {
                true => raw::IndexSource::Added(source.index),
                false if name.is_empty() => raw::IndexSource::Kept(source.index),
                false => raw::IndexSource::Renamed(source.index, name),
            });
        }
        take!(exclusive(alter))?.0.become_table(&indexes, take!(definition.bytes()))?;
        Ok(Code::Ok)
    }

    /// Makes changes of different tables, all of them or none, and at the same time gives other
    /// tables other definitions. The caller is the only user of the tables that change. Their
    /// handles have to be opened again. It waits as `hf_alter_begin` does, for each table. After an
    /// error none is made, and the call may be repeated, unless the database takes no change any
    /// more: then the next open finds all of them or none.
    fn hf_alter_commit(
        database: *const Database,
        alters: *const *mut Alter,
        count: usize,
        definitions: *const Definition,
        definition_count: usize,
        lock_wait_timeout_ms: u64,
    ) {
        let handles = take!(array(alters, count));
        let mut changes: Vec<_> = take!(each_exclusive(handles))?.into_iter().map(|alter| &mut alter.0).collect();
        let definitions = take!(Definition::pairs(definitions, definition_count))?;
        let wait = Duration::from_millis(lock_wait_timeout_ms);
        take!(shared(database))?.0.commit_alters(&mut changes, &definitions, wait)?;
        Ok(Code::Ok)
    }

    /// Ends a change; without `hf_alter_commit` before, the table stays as it was. The pages of
    /// indexes that are not needed any more are read and freed in the background.
    fn hf_alter_free(alter: *mut Alter) {
        if let Some(alter) = take!(close(alter)) {
            alter.0.end_in_background();
        }
        Ok(Code::Ok)
    }
}
