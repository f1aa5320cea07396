//! Rows of tables without types, as a server writes them: a row key and an index key are numbers of
//! four bytes, and the value of an index entry begins with the length of the index key.

use std::ops::Bound;

use holdfast::raw::{RawDatabase, RawOptions, RawRead, RawTable, RawTransaction};
use holdfast::{Isolation, Result};

/// Keys and values, in the order of the keys.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// As a server's session begins: changes act on the newest version.
pub const OPTIONS: RawOptions =
    RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };

/// A transaction with [`OPTIONS`].
pub fn begin(db: &RawDatabase) -> RawTransaction {
    db.begin(&OPTIONS).unwrap()
}

/// The same at `isolation`.
pub fn begin_at(db: &RawDatabase, isolation: Isolation) -> RawTransaction {
    db.begin(&RawOptions { isolation, ..OPTIONS }).unwrap()
}

/// The key of the entry of `row` under `index_key`.
pub fn entry(index_key: u32, row: u32) -> Vec<u8> {
    [index_key.to_be_bytes(), row.to_be_bytes()].concat()
}

/// The value of an entry that covers these bytes.
pub fn covering(covered: &[u8]) -> Vec<u8> {
    [&[4][..], covered].concat()
}

/// Inserts a row, and its entry in the first index.
pub fn insert(txn: &mut RawTransaction, table: &RawTable, row: u32, value: &[u8], index_key: u32) -> Result<()> {
    txn.insert(table, 0, &row.to_be_bytes(), value)?;
    txn.insert(table, 1, &entry(index_key, row), &covering(b""))
}

/// What the transaction sees of an index; 0: the rows.
pub fn read(txn: &mut RawTransaction, table: &RawTable, index: u32) -> Result<Entries> {
    let mut cursor = txn.cursor(table, index, (Bound::Unbounded, Bound::Unbounded), RawRead::default())?;
    let mut found = Entries::new();
    while let Some((key, value)) = cursor.next()? {
        found.push((key.to_vec(), value.to_vec()));
    }
    Ok(found)
}
