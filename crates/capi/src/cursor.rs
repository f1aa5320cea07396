//! Cursors over the entries of an index.

use std::sync::Arc;

use crate::handle::{Slice, close, entry_points, exclusive, give, put, shared, take};
use crate::raw::EntrySum;
use crate::{Code, Lock, Table, Transaction, raw};

/// A position in an index of a table, with buffers of its own. It holds no page between calls.
pub struct Cursor {
    raw: raw::Cursor,
}

/// An entry that a cursor shows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its key.
    pub key: Slice,
    /// Its value.
    pub value: Slice,
}

/// Where a cursor is to go.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Seek {
    /// Lower end of the range; open if it has no bytes and `from_included`.
    pub from: Slice,
    /// Upper end of the range; open if it has no bytes.
    pub to: Slice,
    /// Whether `from` itself belongs to the range.
    pub from_included: bool,
    /// Whether `to` itself belongs to the range.
    pub to_included: bool,
    /// From the upper end downwards.
    pub backward: bool,
    /// Passes over what others have locked.
    pub skip_locked: bool,
    /// It is known to be a scan: a dump, a copy.
    pub scan: bool,
    /// The heads of large values do, where nothing is locked.
    pub head_only: bool,
    /// At READ COMMITTED, what others have locked is given as it was committed last, and not waited
    /// for.
    pub committed_if_locked: bool,
    /// What is read gets locked.
    pub lock: Lock,
}

entry_points! {
    /// Opens a cursor on index `index` of a table.
    fn hf_cursor_open(table: *const Table, index: u32, out: *mut *mut Cursor) {
        let raw = raw::Cursor::new(Arc::clone(&take!(shared(table))?.0), index)?;
        take!(give(out, Cursor { raw }))?;
        Ok(Code::Ok)
    }

    /// Gives up the cursor's position, its bytes and what it holds of its transaction: a snapshot,
    /// and locks on what it did not reach. To be called before the transaction ends; the cursor can
    /// be used again.
    fn hf_cursor_release(cursor: *mut Cursor) {
        take!(exclusive(cursor))?.raw.release();
        Ok(Code::Ok)
    }

    /// Gives up the lock of the entry given last, as `hf_unlock` does.
    fn hf_cursor_unlock(cursor: *mut Cursor) {
        take!(exclusive(cursor))?.raw.unlock();
        Ok(Code::Ok)
    }

    /// Closes a cursor.
    fn hf_cursor_close(cursor: *mut Cursor) {
        drop(take!(close(cursor)));
        Ok(Code::Ok)
    }

    /// Stands before the first entry of a range, in its direction.
    fn hf_cursor_seek(cursor: *mut Cursor, transaction: *mut Transaction, seek: *const Seek) {
        let (cursor, seek) = (take!(exclusive(cursor))?, take!(shared(seek))?);
        let (from, to) = (take!(seek.from.bytes()), take!(seek.to.bytes()));
        cursor.raw.seek(&mut take!(exclusive(transaction))?.0, from, to, seek)?;
        Ok(Code::Ok)
    }

    /// Whether the entry given last is locked by others: `committed_if_locked`.
    fn hf_cursor_is_given_unlocked(cursor: *const Cursor, out: *mut bool) {
        let cursor = take!(shared(cursor))?;
        take!(put(out, cursor.raw.is_given_unlocked()));
        Ok(Code::Ok)
    }

    /// Waits for the lock of such an entry and gives it as it is then; [`Code::NotFound`] if it is
    /// gone.
    fn hf_cursor_lock_given(cursor: *mut Cursor, key: *mut Slice, value: *mut Slice) {
        let Some((found, content)) = take!(exclusive(cursor))?.raw.lock_given()? else { return Ok(Code::NotFound) };
        take!(put(key, Slice::of(found)));
        take!(put(value, Slice::of(content)));
        Ok(Code::Ok)
    }

    /// The next entry; [`Code::NotFound`] at the end of the range.
    fn hf_cursor_next(cursor: *mut Cursor, key: *mut Slice, value: *mut Slice) {
        let Some((found, content)) = take!(exclusive(cursor))?.raw.next()? else { return Ok(Code::NotFound) };
        take!(put(key, Slice::of(found)));
        take!(put(value, Slice::of(content)));
        Ok(Code::Ok)
    }

    /// Shows entries that `hf_cursor_next` would give: as many as can be shown at once, `max` at
    /// most, those behind the first `passed` of what was shown before, which count as given. They
    /// are good until the next call, and as long as `hf_cursor_changes` stays the same. With none,
    /// it is `hf_cursor_next` that knows why; it must not be called before those that were shown
    /// have been passed.
    fn hf_cursor_look_ahead(cursor: *mut Cursor, passed: usize, out: *mut Entry, max: usize, count: *mut usize) {
        let cursor = take!(exclusive(cursor))?;
        let (mut to, max) = (out, if out.is_null() { 0 } else { max });
        let shown = cursor.raw.look_ahead(passed, max, |key, value| {
            take!(put(to, Entry { key: Slice::of(key), value: Slice::of(value) }));
            to = to.wrapping_add(1);
        })?;
        take!(put(count, shown));
        Ok(Code::Ok)
    }

    /// Adds an entry to the sum of a set of entries.
    fn hf_entry_sum_add(sum: *mut EntrySum, key: Slice, value: Slice) {
        take!(exclusive(sum))?.add(take!(key.bytes()), take!(value.bytes()));
        Ok(Code::Ok)
    }
}

/// A number that grows with every change that the cursor's transaction makes or undoes.
///
/// # Safety
/// [The rules](crate#rules).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hf_cursor_changes(cursor: *const Cursor) -> u64 {
    take!(shared(cursor)).map_or(0, |cursor| cursor.raw.changes())
}
