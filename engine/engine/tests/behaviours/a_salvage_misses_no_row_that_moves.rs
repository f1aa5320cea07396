//! A salvage reads the file of a table page by page. Rows that a compaction, a split or a merge
//! moved meanwhile, from a page to come to one that was passed, were missing without a word.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use holdfast_testkit::HookedDisk;

use crate::common::{self, ROWS};

const REMOVED: u64 = 3_000;
const ROWS_ALL: u64 = 6_000;

#[test]
fn to_a_page_that_was_passed() {
    let source = common::small().in_memory().unwrap();
    common::fill(&source, 0, ROWS_ALL);
    source.transact(|txn| (0..REMOVED).try_for_each(|n| txn.open_table(&ROWS)?.delete(n).map(drop))).unwrap();

    let disk = HookedDisk::default();
    let target = common::create_on(&disk);
    target.create_table(&ROWS).unwrap();
    // The first rows that are saved have the last pages of the table moved to its front.
    let moved = Arc::new(AtomicU64::new(0));
    let (db, counter, salvager) = (source.clone(), Arc::clone(&moved), thread::current().id());
    disk.on_write(move |file| {
        if file.starts_with("wal.") && thread::current().id() == salvager && counter.load(Ordering::SeqCst) == 0 {
            counter.store(db.compact().unwrap().pages_moved, Ordering::SeqCst);
        }
    });
    let report = source.salvage_table("rows", &target).unwrap();
    disk.on_write(|_| ());
    assert!(moved.load(Ordering::SeqCst) > 0, "no page has moved");
    assert_eq!(report.lost_pages, 0);
    common::assert_filled(&target, REMOVED, ROWS_ALL);
}

/// Where the pages changed during each look at them, the report did not say that rows may be
/// missing.
#[test]
fn or_says_so() {
    let source = common::small().in_memory().unwrap();
    common::fill(&source, 0, ROWS_ALL);

    let disk = HookedDisk::default();
    let target = common::create_on(&disk);
    target.create_table(&ROWS).unwrap();
    // Whenever rows are saved the table gets some pages more.
    let (db, next, salvager) = (source.clone(), AtomicU64::new(ROWS_ALL), thread::current().id());
    disk.on_write(move |file| {
        if file.starts_with("wal.") && thread::current().id() == salvager {
            let from = next.fetch_add(200, Ordering::SeqCst);
            common::fill(&db, from, from + 200);
        }
    });
    assert!(source.salvage_table("rows", &target).unwrap().unsettled);
    disk.on_write(|_| ());
    common::assert_filled(&target, 0, ROWS_ALL);
    assert!(!source.salvage_table("rows", &target).unwrap().unsettled);
}
