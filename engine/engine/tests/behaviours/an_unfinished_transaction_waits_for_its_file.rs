//! The file of a table cannot be opened for once, and an unfinished transaction has changed the
//! table. The rollback passed over the table as over one that was dropped, and freed the undo log:
//! when the file could be opened again, rows were there that were never committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast::io::MemoryDisk;
use holdfast::metrics::Counter;
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, FlushAtCommit, TableDefinition};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::rows::begin;
use crate::common::{self, ROWS, copy};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn file_of(db: &Database, table: &str) -> String {
    db.list_tables().into_iter().find(|info| info.name == table).unwrap().file
}

/// What a kill leaves of a database with a transaction that had changed two tables, behind a
/// checkpoint; and the file of `rows`.
fn killed() -> (MemoryDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(1, "committed")).unwrap();
    let txn = db.begin_write().unwrap();
    txn.open_table(&ROWS).unwrap().update(7, "never committed").unwrap();
    txn.open_table(&ROWS).unwrap().insert(1_000, "never committed").unwrap();
    txn.open_table(&OTHER).unwrap().update(1, "never committed").unwrap();
    db.checkpoint().unwrap();
    (copy(&disk), file_of(&db, "rows"))
}

/// Has everything rolled back that can be.
fn roll_back(db: &Database) {
    db.create_table(&TableDefinition::<u64, &str>::new("third")).unwrap();
    db.drop_table("third").unwrap();
}

fn other_is_whole(db: &Database) {
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&OTHER).unwrap().get(1).unwrap().as_deref(), Some("committed"));
}

#[test]
fn and_is_rolled_back_when_it_can_be_opened() {
    let (killed, file) = killed();
    let faults = FaultDisk::new(Arc::new(killed));
    faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
    let db = common::open_on(&faults);
    roll_back(&db);
    other_is_whole(&db);
    db.transact(|txn| txn.open_table(&OTHER)?.insert(2, "it is free")).unwrap();
    db.close().unwrap();
    faults.clear();
    let db = common::open_on(&faults);
    roll_back(&db);
    common::assert_filled(&db, 0, 100);
    other_is_whole(&db);
    common::assert_sound(&db);
}

#[test]
fn and_ends_when_the_table_is_dropped() {
    let (killed, file) = killed();
    let faults = FaultDisk::new(Arc::new(killed));
    faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
    let db = common::open_on(&faults);
    roll_back(&db);
    let rollbacks = || db.metrics_snapshot().get(Counter::TrxRollbacks);
    let (before, begun) = (rollbacks(), Instant::now());
    db.drop_table("rows").unwrap();
    while rollbacks() == before {
        assert!(begun.elapsed() < Duration::from_secs(120), "the transaction does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    db.close().unwrap();
    faults.clear();
    let db = common::open_on(&faults);
    assert_eq!(db.metrics_snapshot().get(Counter::TrxRecovered), 0, "the transaction has ended");
    other_is_whole(&db);
    common::assert_sound(&db);
}

/// A prepared one is not committed in one table and undone in others.
#[test]
fn and_so_does_a_prepared_one_that_is_rolled_back() {
    let (disk, db) = common::on_memory_disk();
    let db = RawDatabase::new(db);
    ["rows", "other"].iter().for_each(|name| db.create_table(name, &[], b"", Lifetime::Lasting).unwrap());
    let mut txn = begin(&db);
    ["rows", "other"].iter().for_each(|name| txn.insert(&db.open_table(name).unwrap(), 0, b"key", b"value").unwrap());
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    db.database().checkpoint().unwrap();
    let (faults, file) = (FaultDisk::new(Arc::new(copy(&disk))), file_of(db.database(), "rows"));
    faults.schedule(Fault::nth(FaultOp::Open, 1).on(&file).sticky());
    let db = RawDatabase::new(common::open_on(&faults));
    let error = db.adopt(b"xid").unwrap().txn().rollback().unwrap_err();
    assert!(error.to_string().contains(&file), "{error}");
    db.close().unwrap();
    faults.clear();
    let db = RawDatabase::new(common::open_on(&faults));
    roll_back(db.database());
    for name in ["rows", "other"] {
        let (table, mut txn) = (db.open_table(name).unwrap(), begin(&db));
        assert!(common::rows::read(&mut txn, &table, 0).unwrap().is_empty(), "{name}");
    }
    common::assert_sound(db.database());
}
