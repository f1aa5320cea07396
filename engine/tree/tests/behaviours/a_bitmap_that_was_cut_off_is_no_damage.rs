//! A reader has read how many pages a file has, and a compaction cuts off the last bitmap page
//! before the reader comes to it. The reader got the error of a damaged page, and the advice to
//! restore the table from a backup.

use std::sync::{Arc, Mutex};

use holdfast_base::PageNo;
use holdfast_pool::Access;
use holdfast_testkit::HookedDisk;
use holdfast_tree::SpaceFile;
use holdfast_wal::SpaceClass;

use crate::common::*;

/// More than one bitmap page covers.
const PAGES: usize = 33_000;

/// A file with two bitmap pages, of which none is in the pool, and the second one goes before the
/// next question for a length: that of the thread that comes to read the first one.
fn cut_meanwhile() -> Arc<Bed> {
    let disk = HookedDisk::default();
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let acc = bed.access();
    let pages = bed.alloc_many(PAGES);
    bed.space.free_pages(&pages, SpaceClass::User, &acc).unwrap();
    drop(acc);
    let bed = Arc::new(bed.reopen());
    let once = Mutex::new(Some(Arc::clone(&bed)));
    disk.on_len(move |_| {
        let at = once.lock().unwrap().take();
        if let Some(at) = at {
            let acc = at.access();
            let (_, shrunk) = at.space.shrink(&acc).unwrap();
            assert!(at.space.truncate_file(shrunk, at.checkpoint(), &acc).unwrap());
        }
    });
    bed
}

fn is_no_damage<T>(ask: impl FnOnce(&SpaceFile, &Access<'_>) -> holdfast_base::Result<T>) -> T {
    let bed = cut_meanwhile();
    let answer = ask(&bed.space, &bed.access()).unwrap();
    assert!(bed.space.header(&bed.access()).unwrap().pages < 100, "it was cut");
    assert_eq!(bed.space.space().damaged().map(ToString::to_string), None);
    answer
}

#[test]
fn for_a_reader_that_counts_pages() {
    let info = is_no_damage(|space, acc| space.info(acc));
    assert!(info.pages < 100 && info.free_pages <= info.pages, "{info:?}");
}

#[test]
fn for_a_reader_that_asks_for_a_page() {
    assert!(!is_no_damage(|space, acc| space.is_allocated(PageNo(32_900), acc)));
}

#[test]
fn for_a_writer_that_looks_for_room() {
    is_no_damage(|space, acc| space.reserve_alloc(PageNo(32_900), 0, acc).map(drop));
}

#[test]
fn for_a_backup_that_looks_behind_the_end() {
    is_no_damage(|space, acc| space.check_end(acc));
}
