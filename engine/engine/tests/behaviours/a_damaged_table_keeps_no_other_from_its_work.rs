//! An unfinished transaction has changed a table, one of whose pages is damaged: it cannot be
//! rolled back to its end. Opening, purge, changes of definitions, checks and compaction go on in
//! all other tables, the transaction's rows there are free, and it ends when the damaged table is
//! dropped.

use std::time::{Duration, Instant};

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::metrics::{Counter, Gauge};
use holdfast::raw::{IndexSource, Lifetime, RawDatabase};
use holdfast::{Database, TableDefinition, VerifyOptions};

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

/// Damages a leaf in the middle of a table's file.
fn damage(disk: &MemoryDisk, file: &str) {
    // It would repair the pages that were written last.
    let _ = disk.remove("doublewrite");
    let data = disk.open(file, OpenOptions::new(FileKind::Data)).unwrap();
    let is_leaf = |page: &u64| {
        let mut header = [0; 64];
        data.read_at(page * 4096, &mut header).unwrap();
        header[12] == 3 && header[13] == 0
    };
    let leaf = (3..data.len().unwrap() / 4096).filter(is_leaf).nth(5).expect("the table has leaves");
    let mut byte = [0];
    data.read_at(leaf * 4096 + 2_000, &mut byte).unwrap();
    data.write_at(leaf * 4096 + 2_000, &[byte[0] ^ 0x10]).unwrap();
}

/// A database in which an unfinished transaction has changed `other` and every row of `rows`, a
/// leaf of which is damaged. An index of the table `raw` was about to be added.
fn damaged() -> (MemoryDisk, Database) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 2_000);
    db.transact(|txn| (0..200).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    let raw = RawDatabase::new(db.clone());
    raw.create_table("raw", &[], b"", Lifetime::Lasting).unwrap();
    let file = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    let open = db.begin_write().unwrap();
    open.open_table(&OTHER).unwrap().update(7, "never committed").unwrap();
    let rows = open.open_table(&ROWS).unwrap();
    (0..2_000).for_each(|i| assert!(rows.update(i, "x").unwrap()));
    std::mem::forget(raw.begin_alter("raw", &[("second", false)], false, common::WAIT).unwrap());
    db.close().unwrap();
    drop((open, raw));
    let disk = common::copy(&disk);
    damage(&disk, &file);
    let db = common::open_on(&disk);
    (disk, db)
}

/// Waits until the background has done something.
fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn rows_of_other_tables_are_free_and_are_purged() {
    let (_disk, db) = damaged();
    db.transact(|txn| txn.open_table(&OTHER)?.update(7, "changed").map(drop)).unwrap();
    let snapshot = db.begin_read().unwrap();
    assert_eq!(snapshot.open_table(&OTHER).unwrap().get(8).unwrap().as_deref(), Some("fine"));
    for key in 0..100 {
        db.transact(|txn| txn.open_table(&OTHER)?.delete(key).map(drop)).unwrap();
    }
    drop(snapshot);
    wait_until("purge has stopped", || db.metrics_snapshot().gauge(Gauge::HistoryListLength) == 0);
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(!report.is_clean() && report.findings.iter().all(|f| f.table == "rows"), "{:?}", report.findings);
}

#[test]
fn definitions_of_other_tables_change() {
    let (_disk, db) = damaged();
    let raw = RawDatabase::new(db.clone());
    let mut alter = raw.begin_alter("raw", &[("second", false)], false, common::WAIT).unwrap();
    alter.finish().unwrap();
    alter.become_table(&[IndexSource::Added(0)], b"new").unwrap();
    raw.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    raw.truncate_table("raw", common::WAIT).unwrap();
    db.rename_table("other", "renamed").unwrap();
    db.drop_table("renamed").unwrap();
    db.compact().unwrap();
}

#[test]
fn the_transaction_ends_with_the_damaged_table() {
    let (disk, db) = damaged();
    // The row is undone, or its table cannot be used any more: no session waits for the rest.
    let changed = db.transact(|txn| txn.open_table(&ROWS)?.upsert(0, "new").map(drop));
    changed.unwrap_or_else(|error| assert!(error.is_damage(), "{error}"));
    let rollbacks = || db.metrics_snapshot().get(Counter::TrxRollbacks);
    let before = rollbacks();
    db.drop_table("rows").unwrap();
    wait_until("it does not end", || rollbacks() > before);
    common::fill(&db, 0, 10);
    db.close().unwrap();
    let db = common::open_on(&common::copy(&disk));
    assert_eq!(db.metrics_snapshot().get(Counter::TrxRecovered), 0);
    common::assert_sound(&db);
}
