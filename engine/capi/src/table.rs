//! Tables: made of indexes over byte strings, of which the first holds the rows.

use std::ffi::c_void;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use holdfast::raw::{Lifetime, RawTable};
use holdfast::{Error, Result, VerifyOptions};

use crate::handle::{Slice, array, close, entry_points, exclusive, give, put, shared, take};
use crate::{Buffer, Code, Database, Definition};

/// An open table.
pub struct Table(pub(crate) Arc<RawTable>);

/// An index of a table that is created.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IndexSpec {
    /// Its name.
    pub name: Slice,
    /// True if it is meant for `hf_insert_unique`; for listings.
    pub unique: bool,
}

impl IndexSpec {
    /// The names of indexes, and whether they are unique.
    ///
    /// # Safety
    /// [The rules](crate#rules) for arrays and slices that are passed in; they are used within the
    /// call only.
    pub(crate) unsafe fn names<'a>(from: *const IndexSpec, count: usize) -> Result<Vec<(&'a str, bool)>> {
        // SAFETY: as promised by the caller.
        unsafe { array(from, count) }.iter().map(|spec| Ok((unsafe { spec.name.text() }?, spec.unique))).collect()
    }
}

/// A number that a table counts up and never gives out twice, whatever happens.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The next value of the AUTO_INCREMENT column.
    AutoIncrement = 0,
    /// The next hidden row id.
    RowId = 1,
}

entry_points! {
    /// Creates a table. `indexes[0]` holds the rows, the others secondary entries. `definition` is
    /// kept with it. Nothing of a temporary one is made durable: it ends with the run of the
    /// database, and a backup does not have it.
    fn hf_table_create(
        database: *const Database,
        name: Slice,
        indexes: *const IndexSpec,
        count: usize,
        definition: Slice,
        temporary: bool,
    ) {
        let (database, name) = (take!(shared(database))?, take!(name.text())?);
        let names = take!(IndexSpec::names(indexes, count))?;
        let lifetime = if temporary { Lifetime::Temporary } else { Lifetime::Lasting };
        database.0.create_table(name, names.get(1..).unwrap_or_default(), take!(definition.bytes()), lifetime)?;
        Ok(Code::Ok)
    }

    /// Opens a table. The handle stays valid while the table is renamed or dropped.
    fn hf_table_open(database: *const Database, name: Slice, out: *mut *mut Table) {
        let table = take!(shared(database))?.0.open_table(take!(name.text())?)?;
        take!(give(out, Table(Arc::new(table))))?;
        Ok(Code::Ok)
    }

    /// Closes a table.
    fn hf_table_close(table: *mut Table) {
        drop(take!(close(table)));
        Ok(Code::Ok)
    }

    /// Removes a table. It waits for transactions that have written to it for so many milliseconds,
    /// and not at all if it is temporary: what they did there is forgotten.
    fn hf_table_drop(database: *const Database, name: Slice, lock_wait_timeout_ms: u64) {
        take!(shared(database))?.0.drop_table(take!(name.text())?, Duration::from_millis(lock_wait_timeout_ms))?;
        Ok(Code::Ok)
    }

    /// Puts the bytes that a table was created with, or that were set since, into `out`.
    fn hf_table_definition(database: *const Database, name: Slice, out: *mut Buffer) {
        take!(exclusive(out))?.0 = take!(shared(database))?.0.options(take!(name.text())?)?;
        Ok(Code::Ok)
    }

    /// Replaces those bytes of tables, of all of them or of none.
    fn hf_tables_set_definitions(database: *const Database, definitions: *const Definition, count: usize) {
        let definitions = take!(Definition::pairs(definitions, count))?;
        take!(shared(database))?.0.set_options(&definitions)?;
        Ok(Code::Ok)
    }

    /// Gives a table another name, and at the same time other definitions to tables: to itself by
    /// the new name.
    fn hf_table_rename(
        database: *const Database,
        from: Slice,
        to: Slice,
        definitions: *const Definition,
        count: usize,
    ) {
        let definitions = take!(Definition::pairs(definitions, count))?;
        take!(shared(database))?.0.rename_table(take!(from.text())?, take!(to.text())?, &definitions)?;
        Ok(Code::Ok)
    }

    /// Empties a table: replaces it by a new one of the same name and definition, at once. Open
    /// handles see the old one. It waits as `hf_table_drop` does.
    fn hf_table_truncate(database: *const Database, name: Slice, lock_wait_timeout_ms: u64) {
        take!(shared(database))?.0.truncate_table(take!(name.text())?, Duration::from_millis(lock_wait_timeout_ms))?;
        Ok(Code::Ok)
    }

    /// [`Code::LockTimeout`] if a prepared transaction that no session holds has changed the table:
    /// a copy that replaces the table would lose its changes. What such transactions have changed
    /// is read once. It waits for so many milliseconds for another session that reads it, or that
    /// has adopted one.
    fn hf_table_check_unprepared(database: *const Database, name: Slice, lock_wait_timeout_ms: u64) {
        let wait = Duration::from_millis(lock_wait_timeout_ms);
        take!(shared(database))?.0.check_unprepared(take!(name.text())?, wait)?;
        Ok(Code::Ok)
    }

    /// Calls `each` with the name of every table and what `hf_table_definition` says of it.
    fn hf_table_list(
        database: *const Database,
        each: Option<extern "C" fn(context: *mut c_void, name: Slice, definition: Slice)>,
        context: *mut c_void,
    ) {
        if let Some(each) = each {
            for (name, definition) in take!(shared(database))?.0.tables() {
                each(context, Slice::of(name.as_bytes()), Slice::of(&definition));
            }
        }
        Ok(Code::Ok)
    }

    /// Reads all pages of a table and checks its trees, and if `entries`, that the entries of its
    /// indexes lead to rows; calls `each` with whatever is wrong. [`Code::SnapshotTooOld`] if not
    /// all entries were looked at, since the snapshots for that were given up.
    fn hf_table_verify(
        database: *const Database,
        name: Slice,
        entries: bool,
        each: Option<extern "C" fn(context: *mut c_void, finding: Slice)>,
        context: *mut c_void,
    ) {
        let options = VerifyOptions::new().table(take!(name.text())?).entries(entries);
        let report = take!(shared(database))?.0.database().verify(&options, &mut |_| {})?;
        for finding in report.findings.into_iter().chain(report.refused) {
            if let Some(each) = each {
                each(context, Slice::of(finding.what.as_bytes()));
            }
        }
        if report.not_compared.is_empty() { Ok(Code::Ok) } else { Err(Error::SnapshotTooOld) }
    }

    /// The next value of a mark; nothing is taken.
    fn hf_mark_get(table: *const Table, mark: Mark, out: *mut u64) {
        let next = take!(shared(table))?.0.mark(mark as usize);
        take!(put(out, next));
        Ok(Code::Ok)
    }

    /// Takes `count` values; `out` gets the first. Fails when there are not so many left.
    fn hf_mark_take(table: *const Table, mark: Mark, count: u64, out: *mut u64) {
        let first = take!(shared(table))?.0.take_mark(mark as usize, count)?;
        take!(put(out, first));
        Ok(Code::Ok)
    }

    /// Sees to it that the next value is at least `next`. After a crash it is larger by `ahead` at
    /// most.
    fn hf_mark_raise(table: *const Table, mark: Mark, next: u64, ahead: u64) {
        take!(shared(table))?.0.raise_mark(mark as usize, next, ahead)?;
        Ok(Code::Ok)
    }

    /// Sets the next value, also downwards. Unless the table is temporary, that is durable.
    fn hf_mark_set(table: *const Table, mark: Mark, next: u64) {
        take!(shared(table))?.0.set_mark(mark as usize, next)?;
        Ok(Code::Ok)
    }

    /// The name of secondary index `index`, valid while the table is open; [`Code::NotFound`] if
    /// there is none.
    fn hf_index_name(table: *const Table, index: u32, out: *mut Slice) {
        let Some(name) = take!(shared(table))?.0.index_name(index) else { return Ok(Code::NotFound) };
        take!(put(out, Slice::of(name.as_bytes())));
        Ok(Code::Ok)
    }

    /// About how many entries index `index` of the table has.
    fn hf_table_rows(table: *const Table, index: u32, out: *mut u64) {
        let rows = take!(shared(table))?.0.rows(index)?;
        take!(put(out, rows));
        Ok(Code::Ok)
    }

    /// Bytes of the pages that its indexes and large values have.
    fn hf_table_bytes(table: *const Table, out: *mut u64) {
        let bytes = take!(shared(table))?.0.used_bytes()?;
        take!(put(out, bytes));
        Ok(Code::Ok)
    }

    /// About how many leaves index `index` has.
    fn hf_index_leaves(table: *const Table, index: u32, out: *mut u64) {
        let leaves = take!(shared(table))?.0.leaves(index)?;
        take!(put(out, leaves));
        Ok(Code::Ok)
    }

    /// Calls `each` with the keys of at most `leaves` leaves of an index, spread evenly over it;
    /// `first` says that a leaf begins.
    fn hf_index_sample(
        table: *const Table,
        index: u32,
        leaves: usize,
        each: Option<extern "C" fn(context: *mut c_void, key: Slice, first: bool)>,
        context: *mut c_void,
    ) {
        if let Some(each) = each {
            take!(shared(table))?.0.sample(index, leaves, &mut |keys| {
                for (i, key) in keys.iter().enumerate() {
                    each(context, Slice::of(key), i == 0);
                }
            })?;
        }
        Ok(Code::Ok)
    }

    /// Puts the first key of an index from `from` on into `out`; [`Code::NotFound`] if there is
    /// none.
    fn hf_index_first_key(table: *const Table, index: u32, from: Slice, out: *mut Buffer) {
        let out = &mut take!(exclusive(out))?.0;
        let found = take!(shared(table))?.0.first_key(index, take!(from.bytes()), out)?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// About how many entries lie in `[from, to)`; an end without bytes is open.
    fn hf_estimate(table: *const Table, index: u32, from: Slice, to: Slice, out: *mut u64) {
        let (from, to) = (take!(from.bytes()), take!(to.bytes()));
        let to = if to.is_empty() { Bound::Unbounded } else { Bound::Excluded(to) };
        let rows = take!(shared(table))?.0.estimate(index, Bound::Included(from), to)?;
        take!(put(out, rows));
        Ok(Code::Ok)
    }
}
