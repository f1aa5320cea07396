//! Where sessions leave the purge thread no core, committers purge. They began when 2,048 logs
//! waited: what purge wanted of those - a page of undo each, a leaf with a delete mark - had left
//! the processor's caches long before. And they took turns at the purge mutex however little could
//! be done with it: while a view held everything back, each of them looked in vain.

use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::*;

/// A committer looks at purge once so many logs of its group of threads wait.
const LOOKS_EVERY: usize = 8;

/// Puts a row in, and deletes it in a transaction of its own: the delete mark is purge's to remove.
fn come_and_go(db: &Db, n: usize) {
    let key = format!("row{n:04}");
    db.put(&[(&key, "here")]);
    db.commit(|txn| assert!(txn.delete(&db.rows, key.as_bytes(), None).unwrap()));
}

fn helps(db: &Db) -> u64 {
    db.store.metrics().get(Counter::PurgeHelps)
}

#[test]
fn they_keep_the_queue_short() {
    let db = Db::new();
    let above = TxnConfig::default().purge_help_above;
    for n in 0..1_000 {
        come_and_go(&db, n);
        assert!(db.sys.history_length() <= above + LOOKS_EVERY, "{n}: {}", db.sys.history_length());
    }
    assert!(helps(&db) > 0);
    assert!(db.physical(&db.rows) <= above + LOOKS_EVERY, "{}", db.physical(&db.rows));
    db.purge();
    assert_eq!((db.sys.history_length(), db.physical(&db.rows)), (0, 0));
    db.verify_clean();
}

#[test]
fn they_do_not_try_what_a_view_forbids() {
    let mut setup = Setup::default();
    // The view stays short.
    (setup.txn.purge_help_above, setup.txn.short_view_commits, setup.txn.commit_window) = (20, 10_000, 4096);
    let db = Db::with(setup);
    let view = db.snapshot();
    for n in 0..100 {
        come_and_go(&db, n);
    }
    assert_eq!(helps(&db), 0);
    drop(view);
    (0..LOOKS_EVERY).for_each(|_| come_and_go(&db, 100));
    assert!(helps(&db) > 0);
    (0..20).for_each(|_| come_and_go(&db, 101));
    assert!(db.sys.history_length() <= 20 + LOOKS_EVERY, "{}", db.sys.history_length());
    db.verify_clean();
}

#[test]
fn they_help_when_a_view_is_due_to_be_made_long() {
    let mut setup = Setup::default();
    (setup.txn.purge_help_above, setup.txn.short_view_commits) = (20, 60);
    let db = Db::with(setup);
    come_and_go(&db, 0);
    db.put(&[("kept", "old")]);
    let mut view = db.snapshot();
    for n in 0..200 {
        come_and_go(&db, n);
    }
    db.put(&[("kept", "new")]);
    assert!(helps(&db) > 0 && db.sys.history_length() < 100, "{} logs", db.sys.history_length());
    assert_eq!(get(&mut view, &db.rows, "kept"), Some("old".into()));
    drop(view);
    db.purge();
    db.verify_clean();
}
