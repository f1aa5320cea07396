//! What the device does not return (EIO) is a finding of its table, and a check goes on with the
//! other tables, as a compaction does. Both ended at the first such page, with an error that named
//! no table.

use std::sync::Arc;

use holdfast::{Database, TableDefinition, VerifyOptions, VerifyReport};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

fn check(db: &Database) -> VerifyReport {
    db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap()
}

/// A database with two tables of which the cache has nothing, and the file of `rows`.
fn opened() -> (FaultDisk, Database, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 2_000);
    db.transact(|txn| (0..2_000).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    let file = db.list_tables().iter().find(|table| table.name == "rows").unwrap().file.clone();
    db.close().unwrap();
    let disk = FaultDisk::new(Arc::new(disk));
    let db = common::small().warm_up(false).disk(Arc::new(disk.clone())).open("test").unwrap();
    (disk, db, file)
}

#[test]
fn a_table_that_cannot_be_read_is_named_and_the_others_are_checked() {
    for nth in [1, 2, 5, 20] {
        let (disk, db, file) = opened();
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(file.as_str()).sticky());
        let report = check(&db);
        assert!(!report.is_clean() && report.findings.iter().all(|f| f.table == "rows"), "{:?}", report.findings);
        assert!(report.findings.iter().any(|f| f.what.contains(&file)), "{:?}", report.findings);
        assert!(report.rows >= 2_000, "{} rows: the other table was not checked", report.rows);
        disk.clear();
        let report = check(&db);
        assert!(report.is_clean(), "{:?}", report.findings);
        let txn = db.begin_read().unwrap();
        assert_eq!(txn.open_table(&ROWS).unwrap().iter().unwrap().count(), 2_000);
    }
}

#[test]
fn what_is_read_at_the_second_attempt_is_sound() {
    for nth in [1, 2, 5, 20] {
        let (disk, db, file) = opened();
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(file.as_str()));
        let report = check(&db);
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

#[test]
fn a_compaction_leaves_the_table_out() {
    let (disk, db, file) = opened();
    disk.schedule(Fault::nth(FaultOp::Read, 1).on(file.as_str()).sticky());
    let report = db.compact().unwrap();
    assert!(matches!(&report.left_out[..], [left] if left.table == "rows" && left.what.contains(&file)), "{report:?}");
}

/// The check ended with the error of the write, and no table behind this one was checked.
#[test]
fn a_table_that_cannot_be_written_is_named_and_the_others_are_checked() {
    let (disk, db, file) = opened();
    db.transact(|txn| txn.open_table(&ROWS)?.update(7, &common::value(7)).map(drop)).unwrap();
    disk.schedule(Fault::nth(FaultOp::Write, 1).on(file.as_str()).sticky());
    let report = check(&db);
    assert!(
        matches!(&report.findings[..], [found] if found.table == "rows" && found.what.contains(&file)),
        "{report:?}"
    );
    assert_eq!(report.rows, 4_000);
    disk.clear();
    common::assert_sound(&db);
}
