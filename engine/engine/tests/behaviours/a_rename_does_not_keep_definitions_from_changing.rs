//! A RENAME reads what a prepared transaction without a session has changed. Other changes of
//! definitions waited until it had read that, which may take minutes, and heard no KILL.

use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase, WaitObserver};
use holdfast::{Error, FlushAtCommit};

use crate::common;
use crate::common::rows::begin;

/// Another session creates a table as soon as the one that reads is asked whether it was killed.
#[derive(Default)]
struct Other {
    db: OnceLock<Weak<RawDatabase>>,
    has_created: OnceLock<bool>,
}

struct Asked(Arc<Other>);

impl WaitObserver for Asked {
    fn gives_up(&self) -> bool {
        if let Some(db) = self.0.db.get().and_then(Weak::upgrade) {
            self.0.has_created.get_or_init(|| is_created(db));
        }
        false
    }
}

/// True if another thread creates a table while this one waits.
fn is_created(db: Arc<RawDatabase>) -> bool {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let created = db.create_table("new", &[], b"", Lifetime::Lasting);
        done.send(created.is_ok()).unwrap_or(());
    });
    is_done.recv_timeout(Duration::from_secs(20)).unwrap_or(false)
}

#[test]
fn while_it_reads_what_a_prepared_transaction_has_changed() {
    let db = Arc::new(RawDatabase::new(common::small().in_memory().unwrap()));
    db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let (table, mut prepared) = (db.open_table("t").unwrap(), begin(&db));
    prepared.insert(&table, 0, b"1", b"row").unwrap();
    prepared.prepare(b"x", FlushAtCommit::Sync).unwrap();
    drop(prepared);
    let other = Arc::new(Other::default());
    assert!(other.db.set(Arc::downgrade(&db)).is_ok());
    db.set_wait_observer(Asked(Arc::clone(&other)));
    let renamed = db.rename_table("t", "renamed", &[]);
    assert!(matches!(renamed, Err(Error::LockTimeout)), "{renamed:?}");
    assert_eq!(other.has_created.get(), Some(&true));
}
