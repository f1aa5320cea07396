//! An open after a crash in a large transaction read the pages of its undo log one by one.

use holdfast_metrics::{Counter, Timing};

use crate::common::*;

const ROWS: u32 = 6_000;

#[test]
fn the_pages_of_a_large_log_come_many_at_a_time() {
    let db = Db::with(Setup { frames: 4_096, ..Setup::default() });
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &n.to_be_bytes(), &[b'x'; 400]).unwrap()));
    let mut txn = db.begin();
    (0..ROWS).for_each(|n| assert!(txn.update(&db.rows, &n.to_be_bytes(), b"new", None).unwrap()));
    std::mem::forget(txn);
    let db = db.reopen();
    let metrics = db.store.metrics().snapshot();
    let (pages, reads) = (metrics.get(Counter::PagesRead), metrics.timing(Timing::PageRead).count());
    assert!(pages > 600, "{pages} pages are read");
    assert!(reads < pages / 8, "{pages} pages in {reads} reads");
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    db.purge();
    db.verify_clean();
}
