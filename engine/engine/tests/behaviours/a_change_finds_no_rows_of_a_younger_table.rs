//! A table that was created after the snapshot of a transaction does not exist for it: it cannot
//! read the table, and a change that looks for rows fails as a read does. Rows with which the table
//! was created were changed all the same, since they are no transaction's with which the change
//! could conflict.

use std::cell::Cell;

use holdfast::{Database, Error, Result, TableDefinition};

use crate::common::ROWS;

const LOADED: TableDefinition<u64, u64> = TableDefinition::new("loaded");

fn load(db: &Database) -> Result<()> {
    db.create_table_with(&LOADED, |table| table.push(1, 10))
}

#[test]
fn whether_there_is_one_or_not() {
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    assert_eq!(txn.open_table(&ROWS).unwrap().get(1).unwrap(), None);
    load(&db).unwrap();
    let table = txn.open_table(&LOADED).unwrap();
    assert!(matches!(table.get(1), Err(Error::SnapshotTooOld)));
    for key in [1, 2] {
        for changed in [table.update(key, 20), table.upsert(key, 20), table.delete(key)] {
            assert!(matches!(changed, Err(Error::SnapshotTooOld)), "{key}: {changed:?}");
        }
    }
    // That looks for none, and the transaction goes on.
    table.insert(3, 30).unwrap();
    drop(table);
    txn.commit().unwrap();
    let rows = db.begin_read().unwrap().open_table(&LOADED).unwrap().iter().unwrap().collect::<Result<Vec<_>>>();
    assert_eq!(rows.unwrap(), [(1, 10), (3, 30)]);
}

#[test]
fn and_transact_begins_again() {
    let db = Database::in_memory().unwrap();
    let attempts = Cell::new(0);
    db.transact(|txn| {
        attempts.set(attempts.get() + 1);
        txn.open_table(&ROWS)?.get(1)?;
        if attempts.get() == 1 {
            load(&db)?;
        }
        assert!(txn.open_table(&LOADED)?.update(1, 20)?);
        Ok(())
    })
    .unwrap();
    assert_eq!(attempts.get(), 2);
}
