//! Sums of rows and of index entries: what a check of a table larger than the cache compares first,
//! since it reads each page once.

use std::sync::Arc;

use crate::Result;
use crate::rows::definition::IndexSpec;
use crate::rows::entries;
use crate::rows::entry_sum::EntrySum;
use crate::schema::handle::TableHandle;
use crate::session::transaction::Transaction;

/// True if an index has other entries than the rows give.
pub(crate) fn differ(transaction: &Transaction, table: &TableHandle, specs: &[Arc<IndexSpec>]) -> Result<bool> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let txns = &transaction.instance().txns;
    let mut given = vec![EntrySum::default(); specs.len()];
    let mut cursor = transaction.row_cursor(table)?;
    while cursor.next(&mut key, &mut value)? {
        txns.check_session()?;
        for (spec, given) in specs.iter().zip(&mut given) {
            for index_key in spec.keys(&key, &value)? {
                let (entry, length) = entries::entry(&index_key, &key);
                given.add(&entry, &length);
            }
        }
    }
    for (no, given) in given.iter().enumerate() {
        let mut there = EntrySum::default();
        let mut cursor = transaction.index_cursor(table, no)?;
        while cursor.next(&mut key, &mut value)? {
            txns.check_session()?;
            there.add(&key, &value);
        }
        if there != *given {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The indexes that do not have exactly one entry for each row. Of the others every entry leads to
/// a row.
pub(crate) fn unpaired(transaction: &Transaction, table: &TableHandle) -> Result<Vec<usize>> {
    let indexes = 0..table.record.indexes.len();
    if indexes.is_empty() {
        return Ok(Vec::new());
    }
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let txns = &transaction.instance().txns;
    let mut rows = EntrySum::default();
    let mut cursor = transaction.row_cursor(table)?;
    while cursor.next(&mut key, &mut value)? {
        txns.check_session()?;
        rows.add(&key, &[]);
    }
    let mut unpaired = Vec::new();
    for no in indexes {
        let (mut led_to, mut is_sound) = (EntrySum::default(), true);
        let mut cursor = transaction.index_cursor(table, no)?;
        while is_sound && cursor.next(&mut key, &mut value)? {
            txns.check_session()?;
            match entries::split_entry(&key, &value) {
                Some((_, row_key)) => led_to.add(row_key, &[]),
                None => is_sound = false,
            }
        }
        if !is_sound || led_to != rows {
            unpaired.push(no);
        }
    }
    Ok(unpaired)
}
