//! The text of the monitor and the listing of indexes show nothing of files. They asked each one
//! for its length, and opened it again for that where it was closed: with more tables than the
//! process may have descriptors, all of them at each SHOW ENGINE STATUS, in the places of files in
//! use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use holdfast::Listing;
use holdfast_testkit::HookedDisk;

use crate::common;

#[test]
fn for_its_length() {
    let disk = HookedDisk::default();
    let db = common::create_on(&disk);
    common::fill(&db, 0, 10);
    let asked = Arc::new(AtomicU64::new(0));
    let (count, watched) = (Arc::clone(&asked), thread::current().id());
    disk.on_len(move |_| {
        count.fetch_add(u64::from(thread::current().id() == watched), Ordering::SeqCst);
    });
    assert!(db.status_text().contains("rows.PRIMARY: "));
    let mut indexes = 0;
    db.list(Listing::SysIndexes, &mut |_| {
        indexes += 1;
        true
    });
    assert_eq!((indexes, asked.load(Ordering::SeqCst)), (1, 0));
    assert!(db.stats().tables[0].file_bytes > 0 && db.cache_stats().1[0].file_bytes > 0);
    assert!(asked.load(Ordering::SeqCst) > 0);
}
