//! A few transactions commit while a view is open; the view ends, and nothing commits afterwards.
//! The purge thread looked for work for a second and slept then until the next commit, since the
//! end of a view wakes it only if many logs wait: what the transactions had deleted stayed.

use std::thread::sleep;
use std::time::Duration;

use crate::common::*;

/// Longer than the thread goes on looking for idle undo pages.
const ASLEEP: Duration = Duration::from_millis(2_500);

#[test]
fn what_a_view_held_back_goes_without_another_commit() {
    let mut setup = Setup { pool_threads: true, ..Setup::default() };
    setup.txn.background = true;
    setup.txn.short_view_commits = 1_000;
    let db = Db::with(setup);
    db.put(&[("1", "a"), ("2", "a"), ("3", "a")]);
    while !db.sys.keeps_nothing_old().unwrap() {
        sleep(Duration::from_millis(10));
    }
    let snapshot = db.snapshot();
    db.commit(|txn| assert!(txn.delete(&db.rows, b"2", None).unwrap()));
    sleep(ASLEEP);
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (1, 3));
    drop(snapshot);
    // It never came to an end.
    while !db.sys.keeps_nothing_old().unwrap() {
        sleep(Duration::from_millis(10));
    }
    assert_eq!(db.physical(&db.rows), 2);
    db.verify_clean();
}
