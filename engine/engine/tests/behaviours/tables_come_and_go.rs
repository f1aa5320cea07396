//! Create, rename, drop: at run time, beside transactions, and with the space given back at once.

use std::time::Duration;

use holdfast::io::Disk;
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, Error, TableDefinition, WriteOptions};

use crate::common::{self, ROWS};

fn files(disk: &impl Disk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with('t') && name.ends_with(".hf")).collect()
}

#[test]
fn a_dropped_table_gives_its_file_back() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 2_000);
    let keep = TableDefinition::<u64, u64>::new("keep");
    db.transact(|txn| txn.open_table(&keep)?.insert(1, 1)).unwrap();
    assert_eq!(files(&disk).len(), 2);
    db.drop_table("rows").unwrap();
    assert_eq!(files(&disk).len(), 1);
    assert!(matches!(db.drop_table("rows"), Err(Error::TableNotFound(_))));
    assert!(matches!(db.begin_read().unwrap().open_table(&ROWS), Err(Error::TableNotFound(_))));
    // The name is free, and the new table is empty.
    common::fill(&db, 0, 10);
    common::assert_filled(&db, 0, 10);
    db.close().unwrap();
    let db = common::open_on(&disk);
    common::assert_filled(&db, 0, 10);
    common::assert_sound(&db);
}

#[test]
fn a_snapshot_keeps_a_dropped_table_until_it_ends() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 500);
    let before = db.begin_read().unwrap();
    db.drop_table("rows").unwrap();
    assert_eq!(files(&disk).len(), 1);
    assert_eq!(before.open_table(&ROWS).unwrap().iter().unwrap().count(), 500);
    drop(before);
    assert_eq!(files(&disk).len(), 0);
}

#[test]
fn dropping_waits_for_transactions_that_write_to_the_table() {
    let db = common::small().lock_wait_timeout(Duration::from_millis(20)).in_memory().unwrap();
    common::fill(&db, 0, 10);
    let txn = db.begin_write().unwrap();
    txn.open_table(&ROWS).unwrap().delete(1).unwrap();
    assert!(matches!(db.drop_table("rows"), Err(Error::LockTimeout)));
    txn.rollback().unwrap();
    db.drop_table("rows").unwrap();
}

#[test]
fn a_renamed_table_keeps_its_rows() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    let other = TableDefinition::<u64, &str>::new("other");
    db.create_table(&other).unwrap();
    assert!(matches!(db.rename_table("rows", "other"), Err(Error::TableExists(_))));
    assert!(matches!(db.rename_table("none", "some"), Err(Error::TableNotFound(_))));
    assert!(matches!(db.rename_table("rows", ""), Err(Error::InvalidArgument(_))));
    let id = db.list_tables().iter().find(|t| t.name == "rows").unwrap().table_id;
    db.rename_table("rows", "moved").unwrap();
    assert!(matches!(db.create_table(&other), Err(Error::TableExists(_))));
    let check = |db: &Database| {
        let tables = db.list_tables();
        assert_eq!(tables.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["moved", "other"]);
        assert_eq!(tables[0].table_id, id);
        let moved = TableDefinition::<u64, &str>::new("moved");
        assert_eq!(db.begin_read().unwrap().open_table(&moved).unwrap().iter().unwrap().count(), 100);
    };
    check(&db);
    drop(db);
    check(&common::open_on(&disk));
}

#[test]
fn many_threads_may_create_the_same_table() {
    let db = Database::in_memory().unwrap();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let db = db.clone();
            scope.spawn(move || db.transact(|txn| txn.open_table(&ROWS)?.insert(i, "mine")).unwrap());
        }
    });
    assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count(), 8);
    assert_eq!(db.list_tables().len(), 1);
}

#[test]
fn a_table_name_may_have_a_thousand_and_twenty_three_bytes() {
    let db = common::small().page_size(4096).in_memory().unwrap();
    let long = TableDefinition::<u64, u64>::new("n".repeat(1023).leak());
    db.transact(|txn| txn.open_table(&long)?.insert(1, 1)).unwrap();
    assert_eq!(db.begin_read().unwrap().open_table(&long).unwrap().get(1).unwrap(), Some(1));
    let longer = TableDefinition::<u64, u64>::new("n".repeat(1024).leak());
    assert!(matches!(db.create_table(&longer), Err(Error::InvalidArgument(_))));
}

/// A transaction knows the definitions with which it began; a table of these that has been dropped
/// was once not there for it, and could not be created.
#[test]
fn a_transaction_that_began_before_a_drop_opens_what_there_is() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    let [first, second, third] = [(); 3].map(|()| db.begin_write().unwrap());
    db.drop_table("rows").unwrap();
    assert!(first.list_tables().is_empty());
    first.open_table(&ROWS).unwrap().insert(1, "in a new table").unwrap();
    assert_eq!(first.list_tables(), ["rows"]);
    first.commit().unwrap();
    second.open_table(&ROWS).unwrap().insert(2, "beside it").unwrap();
    second.commit().unwrap();
    // Of another type by now.
    db.drop_table("rows").unwrap();
    db.create_table(&TableDefinition::<&str, u64>::new("rows")).unwrap();
    assert!(matches!(third.open_table(&ROWS), Err(Error::TableMismatch { .. })));
    third.open_table(&TableDefinition::<&str, u64>::new("rows")).unwrap().insert("a", 1).unwrap();
    third.commit().unwrap();
    assert_eq!(db.begin_write().unwrap().list_tables(), ["rows"]);
    common::assert_sound(&db);
}

/// While a drop waits for a writer, others were told that there is no such table, also if the drop
/// then came to nothing.
#[test]
fn a_transaction_waits_for_a_drop_that_is_under_way() {
    let [brief, patient] = [1, 60_000].map(|ms| WriteOptions::new().lock_wait_timeout(Duration::from_millis(ms)));
    for drop_waits in [Duration::from_millis(300), Duration::from_secs(60)] {
        let comes_to_nothing = drop_waits < Duration::from_secs(1);
        let db = common::small().lock_wait_timeout(drop_waits).in_memory().unwrap();
        common::fill(&db, 0, 10);
        let writer = db.begin_write().unwrap();
        writer.open_table(&ROWS).unwrap().upsert(1, "mine").unwrap();
        std::thread::scope(|scope| {
            let dropping = scope.spawn(|| db.drop_table("rows"));
            let open_briefly = || db.begin_write_with(&brief).unwrap().open_table(&ROWS).map(drop);
            // Until the drop keeps others out, or has given up.
            while !dropping.is_finished() && !matches!(open_briefly(), Err(Error::LockTimeout)) {}
            let other = scope.spawn(|| db.transact_with(&patient, |txn| txn.open_table(&ROWS)?.get(2)));
            if comes_to_nothing {
                assert!(matches!(dropping.join().unwrap(), Err(Error::LockTimeout)));
                writer.commit().unwrap();
            } else {
                writer.commit().unwrap();
                dropping.join().unwrap().unwrap();
            }
            assert_eq!(other.join().unwrap().unwrap().is_some(), comes_to_nothing);
        });
        common::assert_sound(&db);
    }
}

/// There was a table of the old name, too, that no catalog had: with it the file of both went.
#[test]
fn a_renamed_table_gets_options_by_its_new_name_only() {
    let (disk, db) = common::on_memory_disk();
    let db = RawDatabase::new(db);
    db.create_table("a", &[], b"old", Lifetime::Lasting).unwrap();
    assert!(matches!(db.rename_table("a", "b", &[("a", b"new")]), Err(Error::TableNotFound(_))));
    db.rename_table("a", "b", &[("b", b"new")]).unwrap();
    assert!(matches!(db.drop_table("a", common::WAIT), Err(Error::TableNotFound(_))));
    assert_eq!((db.tables(), files(&disk).len()), (vec![(String::from("b"), b"new".to_vec())], 1));
    db.close().unwrap();
    common::assert_sound(&common::open_on(&disk));
}
