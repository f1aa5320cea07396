//! A prepared transaction keeps the tables that it has changed as they are, also while another
//! session has adopted it to end it.

use std::sync::Arc;
use std::time::Duration;

use holdfast::io::MemoryDisk;
use holdfast::raw::{IndexSource, Lifetime, RawDatabase};
use holdfast::{Error, FlushAtCommit};

use crate::common;
use crate::common::rows::begin;

/// For how long a change waits that is to be refused.
const SHORT: Duration = Duration::from_millis(50);

/// A database with the tables `t`, changed by the prepared transaction `x` whose session has gone,
/// and `other`.
fn with_prepared() -> RawDatabase {
    let settings = common::small().lock_wait_timeout(SHORT);
    let db = RawDatabase::new(settings.disk(Arc::new(MemoryDisk::new())).create("test").unwrap());
    for name in ["t", "other"] {
        db.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
        let (table, mut txn) = (db.open_table(name).unwrap(), begin(&db));
        (0..100u32).for_each(|i| txn.insert(&table, 0, &i.to_be_bytes(), b"row").unwrap());
        txn.commit(FlushAtCommit::Sync).unwrap();
    }
    let (table, mut prepared) = (db.open_table("t").unwrap(), begin(&db));
    (100..110u32).for_each(|i| prepared.insert(&table, 0, &i.to_be_bytes(), b"row").unwrap());
    prepared.prepare(b"x", FlushAtCommit::Sync).unwrap();
    db
}

/// Every change of a definition, tried on `table`.
fn changes(db: &RawDatabase, table: &str) -> Vec<Result<(), Error>> {
    let add_index = || {
        let mut alter = db.begin_alter(table, &[("second", false)], false, SHORT)?;
        alter.finish()?;
        alter.become_table(&[IndexSource::Added(0)], b"new")?;
        db.commit_alters(&mut [&mut alter], &[], SHORT)
    };
    vec![
        add_index(),
        db.truncate_table(table, SHORT),
        db.rename_table(table, "renamed", &[]),
        db.check_unprepared(table, SHORT),
        db.database().drop_table(table),
    ]
}

fn assert_kept(db: &RawDatabase) {
    for result in changes(db, "t") {
        assert!(matches!(result, Err(Error::LockTimeout)), "{result:?}");
    }
}

#[test]
fn no_definition_changes_while_the_transaction_waits_or_is_adopted() {
    let db = with_prepared();
    assert_kept(&db);
    let adopted = db.adopt(b"x").unwrap();
    assert_kept(&db);
    drop(adopted);
    assert_kept(&db);
}

#[test]
fn other_tables_change_meanwhile() {
    let db = with_prepared();
    let _adopted = db.adopt(b"x").unwrap();
    db.truncate_table("other", common::WAIT).unwrap();
    db.rename_table("other", "renamed", &[]).unwrap();
    db.database().drop_table("renamed").unwrap();
}

#[test]
fn the_table_is_free_once_the_transaction_has_ended() {
    for commits in [true, false] {
        let db = with_prepared();
        let mut adopted = db.adopt(b"x").unwrap();
        if commits { adopted.commit(FlushAtCommit::Sync) } else { adopted.txn().rollback() }.unwrap();
        db.truncate_table("t", common::WAIT).unwrap();
        db.database().drop_table("t").unwrap();
    }
}
