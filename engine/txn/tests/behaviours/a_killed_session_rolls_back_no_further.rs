//! A session that changes the definition of a table reads and undoes what a crash has left there.
//! A KILL waited for the end of that, which takes as long as the transaction did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use holdfast_base::Error;
use holdfast_txn::WaitObserver;

use crate::common::*;

const ROWS: u32 = 500;

/// Its session is killed when it has been asked so many times.
struct Killed(Arc<AtomicU32>);

impl WaitObserver for Killed {
    fn gives_up(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("row{n:04}").into_bytes()
}

/// A database in which a transaction was changing all rows when its process ended.
fn with_loser() -> Db {
    let db = Db::new();
    db.commit(|txn| (0..ROWS).for_each(|n| txn.insert(&db.rows, &key(n), b"old").unwrap()));
    let mut txn = db.begin();
    (0..ROWS).for_each(|n| assert!(txn.update(&db.rows, &key(n), b"never", None).unwrap()));
    std::mem::forget(txn);
    db.reopen()
}

/// What becomes of a rollback whose session is killed when it has asked for the time `killed_at`.
/// True if it was given up.
fn is_given_up(killed_at: u32) -> bool {
    let db = with_loser();
    let (left, rows) = (Arc::new(AtomicU32::new(killed_at)), [db.rows.id()]);
    db.sys.locks().set_wait_observer(Box::new(Killed(Arc::clone(&left))));
    let rolled_back = db.sys.roll_back_losers_of(&rows, &db.sys.wait(Duration::ZERO));
    if let Ok(ended) = rolled_back {
        assert_eq!(ended, 1);
        return false;
    }
    assert!(matches!(rolled_back, Err(Error::Interrupted)), "{rolled_back:?}");
    // Another session is told of no error.
    left.store(u32::MAX, Ordering::Relaxed);
    let stopped_by = db.sys.what_stops_losers_of(&rows, &db.sys.wait(Duration::ZERO)).unwrap();
    assert!(matches!(stopped_by[..], [None]), "{stopped_by:?}");
    assert_eq!(db.sys.roll_back_losers().unwrap(), 1);
    let mut snapshot = db.snapshot();
    let is_old = |n: &u32| get(&mut snapshot, &db.rows, std::str::from_utf8(&key(*n)).unwrap()).unwrap() == "old";
    assert_eq!((0..ROWS).filter(is_old).count(), ROWS as usize);
    drop(snapshot);
    db.purge();
    db.verify_clean();
    true
}

#[test]
fn the_background_goes_on_with_it() {
    let given_up = (0..).take_while(|killed_at| is_given_up(*killed_at)).count();
    // It asks while it reads, and while it undoes.
    assert!(given_up > ROWS as usize / 64 + 1, "{given_up}");
}
