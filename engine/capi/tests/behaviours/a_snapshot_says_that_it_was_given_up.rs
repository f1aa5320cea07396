//! A read at a snapshot that was given up, to keep old versions to their limit, came to the same
//! code as one of a table that is younger, and the server told its user that the definition of the
//! table had changed.

use std::ptr::null_mut;

use crate::common::{begin, code, create, ok, open_with, slice};
use holdfast_capi::*;

fn read(txn: *mut Transaction, table: *const Table, out: *mut Buffer) -> Code {
    code!(hf_get(txn, table, 0, slice(b"row"), Lock::None, false, false, out))
}

fn is_given_up(txn: *mut Transaction) -> bool {
    let mut given_up = false;
    ok!(hf_snapshot_is_given_up(txn, &raw mut given_up));
    given_up
}

/// Commits a change of a thousand rows.
fn change_rows(database: *const Database, table: *const Table, round: u8) {
    let txn = begin(database);
    for n in 0..1_000u32 {
        let (key, value) = (n.to_be_bytes(), [round; 500]);
        match round {
            0 => ok!(hf_insert(txn, table, 0, slice(&key), slice(&value), 0, Lock::None)),
            _ => ok!(hf_update(txn, table, 0, slice(&key), slice(&value), 0)),
        }
    }
    ok!(hf_commit(txn, Flush::Lazy));
    ok!(hf_transaction_free(txn));
}

#[test]
fn the_limit_and_a_young_table_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let database = open_with(path.to_str().unwrap(), None, 1 << 20);
    let table = create(database, b"t");
    change_rows(database, table, 0);
    let (old, mut out) = (begin(database), null_mut());
    ok!(hf_buffer_new(&raw mut out));
    ok!(hf_snapshot(old));
    assert_eq!(read(old, table, out), Code::NotFound);

    let young = create(database, b"young");
    assert_eq!(read(old, young, out), Code::SnapshotTooOld);
    assert!(!is_given_up(old));

    let given_up = (1..=200).any(|round| {
        change_rows(database, table, round);
        is_given_up(old)
    });
    assert!(given_up);
    assert_eq!(read(old, table, out), Code::SnapshotTooOld);

    ok!(hf_transaction_free(old));
    ok!(hf_buffer_free(out));
    ok!(hf_table_close(young));
    ok!(hf_table_close(table));
    ok!(hf_close(database));
}
