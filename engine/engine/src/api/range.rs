//! Going through rows: [`Range`], an iterator of owned rows from both ends, and [`Cursor`], which
//! fills buffers.

use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::Bound;

use holdfast_txn::Direction;

use crate::instance::options::{ReadOptions, WaitMode};
use crate::rows::definition::{decode_key, decode_value};
use crate::rows::encoding::{Row, encode_key, undecodable};
use crate::rows::types::{Key, Value};
use crate::schema::handle::{TableHandle, TableRef};
use crate::session::transaction::{LockKind, RawCursor, RowAt, Transaction};
use crate::{Error, Result};

/// The rows of a range, from both ends; made by [`crate::ReadTable::range`]. Nothing comes after an
/// error.
///
/// It holds no page and no latch between items, so it may live as long as its transaction, and
/// thousands of them may be open. Rows that the same write transaction adds ahead of it will be
/// seen.
pub struct Range<'t, K: Key, V: Value> {
    ends: Ends<'t>,
    types: PhantomData<fn() -> (K, V)>,
}

/// A range of byte strings from both ends. Each end has its own cursor, made when it is first
/// asked; they meet where one would pass the last key that the other gave.
pub(crate) struct Ends<'t> {
    transaction: &'t Transaction,
    pub handle: TableRef<'t>,
    options: ReadOptions,
    lock: Option<(LockKind, WaitMode)>,
    index: Option<usize>,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    front: Option<RawCursor<'t>>,
    back: Option<RawCursor<'t>>,
    /// The last key given from the front, and from the back.
    given: (Option<Vec<u8>>, Option<Vec<u8>>),
    done: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl<'t> Ends<'t> {
    pub(crate) fn new(
        transaction: &'t Transaction,
        handle: TableRef<'t>,
        index: Option<usize>,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        options: &ReadOptions,
        lock: Option<(LockKind, WaitMode)>,
    ) -> Ends<'t> {
        let done = is_empty(&bounds);
        let (options, given) = (*options, (None, None));
        let (key, value) = (Vec::new(), Vec::new());
        Ends { transaction, handle, options, lock, index, bounds, front: None, back: None, given, done, key, value }
    }

    fn cursor(&self) -> RawCursor<'t> {
        match self.index {
            None => RawCursor::new(self.transaction, self.handle.clone(), &self.options, self.lock),
            Some(no) => RawCursor::on_index(self.transaction, self.handle.clone(), no, &self.options),
        }
    }

    /// A cursor at the end that `direction` starts at.
    fn sought(&self, direction: Direction) -> Result<RawCursor<'t>> {
        let (from, to) = (self.bounds.0.as_ref().map(Vec::as_slice), self.bounds.1.as_ref().map(Vec::as_slice));
        let mut cursor = self.cursor();
        cursor.seek(from, to, direction)?;
        Ok(cursor)
    }

    /// Ends the range, after an error of what the caller makes of it.
    pub(crate) fn end(&mut self) {
        self.done = true;
    }

    /// The next key and value from the end that `direction` starts at.
    pub(crate) fn step(&mut self, direction: Direction) -> Result<Option<(&[u8], &[u8])>> {
        Ok(self.moves(direction, None)?.then_some((&self.key, &self.value)))
    }

    /// The next entry of an index from the end that `direction` starts at. Replaces the content of
    /// `row` by the row that it leads to, of the same moment.
    pub(crate) fn step_to_row(
        &mut self,
        direction: Direction,
        row_at: RowAt<'_>,
        row: &mut Vec<u8>,
    ) -> Result<Option<&[u8]>> {
        Ok(self.moves(direction, Some((row_at, row)))?.then_some(&self.key))
    }

    fn moves(&mut self, direction: Direction, to_row: Option<(RowAt<'_>, &mut Vec<u8>)>) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        // Also after a panic of the program's code on the way: without its cursor the range would
        // begin again.
        self.done = true;
        let found = self.advance(direction, to_row);
        if !matches!(found, Ok(true)) {
            return found;
        }
        self.done = false;
        let last = match direction {
            Direction::Forward => &mut self.given.0,
            Direction::Reverse => &mut self.given.1,
        };
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&self.key);
        Ok(true)
    }

    /// Moves one cursor; false when the range is through.
    fn advance(&mut self, direction: Direction, to_row: Option<(RowAt<'_>, &mut Vec<u8>)>) -> Result<bool> {
        let (own, other) = match direction {
            Direction::Forward => (self.front.take(), &self.back),
            Direction::Reverse => (self.back.take(), &self.front),
        };
        // Both ends are of one statement: they see the same also at READ COMMITTED.
        let other = other.as_ref().filter(|_| !holdfast_base::planted!("ends-see-two-moments"));
        let own = own.or_else(|| other.and_then(RawCursor::turned));
        let mut cursor = match own {
            Some(cursor) => cursor,
            None => self.sought(direction)?,
        };
        let found = match to_row {
            Some((row_at, row)) => cursor.next_row(row_at, &mut self.key, row)?,
            None => cursor.next(&mut self.key, &mut self.value)?,
        };
        let slot = match direction {
            Direction::Forward => &mut self.front,
            Direction::Reverse => &mut self.back,
        };
        *slot = Some(cursor);
        Ok(found && !self.met(direction))
    }

    /// True if the key just read was given by the other end already.
    fn met(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.given.1.as_ref().is_some_and(|k| self.key.cmp(k) != Ordering::Less),
            Direction::Reverse => self.given.0.as_ref().is_some_and(|k| self.key.cmp(k) != Ordering::Greater),
        }
    }
}

/// True if no key can lie within `bounds`.
fn is_empty(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    use Bound::{Excluded, Included, Unbounded};
    match (&bounds.0, &bounds.1) {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Included(to) | Excluded(to)) => from >= to,
    }
}

impl<'t, K: Key, V: Value> Range<'t, K, V> {
    pub(crate) fn new(
        transaction: &'t Transaction,
        handle: TableRef<'t>,
        bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
        options: &ReadOptions,
        lock: Option<(LockKind, WaitMode)>,
    ) -> Range<'t, K, V> {
        Range { ends: Ends::new(transaction, handle, None, bounds, options, lock), types: PhantomData }
    }

    fn step(&mut self, direction: Direction) -> Option<Result<Row<K, V>>> {
        let handle = self.ends.handle.clone();
        let found = match self.ends.step(direction) {
            Ok(None) => return None,
            Ok(Some((key, value))) => decode_row::<K, V>(&handle, key, value),
            Err(error) => Err(error),
        };
        Some(found.inspect_err(|_| self.ends.end()))
    }
}

fn decode_row<K: Key, V: Value>(handle: &TableHandle, key: &[u8], value: &[u8]) -> Result<Row<K, V>> {
    let key = decode_key::<K>(key).ok_or_else(|| undecodable::<K>(&handle.name, "key"))?;
    let value = decode_value::<V>(value).ok_or_else(|| undecodable::<V>(&handle.name, "value"))?;
    Ok((key, value))
}

impl<K: Key, V: Value> Iterator for Range<'_, K, V> {
    type Item = Result<Row<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Reverse)
    }
}

impl<K: Key, V: Value> FusedIterator for Range<'_, K, V> {}

impl<K: Key, V: Value> fmt::Debug for Range<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range({})", self.ends.handle.name.clone())
    }
}

/// A position in a table that fills the caller's buffers with encoded keys and values.
///
/// ```
/// # use holdfast::{Database, Error, ReadOptions, TableDefinition};
/// # const T: TableDefinition<u64, &str> = TableDefinition::new("t");
/// # let db = Database::in_memory()?;
/// # db.transact(|txn| txn.open_table(&T)?.insert(1, "one"))?;
/// let txn = db.begin_read()?;
/// let table = txn.open_table(&T)?;
/// let mut cursor = table.cursor(&ReadOptions::new());
/// let (mut key, mut value, mut bytes) = (Vec::new(), Vec::new(), 0);
/// cursor.seek(..)?;
/// while cursor.next_into(&mut key, &mut value)? {
///     bytes += value.len();
/// }
/// assert_eq!(bytes, 3);
/// # Ok::<(), Error>(())
/// ```
pub struct Cursor<'t, K: Key, V: Value> {
    raw: RawCursor<'t>,
    positioned: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'t, K: Key, V: Value> Cursor<'t, K, V> {
    pub(crate) fn new(raw: RawCursor<'t>) -> Cursor<'t, K, V> {
        Cursor { raw, positioned: false, types: PhantomData }
    }

    /// Stands before the first row of `range`; the cursor then goes up.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::get`].
    pub fn seek<'k>(&mut self, range: impl std::ops::RangeBounds<K::Ref<'k>>) -> Result<()> {
        self.position(&range, Direction::Forward)
    }

    /// Stands behind the last row of `range`; the cursor then goes down.
    ///
    /// # Errors
    /// The errors of [`crate::ReadTable::get`].
    pub fn seek_rev<'k>(&mut self, range: impl std::ops::RangeBounds<K::Ref<'k>>) -> Result<()> {
        self.position(&range, Direction::Reverse)
    }

    fn position<'k>(&mut self, range: &impl std::ops::RangeBounds<K::Ref<'k>>, direction: Direction) -> Result<()> {
        let from = range.start_bound().map(|key| encode_key::<K>(*key));
        let to = range.end_bound().map(|key| encode_key::<K>(*key));
        self.positioned = false;
        self.raw.seek(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice), direction)?;
        self.positioned = true;
        Ok(())
    }

    /// Replaces the contents of `key` and `value` by the next row in the direction of the last
    /// seek; false at the end of the range. After an error the cursor has no position: a seek that
    /// begins behind the last row goes on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] without a position; as [`crate::ReadTable::get`].
    pub fn next_into(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<bool> {
        if !self.positioned {
            return Err(Error::invalid("the cursor has no position; call seek or seek_rev first"));
        }
        let found = self.raw.next(key, value);
        if found.is_err() {
            self.positioned = false;
        }
        found
    }
}

impl<K: Key, V: Value> fmt::Debug for Cursor<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("positioned", &self.positioned).finish_non_exhaustive()
    }
}
