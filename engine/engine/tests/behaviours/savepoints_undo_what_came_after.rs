//! Savepoints and statements that fail as a whole.

use holdfast::{Database, Error, IndexDefinition, TableDefinition};

use crate::common::{self, ROWS};

#[test]
fn rolling_back_to_a_savepoint_keeps_what_came_before() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    rows.update(1, "before").unwrap();
    let outer = txn.savepoint().unwrap();
    rows.update(1, "between").unwrap();
    rows.insert(20, "between").unwrap();
    let inner = txn.savepoint().unwrap();
    rows.delete(1).unwrap();
    rows.insert(21, "after").unwrap();

    txn.rollback_to(&inner).unwrap();
    assert_eq!(rows.get(1).unwrap().as_deref(), Some("between"));
    assert_eq!(rows.get(21).unwrap(), None);
    rows.insert(22, "after").unwrap();
    txn.rollback_to(&outer).unwrap();
    assert_eq!(rows.get(1).unwrap().as_deref(), Some("before"));
    assert_eq!((rows.get(20).unwrap(), rows.get(22).unwrap()), (None, None));
    assert!(matches!(txn.rollback_to(&inner), Err(Error::InvalidArgument(_))));
    // A savepoint may be used again.
    rows.insert(23, "x").unwrap();
    txn.rollback_to(&outer).unwrap();
    rows.insert(24, "kept").unwrap();
    txn.commit().unwrap();

    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    assert_eq!(rows.iter().unwrap().count(), 11);
    assert_eq!(rows.get(24).unwrap().as_deref(), Some("kept"));
}

/// Their transactions once had the same number, and each savepoint too.
#[test]
fn a_savepoint_of_another_database_is_refused() {
    let databases = [(); 2].map(|()| Database::in_memory().unwrap());
    databases.iter().for_each(|db| common::fill(db, 0, 1));
    let [here, there] = [&databases[0], &databases[1]].map(|db| db.begin_write().unwrap());
    let place = there.savepoint().unwrap();
    here.open_table(&ROWS).unwrap().insert(7, "kept").unwrap();
    let own = here.savepoint().unwrap();
    assert!(matches!(here.rollback_to(&place), Err(Error::InvalidArgument(_))));
    here.rollback_to(&own).unwrap();
    here.commit().unwrap();
    assert!(databases[0].begin_read().unwrap().open_table(&ROWS).unwrap().contains(7).unwrap());
}

#[test]
fn a_failed_statement_leaves_no_half_effect() {
    const FIRST: IndexDefinition<u64, (u64, u64), u64> =
        IndexDefinition::unique("first", |_: &u64, v: &(u64, u64), keys| keys.push(v.0));
    const SECOND: IndexDefinition<u64, (u64, u64), u64> =
        IndexDefinition::unique("second", |_: &u64, v: &(u64, u64), keys| keys.push(v.1));
    let table = TableDefinition::<u64, (u64, u64)>::new("t").index(&FIRST).index(&SECOND);
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table).unwrap();
    rows.insert(1, (10, 100)).unwrap();
    rows.insert(2, (20, 200)).unwrap();
    // The first index has room for the row, the second has not.
    assert!(matches!(rows.insert(3, (30, 200)), Err(Error::DuplicateKey)));
    assert!(matches!(rows.update(1, (11, 200)), Err(Error::DuplicateKey)));
    assert!(matches!(rows.upsert(1, (12, 200)), Err(Error::DuplicateKey)));
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table).unwrap();
    let keys = rows.index(&FIRST).unwrap().keys(..).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(keys, [(10, 1), (20, 2)]);
    assert_eq!(rows.get(1).unwrap(), Some((10, 100)));
    common::assert_sound(&db);
}
