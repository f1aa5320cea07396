//! Listings as C reads them, and the question back whose transaction it is.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use crate::common::{begin, code, ok, open, slice};
use holdfast_capi::*;

fn text(slice: Slice) -> String {
    // SAFETY: shown by the library, and read at once.
    String::from_utf8(unsafe { std::slice::from_raw_parts(slice.data, slice.len) }.to_vec()).unwrap()
}

extern "C" fn push_column(columns: *mut c_void, column: *const Column) {
    // SAFETY: the context of the call below, and a column that is valid for ever.
    let (columns, column) = unsafe { (&mut *columns.cast::<Vec<Column>>(), *column) };
    columns.push(column);
}

/// The columns of a listing, and its rows as text.
struct Listed {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

extern "C" fn push_row(listed: *mut c_void, cells: *const Cell, count: usize) -> bool {
    // SAFETY: the context of the call below, and as many cells as the library says.
    let (listed, cells) = unsafe { (&mut *listed.cast::<Listed>(), std::slice::from_raw_parts(cells, count)) };
    assert_eq!(count, listed.columns.len());
    for (column, cell) in listed.columns.iter().zip(cells) {
        assert!(cell.kind == column.kind || (cell.kind == Kind::Null && column.nullable), "{}", text(column.name));
    }
    listed
        .rows
        .push(cells.iter().map(|c| if c.kind == Kind::Text { text(c.text) } else { c.number.to_string() }).collect());
    true
}

fn list(database: *const Database, number: u32) -> Listed {
    let mut listed = Listed { columns: Vec::new(), rows: Vec::new() };
    let columns = (&raw mut listed.columns).cast();
    ok!(hf_listing_columns(number, Some(push_column), columns));
    let context = (&raw mut listed).cast();
    ok!(hf_listing_rows(database, number, Some(push_row), context));
    listed
}

extern "C" fn find_session(context: *mut c_void, serial: u64, out: *mut Session) -> bool {
    assert!(context.is_null());
    // SAFETY: the library's, for this call.
    let out = unsafe { &mut *out };
    out.id = 1000 + serial;
    ok!(hf_buffer_append(out.query, slice(b"SELECT ")));
    assert_eq!(code!(hf_buffer_append(out.query, slice(b"\xff1"))), Code::Ok, "not UTF-8: shown as well as can be");
    true
}

#[test]
fn every_listing_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(&dir.path().join("db").display().to_string(), None);
    ok!(hf_set_sessions(database, Some(find_session), null_mut()));
    let transaction = begin(database);
    let (mut number, mut name, mut seen) = (0, slice(b""), Vec::new());
    while code!(hf_listing_name(number, &raw mut name)) == Code::Ok {
        let listed = list(database, number);
        if text(name) == "TRX" {
            let at = |wanted: &str| listed.columns.iter().position(|c| text(c.name) == wanted).unwrap();
            let row = &listed.rows[0];
            let serial: u64 = row[at("trx_id")].parse().unwrap();
            assert_eq!(row[at("trx_mysql_thread_id")], (1000 + serial).to_string());
            assert_eq!(row[at("trx_query")], "SELECT \u{fffd}1");
        }
        seen.push(text(name));
        number += 1;
    }
    assert!(seen.contains(&"TRX".to_string()) && seen.contains(&"METRICS".to_string()), "{seen:?}");
    assert_eq!(code!(hf_listing_name(number, &raw mut name)), Code::Invalid);
    assert_eq!(code!(hf_listing_rows(null(), 0, Some(push_row), null_mut())), Code::Invalid);
    ok!(hf_transaction_free(transaction));
    ok!(hf_close(database));
}
