//! A session that waits for the writers of a table whose definition it changes ends its wait when
//! it is killed.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{begin, code, create, ok, open, slice};
use holdfast_capi::*;

static SLEEPS: AtomicBool = AtomicBool::new(false);
static KILLED: AtomicBool = AtomicBool::new(false);

extern "C" fn interest(_: *mut c_void) -> WaitInterest {
    WaitInterest::None
}

extern "C" fn waits_for(_: *mut c_void, _: u64, _: *const u64, _: usize) {}

extern "C" fn sleeps(_: *mut c_void, begins: bool) {
    SLEEPS.store(begins, Ordering::SeqCst);
}

extern "C" fn gives_up(_: *mut c_void) -> bool {
    KILLED.load(Ordering::SeqCst)
}

#[derive(Clone, Copy)]
struct Shared(*const Database);

// SAFETY: many threads may use a database at a time.
unsafe impl Send for Shared {}

impl Shared {
    fn get(self) -> *const Database {
        self.0
    }
}

/// What `change` returns in a session that is killed while it sleeps.
fn killed(database: *const Database, change: fn(*const Database) -> Code) -> Code {
    KILLED.store(false, Ordering::SeqCst);
    let shared = Shared(database);
    std::thread::scope(|scope| {
        let session = scope.spawn(move || change(shared.get()));
        while !SLEEPS.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        KILLED.store(true, Ordering::SeqCst);
        ok!(hf_wake_waits(database));
        session.join().unwrap()
    })
}

/// So long that the test would be taken for one that hangs.
const LONG_MS: u64 = 3_600_000;

#[test]
fn a_change_of_a_definition_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db").display().to_string(), None);
    ok!(hf_observe_waits(database, Some(interest), Some(waits_for), Some(sleeps), Some(gives_up), null_mut()));
    let table = create(database, b"t");
    let writer = begin(database);
    ok!(hf_insert(writer, table, 0, slice(b"1"), slice(b"one"), 0, Lock::None));

    assert_eq!(killed(database, |db| code!(hf_table_drop(db, slice(b"t"), LONG_MS))), Code::Interrupted);
    assert_eq!(killed(database, |db| code!(hf_table_truncate(db, slice(b"t"), LONG_MS))), Code::Interrupted);

    // The table is as it was, and takes writers.
    KILLED.store(false, Ordering::SeqCst);
    ok!(hf_insert(writer, table, 0, slice(b"2"), slice(b"two"), 0, Lock::None));
    ok!(hf_commit(writer, Flush::Sync));
    ok!(hf_transaction_free(writer));
    ok!(hf_table_close(table));
    ok!(hf_table_drop(database, slice(b"t"), LONG_MS));
    ok!(hf_close(database));
}
