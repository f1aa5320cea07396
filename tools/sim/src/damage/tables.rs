//! The tables of a trial: two with typed rows, a unique index and one that is not, and one whose
//! entries are made by its user.

use std::ops::Bound;
use std::time::Duration;

use holdfast::raw::{Direction, RawDatabase, RawOptions, RawRead, RawTable, RawTransaction};
use holdfast::{Error, IndexDefinition, Isolation, ReadTransaction, Result, TableDefinition};

use super::model::word;

const BY_BUCKET: IndexDefinition<&str, &str, &str> =
    IndexDefinition::new("by_bucket", |_: &String, v: &String, keys| keys.push(word(v, 1)));
const BY_TAG: IndexDefinition<&str, &str, &str> =
    IndexDefinition::unique("by_tag", |_: &String, v: &String, keys| keys.push(word(v, 0)));

/// For how long anything waits for a lock.
pub const LOCK_WAIT: Duration = Duration::from_millis(100);

/// A typed table.
#[must_use]
pub fn definition(name: &str) -> TableDefinition<&'static str, &'static str> {
    TableDefinition::named(name).index(&BY_TAG).index(&BY_BUCKET)
}

/// Keys and values in the order in which they were read.
pub type Read = Vec<(String, String)>;

/// The ways to all rows of a typed table.
pub const TYPED_PATHS: [&str; 6] =
    ["rows", "rows backwards", "by_tag", "by_tag backwards", "by_bucket", "by_bucket backwards"];
/// The ways to all rows of a raw table.
pub const RAW_PATHS: [&str; 4] = ["rows", "rows backwards", "entries", "entries backwards"];

/// Why there are no rows to be judged.
#[derive(Debug)]
pub enum Trouble {
    /// The engine's own words.
    Error(Error),
    /// What was read contradicts itself, and the engine has said nothing.
    Content(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

/// Reads all rows of a typed table along one of [`TYPED_PATHS`].
///
/// # Errors
/// The errors of the engine; an entry that its row does not give.
pub fn read_typed(txn: &ReadTransaction, name: &str, path: usize) -> Result<Read, Trouble> {
    let table = txn.open_table(&definition(name))?;
    let through = |index: &IndexDefinition<&'static str, &'static str, &'static str>, n, backwards| {
        let range = table.index(index)?.range(..)?;
        let see = |item: Result<(String, String, String)>| {
            let (index_key, key, value) = item?;
            if word(&value, n) != index_key {
                let what = format!("the entry {index_key} leads to the row {key}, which does not give it");
                return Err(Trouble::Content(what));
            }
            Ok((key, value))
        };
        if backwards { range.rev().map(see).collect::<Result<Read, _>>() } else { range.map(see).collect() }
    };
    let own = |item: Result<(String, String)>| item.map_err(Trouble::from);
    match path {
        0 => table.iter()?.map(own).collect(),
        1 => table.iter()?.rev().map(own).collect(),
        2 | 3 => through(&BY_TAG, 0, path == 3),
        _ => through(&BY_BUCKET, 1, path == 5),
    }
}

/// A transaction over raw tables.
///
/// # Errors
/// The errors of the engine.
pub fn begin_raw(db: &RawDatabase) -> Result<RawTransaction> {
    let mut txn =
        db.begin(&RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false })?;
    txn.statement(LOCK_WAIT)?;
    Ok(txn)
}

/// Key and value of the entry that a raw row has in the index of its table.
#[must_use]
pub fn raw_entry(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    let bucket = word(value, 1);
    ([bucket.as_bytes(), key.as_bytes()].concat(), vec![bucket.len() as u8])
}

/// Puts a raw row with its entry.
///
/// # Errors
/// The errors of the engine.
pub fn insert_raw(txn: &mut RawTransaction, table: &RawTable, key: &str, value: &str) -> Result<()> {
    txn.insert(table, 0, key.as_bytes(), value.as_bytes())?;
    let (entry, length) = raw_entry(key, value);
    txn.insert(table, 1, &entry, &length)
}

/// Removes a raw row with its entry.
///
/// # Errors
/// The errors of the engine.
pub fn delete_raw(txn: &mut RawTransaction, table: &RawTable, key: &str, value: &str) -> Result<()> {
    txn.delete(table, 0, key.as_bytes())?;
    txn.delete(table, 1, &raw_entry(key, value).0).map(drop)
}

/// Reads all rows, or entries, of a raw table along one of [`RAW_PATHS`]. Entries are read with
/// the rows that they lead to.
///
/// # Errors Those of the engine; an entry without a row, or one that its row does not give, or
/// bytes that are no text.
pub fn read_raw(txn: &mut RawTransaction, table: &RawTable, path: usize) -> Result<Read, Trouble> {
    let mismatch = Trouble::Content;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| mismatch("bytes that are no text".into()));
    let direction = if path.is_multiple_of(2) { Direction::Forward } else { Direction::Reverse };
    let index = u32::from(path >= 2);
    let read = RawRead { direction, ..RawRead::default() };
    let mut cursor = txn.cursor(table, index, (Bound::Unbounded, Bound::Unbounded), read)?;
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        found.push((key.to_vec(), value.to_vec()));
    }
    drop(cursor);
    if index == 0 {
        return found.into_iter().map(|(key, value)| Ok((text(&key)?, text(&value)?))).collect();
    }
    let mut rows = Read::new();
    for (entry, length) in found {
        let begin = usize::from(*length.first().unwrap_or(&0));
        let key = text(entry.get(begin..).unwrap_or_default())?;
        let mut row = Vec::new();
        if !txn.get(table, 0, key.as_bytes(), None, &mut row)? {
            return Err(mismatch(format!("an entry leads to the row {key}, which is not there")));
        }
        let row = text(&row)?;
        if raw_entry(&key, &row) != (entry, length) {
            return Err(mismatch(format!("an entry leads to the row {key}, which does not give it")));
        }
        rows.push((key, row));
    }
    Ok(rows)
}
