//! A child that `fork` makes has copies of its parent's handles. It can do nothing with them: every
//! call is refused, and dropping them neither writes nor releases the parent's lock. A child that
//! released the lock let a second process in, and commits of the parent were lost.

#[expect(dead_code, reason = "it is for the tests of the folder, too")]
#[path = "behaviours/common/mod.rs"]
mod common;

use common::ROWS;
use holdfast::{Database, Error, FlushAtCommit, ReplacementPolicy, Result};

fn is_closed<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Closed(_)))
}

/// Runs `child` in a forked child; its answer.
fn in_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `child` and `_exit` and nothing of the test's harness; what it needs
    // of the C library works after a fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no child can be made");
    if pid == 0 {
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(false);
        // SAFETY: it ends the child at once, without the exit handlers of the test's harness.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn whatever_it_does_with_the_handles() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path()).unwrap();
    common::fill(&db, 0, 500);
    let (clone, snapshot, unfinished) = (db.clone(), db.begin_read().unwrap(), db.begin_write().unwrap());
    unfinished.open_table(&ROWS).unwrap().upsert(1, "not committed").unwrap();
    let another = db.begin_write().unwrap();
    another.open_table(&ROWS).unwrap().upsert(3, "not committed").unwrap();
    let path = dir.path().to_owned();
    let (mut handles, mut transactions) = (Some((db, clone)), Some((snapshot, unfinished, another)));

    let good = in_child(|| {
        let (db, clone) = handles.take().unwrap();
        let (snapshot, unfinished, another) = transactions.take().unwrap();
        let refused = is_closed(db.begin_read())
            && is_closed(db.begin_write())
            && is_closed(db.checkpoint())
            && is_closed(db.compact())
            && is_closed(db.set_replacement_policy(ReplacementPolicy::Lru))
            && is_closed(another.rollback())
            && is_closed(snapshot.open_table(&ROWS).and_then(|rows| rows.get(1)))
            && is_closed(unfinished.open_table(&ROWS).and_then(|rows| rows.upsert(2, "the child's")))
            && is_closed(unfinished.commit_with(FlushAtCommit::Lazy))
            && is_closed(clone.close());
        drop((snapshot, db));
        refused && matches!(Database::open(&path), Err(Error::AlreadyOpen(_)))
    });
    assert!(good);

    let (db, clone) = handles.unwrap();
    drop((transactions, clone));
    // The parent still has the lock, and goes on.
    assert!(matches!(Database::open(dir.path()), Err(Error::AlreadyOpen(_))));
    common::fill(&db, 500, 1_000);
    common::assert_sound(&db);
    db.close().unwrap();
    let db = common::small().open(dir.path()).unwrap();
    common::assert_filled(&db, 0, 1_000);

    // A child can open a database that the parent has closed, and the parent one that the child has
    // closed.
    db.close().unwrap();
    let good = in_child(|| {
        let db = common::small().open(&path).unwrap();
        common::fill(&db, 1_000, 1_100);
        db.close().is_ok()
    });
    assert!(good);
    common::assert_filled(&common::small().open(dir.path()).unwrap(), 0, 1_100);
}
