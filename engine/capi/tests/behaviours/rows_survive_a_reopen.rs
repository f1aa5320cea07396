//! The interface as C uses it: tables, entries, savepoints, cursors, marks; closed and opened
//! again.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{begin, code, ok, open, slice};
use holdfast_capi::*;

static RECOVERED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_recovery(done: u64, total: u64) {
    assert!(done <= total);
    RECOVERED.fetch_add(1, Ordering::Relaxed);
}

fn table(database: *const Database) -> *mut Table {
    let mut table = null_mut();
    ok!(hf_table_open(database, slice(b"t"), &raw mut table));
    table
}

/// All keys of an index, last first.
fn keys(table: *const Table, index: u32, transaction: *mut Transaction) -> Vec<Vec<u8>> {
    let seek = Seek {
        from: slice(b""),
        to: slice(b""),
        from_included: true,
        to_included: false,
        backward: true,
        skip_locked: false,
        scan: false,
        head_only: false,
        committed_if_locked: false,
        lock: Lock::None,
    };
    let (mut cursor, mut keys) = (null_mut(), Vec::new());
    ok!(hf_cursor_open(table, index, &raw mut cursor));
    ok!(hf_cursor_seek(cursor, transaction, &raw const seek));
    let (mut key, mut value) = (slice(b""), slice(b""));
    while code!(hf_cursor_next(cursor, &raw mut key, &raw mut value)) == Code::Ok {
        // SAFETY: valid until the next call on the cursor.
        keys.push(unsafe { std::slice::from_raw_parts(key.data, key.len) }.to_vec());
    }
    ok!(hf_cursor_close(cursor));
    keys
}

#[test]
fn rows_entries_and_marks_are_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db").display().to_string();
    let database = open(&path, Some(count_recovery));
    let indexes =
        [IndexSpec { name: slice(b"rows"), unique: true }, IndexSpec { name: slice(b"by_name"), unique: true }];
    ok!(hf_table_create(database, slice(b"t"), indexes.as_ptr(), indexes.len(), slice(b""), false));
    let t = table(database);
    let txn = begin(database);
    // A statement that fails before it changed anything is rolled back, too.
    let mut savepoint = 0;
    ok!(hf_statement(txn, 1000, &raw mut savepoint));
    ok!(hf_rollback_to(txn, savepoint));
    ok!(hf_insert(txn, t, 0, slice(b"1"), slice(b"one"), 0, Lock::None));
    ok!(hf_insert_unique(txn, t, 1, slice(b"one1"), 3, slice(&[3]), Lock::Shared));
    ok!(hf_savepoint(txn, false, &raw mut savepoint));
    ok!(hf_insert(txn, t, 0, slice(b"2"), slice(b"one"), 0, Lock::None));
    assert_eq!(code!(hf_insert_unique(txn, t, 1, slice(b"one2"), 3, slice(&[3]), Lock::Shared)), Code::DuplicateKey);
    ok!(hf_rollback_to(txn, savepoint));
    ok!(hf_commit(txn, Flush::Sync));
    ok!(hf_transaction_free(txn));
    let mut first = 0;
    ok!(hf_mark_take(t, Mark::RowId, 3, &raw mut first));
    assert_eq!(first, 1);
    ok!(hf_table_close(t));
    ok!(hf_close(database));

    let database = open(&path, Some(count_recovery));
    assert!(RECOVERED.load(Ordering::Relaxed) > 0, "an open says how far it is");
    let t = table(database);
    let txn = begin(database);
    assert_eq!(keys(t, 0, txn), [b"1"]);
    assert_eq!(keys(t, 1, txn), [b"one1"]);
    ok!(hf_mark_get(t, Mark::RowId, &raw mut first));
    assert_eq!(first, 4);
    assert_eq!(code!(hf_delete(txn, t, 0, slice(b"2"))), Code::NotFound);
    ok!(hf_transaction_free(txn));
    ok!(hf_table_close(t));
    ok!(hf_close(database));
}

#[test]
fn a_null_handle_is_an_error() {
    assert_eq!(code!(hf_checkpoint(null())), Code::Invalid);
    ok!(hf_close(null_mut()));
}
