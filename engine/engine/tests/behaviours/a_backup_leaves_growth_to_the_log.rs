//! A table that grows more quickly than it is copied was copied for ever: the end of its file was
//! looked for anew with each piece. The log that goes with the copy has the pages that come
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast::io::MemoryDisk;
use holdfast::{BackupOptions, Database};

use crate::common::{self, ROWS};

/// Rows that take more than what is copied at a time.
const ROWS_AT_ONCE: u64 = 1_000;
/// So many times the table grows at most.
const MANY: u64 = 60;

fn grow(db: &Database, time: u64) {
    let value = "x".repeat(1_500);
    let ids = time * ROWS_AT_ONCE..(time + 1) * ROWS_AT_ONCE;
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        ids.clone().try_for_each(|id| rows.upsert(id, &value).map(drop))
    })
    .unwrap();
}

#[test]
fn and_ends_beside_a_table_that_grows_more_quickly() {
    let (_disk, db) = common::on_memory_disk();
    grow(&db, 0);
    db.checkpoint().unwrap();
    let (growing, times) = (db.clone(), Arc::new(AtomicU64::new(1)));
    let counted = Arc::clone(&times);
    let target = MemoryDisk::new();
    let options = BackupOptions::new().disk(Arc::new(target.clone())).on_progress(move |_| {
        let time = counted.load(Ordering::Relaxed);
        if time < MANY {
            grow(&growing, time);
            counted.store(time + 1, Ordering::Relaxed);
        }
    });
    db.backup("copy", &options).unwrap();
    let times = times.load(Ordering::Relaxed);
    assert!(times < MANY, "the backup went on as long as the table grew");
    let copy = common::open_on(&target);
    let found = copy.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count() as u64;
    assert_eq!(found, times * ROWS_AT_ONCE);
    common::assert_sound(&copy);
}
