//! Cursors over the entries of an index.

use std::ops::Bound;
use std::sync::Arc;

use holdfast::raw::{Direction, Part, RawRead, RawTable, RowCursor, ScanMode};

use crate::handle::{Slice, close, entry_points, exclusive, give, put, shared, take};
use crate::{Code, Lock, Table, Transaction};

/// A position in an index of a table, with buffers of its own. It holds no page between calls.
pub struct Cursor {
    table: Arc<RawTable>,
    index: u32,
    /// What it reads, once it has a range.
    rows: Option<RowCursor>,
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
    /// True if `from` itself belongs to the range.
    pub from_included: bool,
    /// True if `to` itself belongs to the range.
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

impl Seek {
    /// The range, of keys that are `from` and `to`.
    fn range<'k>(&self, from: &'k [u8], to: &'k [u8]) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
        let from = match (from.is_empty(), self.from_included) {
            (true, true) => Bound::Unbounded,
            (false, true) => Bound::Included(from),
            // An empty key that does not belong to the range leaves out a row under the empty key.
            (_, false) => Bound::Excluded(from),
        };
        let to = match (to.is_empty(), self.to_included) {
            (true, _) => Bound::Unbounded,
            (false, true) => Bound::Included(to),
            (false, false) => Bound::Excluded(to),
        };
        (from, to)
    }

    fn how(&self) -> RawRead {
        RawRead {
            direction: if self.backward { Direction::Reverse } else { Direction::Forward },
            lock: self.lock.of_read(self.skip_locked),
            scan: if self.scan { ScanMode::Declared } else { ScanMode::Auto },
            part: if self.head_only { Part::Head } else { Part::Whole },
            committed_if_locked: self.committed_if_locked,
        }
    }
}

/// How many entries there are and what their hashes add up to, in any order: sets that are not the
/// same have other sums, but for a chance of 2^-64. It begins with zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EntrySum {
    /// Entries.
    pub count: u64,
    /// The sum of their hashes, modulo 2^64.
    pub hashes: u64,
}

entry_points! {
    /// Opens a cursor on index `index` of a table.
    fn hf_cursor_open(table: *const Table, index: u32, out: *mut *mut Cursor) {
        let table = Arc::clone(&take!(shared(table))?.0);
        table.rows(index)?;
        take!(give(out, Cursor { table, index, rows: None }))?;
        Ok(Code::Ok)
    }

    /// Gives up the cursor's position, its bytes and what it holds of its transaction: a snapshot,
    /// and locks on what it did not reach. To be called before the transaction ends; the cursor can
    /// be used again.
    fn hf_cursor_release(cursor: *mut Cursor) {
        take!(exclusive(cursor))?.rows = None;
        Ok(Code::Ok)
    }

    /// Gives up the lock of the entry given last, as `hf_unlock` does.
    fn hf_cursor_unlock(cursor: *mut Cursor) {
        if let Some(rows) = &mut take!(exclusive(cursor))?.rows {
            rows.unlock();
        }
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
        // The old cursor gives back what it had locked ahead.
        cursor.rows = None;
        let range = seek.range(take!(seek.from.bytes()), take!(seek.to.bytes()));
        let transaction = take!(exclusive(transaction))?;
        cursor.rows = Some(transaction.raw.cursor(&cursor.table, cursor.index, range, seek.how())?);
        Ok(Code::Ok)
    }

    /// Whether the entry given last is locked by others: `committed_if_locked`.
    fn hf_cursor_is_given_unlocked(cursor: *const Cursor, out: *mut bool) {
        let cursor = take!(shared(cursor))?;
        take!(put(out, cursor.rows.as_ref().is_some_and(RowCursor::is_given_unlocked)));
        Ok(Code::Ok)
    }

    /// Waits for the lock of such an entry and gives it as it is then; [`Code::NotFound`] if it is
    /// gone.
    fn hf_cursor_lock_given(cursor: *mut Cursor, key: *mut Slice, value: *mut Slice) {
        let Some(rows) = &mut take!(exclusive(cursor))?.rows else { return Ok(Code::NotFound) };
        let Some((found, content)) = rows.lock_given()? else { return Ok(Code::NotFound) };
        take!(put(key, Slice::of(found)));
        take!(put(value, Slice::of(content)));
        Ok(Code::Ok)
    }

    /// The next entry; [`Code::NotFound`] at the end of the range.
    fn hf_cursor_next(cursor: *mut Cursor, key: *mut Slice, value: *mut Slice) {
        let Some(rows) = &mut take!(exclusive(cursor))?.rows else { return Ok(Code::NotFound) };
        let Some((found, content)) = rows.next()? else { return Ok(Code::NotFound) };
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
        let show = |key: &[u8], value: &[u8]| {
            take!(put(to, Entry { key: Slice::of(key), value: Slice::of(value) }));
            to = to.wrapping_add(1);
        };
        let rows = cursor.rows.as_mut();
        let shown = rows.map_or(Ok(0), |rows| rows.look_ahead(passed, max, show))?;
        take!(put(count, shown));
        Ok(Code::Ok)
    }

    /// Adds an entry to the sum of a set of entries.
    fn hf_entry_sum_add(sum: *mut EntrySum, key: Slice, value: Slice) {
        let sum = take!(exclusive(sum))?;
        let mut new = holdfast::raw::EntrySum { count: sum.count, hashes: sum.hashes };
        new.add(take!(key.bytes()), take!(value.bytes()));
        *sum = EntrySum { count: new.count, hashes: new.hashes };
        Ok(Code::Ok)
    }
}

/// A number that grows with every change that the cursor's transaction makes or undoes.
///
/// # Safety
/// [The rules](crate#rules).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hf_cursor_changes(cursor: *const Cursor) -> u64 {
    take!(shared(cursor)).map_or(0, |cursor| cursor.rows.as_ref().map_or(0, RowCursor::changes))
}
