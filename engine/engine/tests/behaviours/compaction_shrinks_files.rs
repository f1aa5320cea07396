//! Files of tables that lost most of their rows get smaller, beside readers and writers.

use std::cell::Cell;

use holdfast::TableDefinition;

use crate::common::{self, ROWS};

#[test]
fn after_most_rows_are_gone() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 30_000);
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        for i in 0..30_000 {
            if i % 20 != 0 {
                rows.delete(i)?;
            }
        }
        Ok(())
    })
    .unwrap();
    let size = |db: &holdfast::Database| db.stats().tables[0].file_bytes;
    let before = size(&db);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..200u64).for_each(|i| db.transact(|t| t.open_table(&ROWS)?.upsert(i * 20, "y").map(drop)).unwrap())
        });
        scope.spawn(|| {
            for _ in 0..5 {
                let txn = db.begin_read().unwrap();
                assert_eq!(
                    txn.open_table(&ROWS).unwrap().iter().unwrap().try_fold(0, |n, row| row.map(|_| n + 1)).unwrap(),
                    1_500
                );
            }
        });
        db.compact().unwrap();
    });
    let report = db.compact().unwrap();
    assert!(size(&db) * 3 < before, "{before} bytes before, {} after: {report:?}", size(&db));
    common::assert_sound(&db);
    drop(db);
    let db = common::open_on(&disk);
    assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count(), 1_500);
    common::assert_sound(&db);
}

/// The file of a table that was dropped before its turn came counted afterwards, and not before.
#[test]
fn a_table_that_is_dropped_meanwhile_counts_neither_before_nor_afterwards() {
    let (_disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 3_000);
    db.create_table(&TableDefinition::<u64, u64>::new("a table")).unwrap();
    let is_dropped = Cell::new(false);
    let report = db.compact_with(&|at| {
        if at.table == "a table" && !is_dropped.replace(true) {
            db.drop_table("rows").unwrap();
        }
    });
    let report = report.unwrap();
    assert!(is_dropped.get() && report.bytes_before > 0);
    assert!(report.bytes_after <= report.bytes_before, "{report:?}");
}
