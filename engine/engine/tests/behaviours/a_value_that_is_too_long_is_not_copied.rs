//! A value longer than the limit is refused by its length, before any of its bytes is looked at: it
//! took twelve seconds to copy one.

use holdfast::limits::VALUE_LEN_MAX;
use holdfast::{Database, Error, TableDefinition};

const VALUES: TableDefinition<u64, &[u8]> = TableDefinition::new("values");

#[test]
fn it_is_refused_by_its_length() {
    let Ok(len) = usize::try_from(VALUE_LEN_MAX + 1) else { return };
    // Pages of zeros that no read or write has made real.
    let value = vec![0; len];
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let table = txn.open_table(&VALUES).unwrap();
    table.insert(2, b"short").unwrap();
    for refused in [table.insert(1, &value), table.upsert(1, &value).map(drop), table.update(2, &value).map(drop)] {
        assert!(matches!(refused, Err(Error::ValueTooLong { .. })));
    }
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&VALUES).unwrap().get(2).unwrap().as_deref(), Some(&b"short"[..]));
}

/// Nor is a field of one.
#[test]
fn a_field_that_is_too_long_is_not_copied() {
    const FIELDS: TableDefinition<u64, (u64, Option<&[u8]>, &str)> = TableDefinition::new("fields");
    let Ok(len) = usize::try_from(VALUE_LEN_MAX + 1) else { return };
    let value = vec![0; len];
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let refused = txn.open_table(&FIELDS).unwrap().insert(1, (1, Some(&value), "text"));
    // The error has the least length that the value can have, which is known before the copy.
    assert!(matches!(refused, Err(Error::ValueTooLong { len, .. }) if len == VALUE_LEN_MAX + 6), "{refused:?}");
}
