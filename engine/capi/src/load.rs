//! Filling a new table, without undo.

use std::time::Duration;

use holdfast::raw::{NewValue, RawLoad};

use crate::handle::{Slice, array, check_out, close, each_exclusive, entry_points, exclusive, give, put, shared, take};
use crate::{Buffer, Code, Database, Table};

/// A table that is being filled.
pub struct Load(RawLoad);

entry_points! {
    /// Begins to fill a table that is empty and that the caller alone uses; [`Code::Invalid`] if it
    /// is not empty. If the load fails, the table is to be dropped.
    fn hf_load_begin(table: *const Table, out: *mut *mut Load) {
        check_out(out)?;
        let load = RawLoad::new(&take!(shared(table))?.0)?;
        take!(give(out, Load(load)))?;
        Ok(Code::Ok)
    }

    /// Begins to make a table anew: what is pushed becomes, with `hf_load_replace`, the table of
    /// this name, with the same indexes and marks. No transaction writes to the table until the
    /// load ends; it waits for those that do for so many milliseconds. Until it has replaced the
    /// table, that stays as it was, whatever becomes of the load.
    fn hf_load_begin_anew(table: *const Table, lock_wait_timeout_ms: u64, out: *mut *mut Load) {
        check_out(out)?;
        let wait = Duration::from_millis(lock_wait_timeout_ms);
        let load = RawLoad::anew(&take!(shared(table))?.0, wait)?;
        take!(give(out, Load(load)))?;
        Ok(Code::Ok)
    }

    /// Takes an entry of an index. The first `prefix` bytes of its key, or all of them, have to be
    /// unique. For `head` see `hf_insert`. [`Code::DuplicateKey`] may come now, or later for an
    /// earlier entry.
    fn hf_load_push(load: *mut Load, index: u32, key: Slice, prefix: usize, value: Slice, head: usize) {
        let value = NewValue::with_head(take!(value.bytes()), head);
        take!(exclusive(load))?.0.push(index, take!(key.bytes()), prefix, value)?;
        Ok(Code::Ok)
    }

    /// Completes the table. One that is made anew has yet to take its place.
    fn hf_load_finish(load: *mut Load) {
        take!(exclusive(load))?.0.finish()?;
        Ok(Code::Ok)
    }

    /// The entry that was refused with [`Code::DuplicateKey`]; [`Code::NotFound`] if none was.
    fn hf_load_duplicate(load: *const Load, index: *mut u32, key: *mut Slice, value: *mut Slice) {
        let Some(duplicate) = take!(shared(load))?.0.duplicate() else { return Ok(Code::NotFound) };
        take!(put(index, duplicate.index));
        take!(put(key, Slice::of(&duplicate.key)));
        take!(put(value, Slice::of(&duplicate.value)));
        Ok(Code::Ok)
    }

    /// Puts the row under `key` that was pushed to a load which has failed into `out`;
    /// [`Code::NotFound`] if there is none. If that is so because a row is there a second time,
    /// too, `hf_load_duplicate` gives this row from now on. The load cannot go on.
    fn hf_load_row(load: *mut Load, key: Slice, out: *mut Buffer) {
        let found = take!(exclusive(load))?.0.row(take!(key.bytes()), &mut take!(exclusive(out))?.0)?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// Has tables that `hf_load_begin_anew` began, and that are complete, take their places, all of
    /// them or none, each with what is to be kept with it from now on. The caller is the only user
    /// of the tables. Their handles have to be opened again.
    fn hf_load_replace(
        database: *const Database,
        loads: *const *mut Load,
        definitions: *const Slice,
        count: usize,
    ) {
        let (handles, definitions) = (take!(array(loads, count)), take!(array(definitions, count)));
        let mut changes: Vec<_> = take!(each_exclusive(handles))?.into_iter().map(|load| &mut load.0).collect();
        let kept: Vec<_> = definitions.iter().map(|definition| take!(definition.bytes())).collect();
        take!(shared(database))?.0.replace_by(&mut changes, &kept)?;
        Ok(Code::Ok)
    }

    /// Ends a load. Without `hf_load_finish` before, the table stays empty; without
    /// `hf_load_replace`, one that is made anew stays as it was.
    fn hf_load_free(load: *mut Load) {
        drop(take!(close(load)));
        Ok(Code::Ok)
    }
}
