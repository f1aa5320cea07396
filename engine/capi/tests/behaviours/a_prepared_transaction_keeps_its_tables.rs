//! A prepared transaction of an earlier run, or of a session that has gone, has rows in a table.
//! The table was dropped all the same, and the transaction was then committed into nothing.

use std::ptr::{null, null_mut};

use crate::common::{begin, code, ok, open, slice};
use holdfast_capi::*;

/// Prepares a transaction that puts a row into `table`, and closes it.
fn prepare(database: *const Database, table: &[u8], xid: &[u8]) {
    let mut opened = null_mut();
    ok!(hf_table_open(database, slice(table), &raw mut opened));
    let txn = begin(database);
    ok!(hf_insert(txn, opened, 0, slice(b"row"), slice(b"value"), 0, Lock::None));
    ok!(hf_prepare(txn, slice(xid), Flush::Sync));
    ok!(hf_transaction_free(txn));
    ok!(hf_table_close(opened));
}

fn changes_of_definitions_fail(database: *const Database) {
    assert_eq!(code!(hf_table_drop(database, slice(b"t"), 1_000)), Code::LockTimeout);
    assert_eq!(code!(hf_table_truncate(database, slice(b"t"), 1_000)), Code::LockTimeout);
    assert_eq!(code!(hf_table_rename(database, slice(b"t"), slice(b"u"), null(), 0)), Code::LockTimeout);
    assert_eq!(code!(hf_table_check_unprepared(database, slice(b"t"), 1_000)), Code::LockTimeout);
}

#[test]
fn its_table_is_not_dropped_under_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = open(path.to_str().unwrap(), None);
    let rows = [IndexSpec { name: slice(b"PRIMARY"), unique: true }];
    for table in [b"t".as_slice(), b"other"] {
        ok!(hf_table_create(database, slice(table), rows.as_ptr(), rows.len(), slice(b""), false));
    }
    prepare(database, b"t", b"x");
    changes_of_definitions_fail(database);
    ok!(hf_table_check_unprepared(database, slice(b"other"), 1_000));
    ok!(hf_table_drop(database, slice(b"other"), 1_000));
    ok!(hf_close(database));

    let database = open(path.to_str().unwrap(), None);
    changes_of_definitions_fail(database);
    let mut txn = null_mut();
    ok!(hf_adopt(database, slice(b"x"), &raw mut txn));
    ok!(hf_commit(txn, Flush::Sync));
    ok!(hf_transaction_free(txn));
    ok!(hf_table_check_unprepared(database, slice(b"t"), 1_000));
    ok!(hf_table_rename(database, slice(b"t"), slice(b"u"), null(), 0));
    ok!(hf_table_truncate(database, slice(b"u"), 1_000));
    ok!(hf_table_drop(database, slice(b"u"), 1_000));
    ok!(hf_close(database));
}
