//! Calls that break a rule which the library can look at: they are errors, and change nothing.

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use crate::common::{begin, code, create, ok, open, settings, slice};
use holdfast_capi::*;

fn message() -> String {
    // SAFETY: the message is a C string of this thread, and nothing changes it in between.
    unsafe { CStr::from_ptr(hf_error_message()) }.to_string_lossy().into_owned()
}

fn insert(transaction: *mut Transaction, table: *const Table, key: &[u8]) {
    ok!(hf_insert(transaction, table, 0, slice(key), slice(b"row"), 0, Lock::None));
}

fn is_there(transaction: *mut Transaction, table: *const Table, key: &[u8]) -> bool {
    let mut out = null_mut();
    ok!(hf_buffer_new(&raw mut out));
    let found = code!(hf_get(transaction, table, 0, slice(key), Lock::None, false, false, out)) == Code::Ok;
    ok!(hf_buffer_free(out));
    found
}

/// The call once created a database, and then had no place for its handle.
#[test]
fn a_handle_needs_a_place_before_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let settings = settings();
    let name = path.display().to_string();
    assert_eq!(code!(hf_open(slice(name.as_bytes()), &raw const settings, null_mut())), Code::Invalid);
    assert!(message().contains("no place"), "{}", message());
    assert!(!path.exists());
    let database = open(&name, None);
    let table = create(database, b"t");
    assert_eq!(code!(hf_load_begin(table, null_mut())), Code::Invalid);
    assert_eq!(code!(hf_load_begin_anew(table, 0, null_mut())), Code::Invalid);
    assert_eq!(code!(hf_alter_begin(database, slice(b"t"), null(), 0, false, 0, null_mut())), Code::Invalid);
    assert_eq!(code!(hf_adopt(database, slice(b"xid"), null_mut())), Code::Invalid);
    ok!(hf_table_close(table));
    ok!(hf_close(database));
}

/// A savepoint that the transaction went back over was a place among later changes.
#[test]
fn a_savepoint_ends_when_the_transaction_goes_back_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db").display().to_string(), None);
    let (table, transaction) = (create(database, b"t"), begin(database));
    let (mut first, mut statement, mut row) = (0, 0, 0);
    ok!(hf_savepoint(transaction, true, &raw mut first));
    insert(transaction, table, b"1");
    ok!(hf_statement(transaction, 1_000, &raw mut statement));
    insert(transaction, table, b"2");
    ok!(hf_savepoint(transaction, false, &raw mut row));
    ok!(hf_rollback_to(transaction, first));
    for key in [b"3", b"4", b"5"] {
        insert(transaction, table, key);
    }
    for gone in [statement, row] {
        assert_eq!(code!(hf_rollback_to(transaction, gone)), Code::Invalid);
    }
    assert!([b"3", b"4", b"5"].iter().all(|key| is_there(transaction, table, *key)));
    ok!(hf_rollback_to(transaction, first));
    assert!(!is_there(transaction, table, b"3"));
    ok!(hf_transaction_free(transaction));
    ok!(hf_table_close(table));
    ok!(hf_close(database));
}

#[test]
fn a_handle_is_given_once() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db").display().to_string(), None);
    let table = create(database, b"t");
    let mut load = null_mut();
    ok!(hf_load_begin_anew(table, 0, &raw mut load));
    ok!(hf_load_finish(load));
    let (loads, definitions) = ([load, load], [slice(b""), slice(b"")]);
    assert_eq!(code!(hf_load_replace(database, loads.as_ptr(), definitions.as_ptr(), 2)), Code::Invalid);
    assert!(message().contains("twice"), "{}", message());
    ok!(hf_load_replace(database, loads.as_ptr(), definitions.as_ptr(), 1));
    ok!(hf_load_free(load));
    let mut alter = null_mut();
    ok!(hf_alter_begin(database, slice(b"t"), null(), 0, false, 0, &raw mut alter));
    let alters = [alter, alter];
    assert_eq!(code!(hf_alter_commit(database, alters.as_ptr(), 2, null(), 0, 0)), Code::Invalid);
    ok!(hf_alter_free(alter));
    ok!(hf_table_close(table));
    ok!(hf_close(database));
}
