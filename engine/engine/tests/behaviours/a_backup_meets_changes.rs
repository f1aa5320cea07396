//! What others do while a backup is taken neither keeps it from its end nor from being opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use holdfast::io::MemoryDisk;
use holdfast::{BackupOptions, Database, FlushAtCommit, TableDefinition, WriteOptions};
use holdfast_testkit::HookedDisk;

use crate::common::{self, ROWS};

/// The log was copied until there was nothing left of it: as long as it grew more quickly than it
/// was copied, the backup went on, and in the end without letting any definition be changed.
#[test]
fn it_ends_beside_writers_that_are_quicker() {
    const MANY: u64 = 50_000;
    let (_disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 500);
    db.checkpoint().unwrap();
    db.transact(|txn| txn.open_table(&ROWS)?.update(1, &common::value(1))).unwrap();
    let (writer, written) = (db.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&written);
    // For each group that is copied there are several new ones.
    let target = HookedDisk::default();
    target.on_write(move |name| {
        if name.starts_with("wal.") && counted.load(Ordering::Relaxed) < MANY {
            let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Write);
            let key = counted.fetch_add(1, Ordering::Relaxed) % 500;
            let change = writer.transact_with(&options, |txn| txn.open_table(&ROWS)?.update(key, &common::value(key)));
            change.unwrap();
        }
    });
    db.backup("copy", &BackupOptions::new().disk(Arc::new(target.clone()))).unwrap();
    let during = written.swap(MANY, Ordering::Relaxed);
    assert!(during < MANY, "the backup went on as long as there were changes");
    let copy = common::open_on(&target);
    common::assert_filled(&copy, 0, 500);
    common::assert_sound(&copy);
}

/// A page of the catalog that had become free was copied as it was read, torn by a write under way.
/// The log that goes with the copy had records of it: the copy did not open.
#[test]
fn a_free_page_is_copied_whole() {
    let torn = Arc::new(AtomicBool::new(false));
    let tears = Arc::clone(&torn);
    let disk = HookedDisk::default();
    disk.on_read(move |name, buf| {
        if name == "system.hf" && tears.load(Ordering::Relaxed) {
            // All pages but those that manage the others.
            for page in buf.chunks_exact_mut(4096).filter(|page| matches!(page[12], 0 | 3)) {
                page[2048..].fill(0xee);
            }
        }
    });
    let db = common::create_on(&disk);
    let table = |n: u64| TableDefinition::<u64, u64>::named(format!("a table with quite a long name, number {n:04}"));
    (0..150).for_each(|n| db.create_table(&table(n)).unwrap());
    let free = |db: &Database| db.stats().spaces.iter().find(|space| space.space_id == 0).unwrap().free_pages;
    db.checkpoint().unwrap();
    let before = free(&db);
    (0..140).for_each(|n| db.drop_table(table(n).name()).unwrap());
    while free(&db) <= before {
        std::thread::yield_now();
    }
    torn.store(true, Ordering::Relaxed);
    let target = MemoryDisk::new();
    db.backup("copy", &BackupOptions::new().disk(Arc::new(target.clone()))).unwrap();
    let copy = common::open_on(&target);
    assert_eq!(copy.list_tables().len(), 10);
    common::assert_sound(&copy);
}

fn remove(db: &Database, from: u64, to: u64) {
    for first in (from..to).step_by(500) {
        let end = (first + 500).min(to);
        db.transact(|txn| {
            let rows = txn.open_table(&ROWS)?;
            (first..end).try_for_each(|i| rows.delete(i).map(drop))
        })
        .unwrap();
    }
}

/// Between two pieces of the copy a compaction moves pages to the front of the file and cuts it;
/// then it grows again. The log of the copy has records of pages that the copy does not have.
#[test]
fn a_compaction_beside_it_costs_the_copy_nothing() {
    const ALL: u64 = 40_000;
    const KEPT: u64 = 2_000;
    for at in 1..8 {
        let (_disk, db) = common::on_memory_disk();
        common::fill(&db, 0, ALL);
        db.checkpoint().unwrap();
        let (calls, changed) = (AtomicU64::new(0), db.clone());
        let options = BackupOptions::new().on_progress(move |_| {
            let call = calls.fetch_add(1, Ordering::Relaxed) + 1;
            if call < at || call > at + 2 {
                return;
            }
            match call - at {
                0 => {
                    remove(&changed, KEPT, ALL);
                    changed.compact().unwrap();
                }
                1 => common::fill(&changed, KEPT, ALL / 2),
                _ => {
                    remove(&changed, KEPT, ALL / 2);
                    changed.compact().unwrap();
                    common::fill(&changed, KEPT, KEPT + 3_000);
                }
            }
        });
        let target = MemoryDisk::new();
        db.backup("copy", &options.disk(Arc::new(target.clone()))).unwrap();
        let rows = db.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count();
        let copy = common::open_on(&target);
        assert_eq!(copy.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count(), rows);
        common::assert_sound(&copy);
    }
}
