//! What the tests of the interface share.
#![allow(dead_code)]

use std::ptr::null_mut;

use holdfast_capi::*;

pub fn slice(bytes: &[u8]) -> Slice {
    Slice { data: bytes.as_ptr(), len: bytes.len() }
}

/// What a call returns.
macro_rules! code {
    ($call:expr) => {{
        // SAFETY: handles, slices and contexts in these tests live as long as they are used.
        unsafe { $call }
    }};
}
pub(crate) use code;

/// A call that has to succeed.
macro_rules! ok {
    ($call:expr) => {
        assert_eq!(crate::common::code!($call), Code::Ok)
    };
}
pub(crate) use ok;

/// The default settings.
pub fn settings() -> Settings {
    Settings {
        struct_size: size_of::<Settings>(),
        cache_size: 0,
        cache_size_max: 0,
        log_capacity: 0,
        log_buffer: 0,
        page_size: 0,
        version_limit: 0,
        undo_limit: 0,
        flush_method: FlushMethod::Fsync,
        policy: Policy::Holdfast,
        old_blocks_pct: 0,
        old_blocks_time: 0,
        warm_up: true,
        scan_hints: true,
        recovery_progress: None,
    }
}

/// Opens or creates a database with default settings.
pub fn open(path: &str, recovery_progress: Option<extern "C" fn(u64, u64)>) -> *mut Database {
    open_with(path, recovery_progress, 0)
}

/// The same, with so many bytes of old versions; 0: the default.
pub fn open_with(path: &str, recovery_progress: Option<extern "C" fn(u64, u64)>, version_limit: u64) -> *mut Database {
    let settings = Settings { version_limit, recovery_progress, ..settings() };
    let mut database = null_mut();
    ok!(hf_open(slice(path.as_bytes()), &raw const settings, &raw mut database));
    database
}

/// Creates a table with one index, and opens it.
pub fn create(database: *const Database, name: &[u8]) -> *mut Table {
    let rows = [IndexSpec { name: slice(b"rows"), unique: true }];
    ok!(hf_table_create(database, slice(name), rows.as_ptr(), rows.len(), slice(b""), false));
    let mut table = null_mut();
    ok!(hf_table_open(database, slice(name), &raw mut table));
    table
}

/// Begins a transaction that writes, at REPEATABLE READ.
pub fn begin(database: *const Database) -> *mut Transaction {
    let options = TransactionOptions {
        struct_size: size_of::<TransactionOptions>(),
        isolation: Isolation::RepeatableRead,
        snapshot_isolation: false,
        read_only: false,
    };
    let mut transaction = null_mut();
    ok!(hf_begin(database, &raw const options, &raw mut transaction));
    transaction
}
