//! Opening and closing a database, and what concerns all of it.

use std::ffi::c_void;

use crate::Code;
use crate::handle::{Slice, close, entry_points, exclusive, give, put, shared, take};
use crate::raw;

/// An open database.
pub struct Database(pub(crate) raw::Database);

/// Settings of a database; 0 stands for the default of each size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of the page cache.
    pub cache_size: u64,
    /// The largest value that it may be changed to while the database is open.
    pub cache_size_max: u64,
    /// Bytes of log kept between checkpoints.
    pub log_capacity: u64,
    /// Bytes of the log buffer.
    pub log_buffer: u64,
    /// Page size, for a database that is created.
    pub page_size: u64,
    /// Bytes of old row versions kept for long snapshots.
    pub version_limit: u64,
    /// Bytes of undo log of the transactions that run.
    pub undo_limit: u64,
    /// 0 `O_DIRECT`, 1 `fsync`.
    pub flush_method: u32,
    /// 0 holdfast, 1 midpoint_lru, 2 lru.
    pub policy: u32,
    /// Of midpoint_lru: percent.
    pub old_blocks_pct: u32,
    /// Of midpoint_lru: milliseconds.
    pub old_blocks_time: u32,
    /// Whether the hot pages are remembered at close and loaded again at open.
    pub warm_up: bool,
    /// Whether the cache is told which reads are scans.
    pub scan_hints: bool,
    /// Called now and then by `hf_open` while it recovers, with the bytes of log that are applied
    /// and that there are.
    pub recovery_progress: Option<extern "C" fn(done: u64, total: u64)>,
}

/// What a backup copied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BackupReport {
    /// Files of pages.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of log.
    pub log_bytes: u64,
    /// It holds what was committed up to this position of the log.
    pub lsn: u64,
}

/// What a function of the caller wants to be called with.
struct Caller(*mut c_void);

// SAFETY: the function is called by the thread that made the call, and within it.
unsafe impl Send for Caller {}
// SAFETY: as above.
unsafe impl Sync for Caller {}

impl Caller {
    fn context(&self) -> *mut c_void {
        self.0
    }
}

entry_points! {
    /// Opens the database in the directory `path`, or creates it; recovers it first if it was not
    /// closed.
    fn hf_open(path: Slice, settings: *const Settings, out: *mut *mut Database) {
        let (path, settings) = (take!(path.text())?, take!(shared(settings))?);
        take!(give(out, Database(raw::Database::open(path, settings)?)))?;
        Ok(Code::Ok)
    }

    /// Closes a database. Its tables, transactions and cursors have to be closed before.
    fn hf_close(database: *mut Database) {
        if let Some(database) = take!(close(database)) {
            database.0.close()?;
        }
        Ok(Code::Ok)
    }

    /// Makes all changes so far part of the files and moves the checkpoint to the end of the log.
    fn hf_checkpoint(database: *const Database) {
        take!(shared(database))?.0.checkpoint()?;
        Ok(Code::Ok)
    }

    /// Bytes of a page.
    fn hf_page_size(database: *const Database, out: *mut u64) {
        let bytes = take!(shared(database))?.0.page_size();
        take!(put(out, bytes));
        Ok(Code::Ok)
    }

    /// Bytes of the longest key.
    fn hf_key_limit(database: *const Database, out: *mut u64) {
        let limit = take!(shared(database))?.0.key_limit();
        take!(put(out, limit));
        Ok(Code::Ok)
    }

    /// Makes all commits so far durable.
    fn hf_flush_log(database: *const Database) {
        take!(shared(database))?.0.flush_log()?;
        Ok(Code::Ok)
    }

    /// Changes the size of the cache, in bytes.
    fn hf_set_cache_size(database: *const Database, bytes: u64) {
        take!(shared(database))?.0.set_cache_size(bytes)?;
        Ok(Code::Ok)
    }

    /// Changes how much log is kept between checkpoints, in bytes.
    fn hf_set_log_capacity(database: *const Database, bytes: u64) {
        take!(shared(database))?.0.set_log_capacity(bytes)?;
        Ok(Code::Ok)
    }

    /// Changes the replacement policy; the values of [`Settings`].
    fn hf_set_policy(database: *const Database, policy: u32, old_blocks_pct: u32, old_blocks_time: u32) {
        take!(shared(database))?.0.set_policy(policy, old_blocks_pct, old_blocks_time)?;
        Ok(Code::Ok)
    }

    /// Whether the cache is told which reads are scans.
    fn hf_set_scan_hints(database: *const Database, on: bool) {
        take!(shared(database))?.0.set_scan_hints(on);
        Ok(Code::Ok)
    }

    /// Copies the database, as of the end of the call, into the directory `dir`, which is new or
    /// empty, while it is in use; at most `rate_limit` bytes a second unless that is 0. `stop` is
    /// asked now and then; if it says so, the copy is given up with [`Code::Interrupted`].
    fn hf_backup(
        database: *const Database,
        dir: Slice,
        rate_limit: u64,
        stop: Option<extern "C" fn(context: *mut c_void) -> bool>,
        context: *mut c_void,
        out: *mut BackupReport,
    ) {
        let database = take!(shared(database))?;
        let caller = Caller(context);
        let stops = move || stop.is_some_and(|stop| stop(caller.context()));
        let report = database.0.backup(take!(dir.text())?, rate_limit, stops)?;
        let (files, bytes, log_bytes, lsn) = (report.files, report.bytes, report.log_bytes, report.lsn);
        take!(put(out, BackupReport { files, bytes, log_bytes, lsn }));
        Ok(Code::Ok)
    }

    /// The latest deadlock as text into `out`; [`Code::NotFound`] if there was none.
    fn hf_latest_deadlock(database: *const Database, out: *mut Buffer) {
        let Some(text) = take!(shared(database))?.0.latest_deadlock() else { return Ok(Code::NotFound) };
        take!(exclusive(out))?.0 = text.into_bytes();
        Ok(Code::Ok)
    }

    /// The database's state as text, in InnoDB's sections, into `out`.
    fn hf_status_text(database: *const Database, out: *mut Buffer) {
        let text = take!(shared(database))?.0.status_text();
        take!(exclusive(out))?.0 = text.into_bytes();
        Ok(Code::Ok)
    }

    /// Calls `each` with name and value of every counter and gauge.
    fn hf_metrics(
        database: *const Database,
        each: Option<extern "C" fn(context: *mut c_void, name: Slice, value: u64)>,
        context: *mut c_void,
    ) {
        if let Some(each) = each {
            take!(shared(database))?.0.metrics(&mut |name, value| each(context, Slice::of(name.as_bytes()), value));
        }
        Ok(Code::Ok)
    }
}

/// Bytes that the library grows and the caller reads.
pub struct Buffer(pub(crate) Vec<u8>);

entry_points! {
    /// An empty buffer.
    fn hf_buffer_new(out: *mut *mut Buffer) {
        take!(give(out, Buffer(Vec::new())))?;
        Ok(Code::Ok)
    }

    /// The bytes of a buffer, valid until it is used in another call.
    fn hf_buffer_bytes(buffer: *const Buffer, out: *mut Slice) {
        let bytes = Slice::of(&take!(shared(buffer))?.0);
        take!(put(out, bytes));
        Ok(Code::Ok)
    }

    /// Frees a buffer.
    fn hf_buffer_free(buffer: *mut Buffer) {
        drop(take!(close(buffer)));
        Ok(Code::Ok)
    }
}
