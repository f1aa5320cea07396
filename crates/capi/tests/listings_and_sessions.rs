//! Listings as C reads them, and the question back whose transaction it is.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use holdfast_capi::*;

/// A call that has to return a code.
macro_rules! code {
    ($call:expr) => {{
        // SAFETY: handles, slices and contexts in this test live as long as they are used.
        unsafe { $call }
    }};
}

fn slice(bytes: &[u8]) -> Slice {
    Slice { data: bytes.as_ptr(), len: bytes.len() }
}

fn text(slice: Slice) -> String {
    // SAFETY: shown by the library, and read at once.
    String::from_utf8(unsafe { std::slice::from_raw_parts(slice.data, slice.len) }.to_vec()).unwrap()
}

fn database(path: &str) -> *mut Database {
    let settings = Settings {
        cache_size: 0,
        cache_size_max: 0,
        log_capacity: 0,
        log_buffer: 0,
        page_size: 0,
        version_limit: 0,
        undo_limit: 0,
        flush_method: 1,
        policy: 0,
        old_blocks_pct: 0,
        old_blocks_time: 0,
        warm_up: true,
        scan_hints: true,
        recovery_progress: None,
    };
    let mut database = null_mut();
    assert_eq!(code!(hf_open(slice(path.as_bytes()), &raw const settings, &raw mut database)), Code::Ok);
    database
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
        assert!(cell.kind == column.kind || (cell.kind == 0 && column.nullable), "{}", text(column.name));
    }
    listed.rows.push(cells.iter().map(|c| if c.kind == 3 { text(c.text) } else { c.number.to_string() }).collect());
    true
}

fn list(database: *const Database, number: u32) -> Listed {
    let mut listed = Listed { columns: Vec::new(), rows: Vec::new() };
    let columns = (&raw mut listed.columns).cast();
    assert_eq!(code!(hf_listing_columns(number, Some(push_column), columns)), Code::Ok);
    let context = (&raw mut listed).cast();
    assert_eq!(code!(hf_listing_rows(database, number, Some(push_row), context)), Code::Ok);
    listed
}

extern "C" fn find_session(context: *mut c_void, serial: u64, out: *mut Session) -> bool {
    assert!(context.is_null());
    // SAFETY: the library's, for this call.
    let out = unsafe { &mut *out };
    out.id = 1000 + serial;
    assert_eq!(code!(hf_buffer_append(out.query, slice(b"SELECT "))), Code::Ok);
    assert_eq!(code!(hf_buffer_append(out.query, slice(b"\xff1"))), Code::Ok, "not UTF-8: shown as well as can be");
    true
}

#[test]
fn every_listing_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(&dir.path().join("db").display().to_string());
    assert_eq!(code!(hf_set_sessions(database, Some(find_session), null_mut())), Code::Ok);
    let options = TransactionOptions { isolation: 2, snapshot_isolation: false, read_only: false };
    let mut transaction = null_mut();
    assert_eq!(code!(hf_begin(database, &raw const options, &raw mut transaction)), Code::Ok);
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
    assert_eq!(code!(hf_transaction_free(transaction)), Code::Ok);
    assert_eq!(code!(hf_close(database)), Code::Ok);
}
