//! A reader that looks for one old version in the version tree had 128 leaves behind it read ahead,
//! as if it were going to read them all.

use holdfast_metrics::Counter;

use crate::common::*;

/// Their versions take far more pages than the cache has.
const ROWS: usize = 4_000;

fn key(n: usize) -> Vec<u8> {
    format!("row{n:05}").into_bytes()
}

#[test]
fn a_lookup_reads_nothing_ahead() {
    let mut setup = Setup { frames: 96, ..Setup::default() };
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), &[1; 200]).unwrap()));
    let mut old = db.snapshot();
    for from in (0..ROWS).step_by(10) {
        db.commit(|txn| {
            (from..from + 10).for_each(|n| assert!(txn.update(&db.rows, &key(n), &[2; 200], None).unwrap()));
        });
    }
    while db.purge() > 0 {}
    assert_eq!(db.sys.versions_stored(), ROWS as u64);
    let (metrics, mut value) = (db.store.metrics(), Vec::new());
    let before = (metrics.get(Counter::ReadAhead), metrics.get(Counter::PagesRead));
    for n in (0..ROWS / 2).step_by(100) {
        assert!(old.get(&db.rows, &key(n), &mut value).unwrap() && value == [1; 200], "row {n}");
    }
    assert!(metrics.get(Counter::PagesRead) > before.1, "the leaves are not in the cache");
    assert_eq!(metrics.get(Counter::ReadAhead), before.0);
}
