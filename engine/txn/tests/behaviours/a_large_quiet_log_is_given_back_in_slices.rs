//! The log of a large transaction that asks nothing of purge - a bulk insert, or an update of many
//! rows - is given back a few pages at a time. All of its pages were given back at once, under the
//! purge mutex, by the first thread that came to it: mostly a committer of a small transaction. Its
//! commit then took a mini-transaction, and perhaps a read, for each page of the log. Purge stood
//! still meanwhile, and all other committers waited for the mutex.

use crate::common::*;

const ROWS: u32 = 60_000;

/// A committer looks at purge once so many logs of its group of threads wait.
const LOOKS_EVERY: usize = 8;

/// Pages that a committer gives back when it looks: no more than quiet logs that it would retire.
const HELPS_BY: u64 = 32;

fn undo_pages(db: &Db) -> u64 {
    db.sys.stats().undo_pages
}

/// Returns how many pages the log of the load has.
fn load(db: &Db) -> u64 {
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &n.to_be_bytes(), b"row").unwrap()));
    let pages = undo_pages(db);
    assert!(pages > 2 * HELPS_BY, "{pages}");
    pages
}

#[test]
fn purge_gives_back_as_many_pages_as_it_may() {
    let db = Db::new();
    let pages = load(&db);
    let (mut before, mut slices) = (pages, 0);
    while db.sys.purge(10).unwrap() > 0 {
        let now = undo_pages(&db);
        assert!(before - now <= 11, "from {before} to {now} in one slice");
        (before, slices) = (now, slices + 1);
    }
    assert!(slices >= pages / 11, "{slices}");
    assert_eq!((db.sys.history_length(), undo_pages(&db)), (0, 0));
    db.verify_clean();
    assert_eq!(db.physical(&db.rows), ROWS as usize);
}

#[test]
fn a_log_that_a_long_view_is_older_than_is_no_other() {
    let mut setup = Setup::default();
    setup.txn.short_view_commits = 1;
    let db = Db::with(setup);
    db.put(&[("here", "before")]);
    let mut old = db.snapshot();
    load(&db);
    db.put(&[("here", "after")]);
    let mut before = undo_pages(&db);
    while db.sys.purge(10).unwrap() > 0 {
        let now = undo_pages(&db);
        assert!(before.saturating_sub(now) <= 11, "from {before} to {now} in one slice");
        before = now;
    }
    assert_eq!(get(&mut old, &db.rows, "here"), Some("before".into()));
    drop(old);
    db.purge();
    assert_eq!(undo_pages(&db), 0);
    db.verify_clean();
}

#[test]
fn a_commit_that_helps_gives_back_a_few() {
    let db = Db::new();
    let pages = load(&db);
    (0..LOOKS_EVERY).for_each(|n| db.put(&[("small", &n.to_string())]));
    let now = undo_pages(&db);
    assert!(now + HELPS_BY >= pages, "from {pages} to {now} in one commit");
    db.purge();
    assert_eq!((db.sys.history_length(), undo_pages(&db)), (0, 0));
    db.verify_clean();
}

/// A crash in the middle leaves a shorter log, which is purged once more.
#[test]
fn a_log_that_is_given_back_in_part_is_purged_after_a_restart() {
    let db = Db::new();
    let pages = load(&db);
    while undo_pages(&db) > pages / 2 {
        assert!(db.sys.purge(10).unwrap() > 0);
    }
    let db = db.reopen();
    assert_eq!(db.sys.history_length(), 1);
    db.purge();
    assert_eq!((db.sys.history_length(), undo_pages(&db)), (0, 0));
    db.verify_clean();
    assert_eq!(db.physical(&db.rows), ROWS as usize);
}
