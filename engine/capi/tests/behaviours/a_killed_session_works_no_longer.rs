//! A session that is killed ends long work, too: a check, a load, an index that is added. They went
//! on to their end, which for a large table is hours away.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{begin, code, create, ok, open, slice};
use holdfast_capi::*;

static KILLED: AtomicBool = AtomicBool::new(false);
static FINDINGS: AtomicU64 = AtomicU64::new(0);

extern "C" fn interest(_: *mut c_void) -> WaitInterest {
    WaitInterest::None
}

extern "C" fn waits_for(_: *mut c_void, _: u64, _: *const u64, _: usize) {}

extern "C" fn sleeps(_: *mut c_void, _: bool) {}

extern "C" fn gives_up(_: *mut c_void) -> bool {
    KILLED.load(Ordering::SeqCst)
}

extern "C" fn count(_: *mut c_void, _: Slice) {
    FINDINGS.fetch_add(1, Ordering::SeqCst);
}

/// What a call returns in a session that has been killed.
fn killed(call: impl FnOnce() -> Code) -> Code {
    KILLED.store(true, Ordering::SeqCst);
    let code = call();
    KILLED.store(false, Ordering::SeqCst);
    code
}

fn check(database: *const Database, entries: bool) -> Code {
    code!(hf_table_verify(database, slice(b"t"), entries, Some(count), null_mut()))
}

/// The index key of a row's entry is one byte.
const INDEX_KEY_LENGTH: &[u8] = b"\x01";

fn a_load(table: *const Table) {
    let mut load = null_mut();
    ok!(hf_load_begin(table, &raw mut load));
    for key in [b"a", b"b", b"c"] {
        ok!(hf_load_push(load, 0, slice(key), 1, slice(b"row"), 0));
    }
    assert_eq!(killed(|| code!(hf_load_finish(load))), Code::Interrupted);
    ok!(hf_load_free(load));
}

/// Begins to add an index beside writers, one of which notes an entry.
fn an_index(database: *const Database, table: *const Table) -> *mut Alter {
    let added = [IndexSpec { name: slice(b"k"), unique: false }];
    let mut alter = null_mut();
    ok!(hf_alter_begin(database, slice(b"t"), added.as_ptr(), 1, true, 0, &raw mut alter));
    let writer = begin(database);
    ok!(hf_insert(writer, table, 0, slice(b"z"), slice(b"row"), 0, Lock::None));
    ok!(hf_alter_note_there(writer, table, 0, slice(b"1z"), 2, slice(INDEX_KEY_LENGTH)));
    ok!(hf_commit(writer, Flush::Sync));
    ok!(hf_transaction_free(writer));
    ok!(hf_alter_push(alter, 0, slice(b"1y"), 2, slice(INDEX_KEY_LENGTH)));
    alter
}

#[test]
fn long_work_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db").display().to_string(), None);
    ok!(hf_observe_waits(database, Some(interest), Some(waits_for), Some(sleeps), Some(gives_up), null_mut()));
    let table = create(database, b"t");

    a_load(table);
    let writer = begin(database);
    ok!(hf_insert(writer, table, 0, slice(b"y"), slice(b"row"), 0, Lock::None));
    ok!(hf_commit(writer, Flush::Sync));
    ok!(hf_transaction_free(writer));

    for entries in [false, true] {
        assert_eq!(killed(|| check(database, entries)), Code::Interrupted);
        assert_eq!(check(database, entries), Code::Ok);
    }

    // In its first part, and when what has changed meanwhile is put into it.
    let alter = an_index(database, table);
    assert_eq!(killed(|| code!(hf_alter_finish(alter))), Code::Interrupted);
    ok!(hf_alter_free(alter));
    let writer = begin(database);
    ok!(hf_delete(writer, table, 0, slice(b"z")));
    ok!(hf_commit(writer, Flush::Sync));
    ok!(hf_transaction_free(writer));
    let alter = an_index(database, table);
    ok!(hf_alter_finish(alter));
    let becomes = [IndexSource { added: true, index: 0, name: slice(b"") }];
    ok!(hf_alter_become(alter, becomes.as_ptr(), 1, slice(b"")));
    let commit = || code!(hf_alter_commit(database, &raw const alter, 1, std::ptr::null(), 0, 0));
    assert_eq!(killed(commit), Code::Interrupted);
    ok!(hf_alter_free(alter));

    assert_eq!(check(database, true), Code::Ok);
    assert_eq!(FINDINGS.load(Ordering::SeqCst), 0);
    ok!(hf_table_close(table));
    ok!(hf_close(database));
}
