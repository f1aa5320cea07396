//! Opening and closing a database, and what concerns all of it.

use std::ffi::c_void;
use std::path::Path;

use holdfast::raw::RawDatabase;
use holdfast::{BackupOptions, Error, ReplacementPolicy, Result};

use crate::Code;
use crate::handle::{Options, Slice, check_out, close, entry_points, exclusive, give, options, put, shared, take};

/// An open database.
pub struct Database(pub(crate) RawDatabase);

/// How data files are read and written.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMethod {
    /// Past the cache of the operating system.
    ODirect = 0,
    /// Through it.
    Fsync = 1,
}

impl From<FlushMethod> for holdfast::FlushMethod {
    fn from(method: FlushMethod) -> holdfast::FlushMethod {
        match method {
            FlushMethod::ODirect => holdfast::FlushMethod::ODirect,
            FlushMethod::Fsync => holdfast::FlushMethod::Fsync,
        }
    }
}

/// Which replacement policy the cache follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Holdfast's own, which a scan cannot wash out.
    Holdfast = 0,
    /// InnoDB's LRU list with a midpoint.
    MidpointLru = 1,
    /// Plain least recently used.
    Lru = 2,
}

impl Policy {
    fn with(self, old_blocks_pct: u32, old_blocks_time_ms: u32) -> ReplacementPolicy {
        match self {
            Policy::Holdfast => ReplacementPolicy::Holdfast,
            Policy::MidpointLru => ReplacementPolicy::MidpointLru { old_blocks_pct, old_blocks_time_ms },
            Policy::Lru => ReplacementPolicy::Lru,
        }
    }
}

/// Settings of a database; 0 stands for the default of each size.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of this structure.
    pub struct_size: usize,
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
    /// Bytes of undo log that one transaction may write.
    pub undo_limit: u64,
    /// How data files are read and written.
    pub flush_method: FlushMethod,
    /// Which replacement policy the cache follows.
    pub policy: Policy,
    /// Of midpoint_lru: percent.
    pub old_blocks_pct: u32,
    /// Of midpoint_lru: milliseconds.
    pub old_blocks_time: u32,
    /// True if the hot pages are remembered at close and loaded again at open.
    pub warm_up: bool,
    /// True if the cache is told which reads are scans.
    pub scan_hints: bool,
    /// Called now and then by `hf_open` while it recovers, with the bytes of log that are applied
    /// and that there are.
    pub recovery_progress: Option<extern "C" fn(done: u64, total: u64)>,
}

// SAFETY: it begins with its size, and zero is a value of each field.
unsafe impl Options for Settings {
    const SIZE_MIN: usize = 96;
}

impl Settings {
    /// Opens the database in `path`, or creates it.
    fn open(&self, path: &str) -> Result<RawDatabase> {
        // The server switches huge pages off for its process once its engines have started.
        let mut builder = holdfast::Database::builder()
            .snapshot_isolation(false)
            .populate_cache(true)
            .warm_up(self.warm_up)
            .scan_hints(self.scan_hints)
            .replacement_policy(self.policy.with(self.old_blocks_pct, self.old_blocks_time))
            .flush_method(self.flush_method.into());
        if self.cache_size != 0 {
            builder = builder.cache_size_bytes(self.cache_size);
        }
        if self.cache_size_max != 0 {
            builder = builder.cache_size_max_bytes(self.cache_size_max);
        }
        if self.log_capacity != 0 {
            builder = builder.log_capacity_bytes(self.log_capacity);
        }
        if self.log_buffer != 0 {
            builder = builder.log_buffer_bytes(self.log_buffer);
        }
        if self.version_limit != 0 {
            builder = builder.version_limit_bytes(self.version_limit);
        }
        if self.undo_limit != 0 {
            builder = builder.undo_limit_bytes(self.undo_limit);
        }
        if let Some(progress) = self.recovery_progress {
            builder = builder.on_recovery_progress(move |p| progress(p.log_bytes_done, p.log_bytes_total));
        }
        let database = match builder.open(Path::new(path)) {
            Err(Error::NotADatabase(_)) => {
                let page_size = usize::try_from(self.page_size).unwrap_or(0);
                let builder = if page_size == 0 { builder } else { builder.page_size(page_size) };
                builder.create(Path::new(path))?
            }
            found => found?,
        };
        Ok(RawDatabase::new(database))
    }
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
        check_out(out)?;
        let (path, settings) = (take!(path.text())?, take!(options(settings))?);
        take!(give(out, Database(settings.open(path)?)))?;
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
        take!(shared(database))?.0.database().checkpoint()?;
        Ok(Code::Ok)
    }

    /// Bytes of a page.
    fn hf_page_size(database: *const Database, out: *mut u64) {
        let bytes = take!(shared(database))?.0.page_size() as u64;
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
        take!(shared(database))?.0.database().set_cache_size_bytes(bytes)?;
        Ok(Code::Ok)
    }

    /// Changes how much log is kept between checkpoints, in bytes.
    fn hf_set_log_capacity(database: *const Database, bytes: u64) {
        take!(shared(database))?.0.database().set_log_capacity_bytes(bytes)?;
        Ok(Code::Ok)
    }

    /// Changes the replacement policy. For its parameters see [`Settings`].
    fn hf_set_policy(database: *const Database, policy: Policy, old_blocks_pct: u32, old_blocks_time: u32) {
        let policy = policy.with(old_blocks_pct, old_blocks_time);
        take!(shared(database))?.0.database().set_replacement_policy(policy)?;
        Ok(Code::Ok)
    }

    /// Whether the cache is told which reads are scans.
    fn hf_set_scan_hints(database: *const Database, on: bool) {
        take!(shared(database))?.0.database().set_scan_hints(on);
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
        let options = BackupOptions::new().stop_when(stops);
        let options = if rate_limit == 0 { options } else { options.rate_limit_bytes_per_second(rate_limit) };
        let report = database.0.database().backup(Path::new(take!(dir.text())?), &options)?;
        let (files, bytes, log_bytes, lsn) = (report.files, report.bytes, report.log_bytes, report.lsn);
        take!(put(out, BackupReport { files, bytes, log_bytes, lsn }));
        Ok(Code::Ok)
    }

    /// The latest deadlock as text into `out`; [`Code::NotFound`] if there was none.
    fn hf_latest_deadlock(database: *const Database, out: *mut Buffer) {
        let Some(text) = take!(shared(database))?.0.database().latest_deadlock() else { return Ok(Code::NotFound) };
        take!(exclusive(out))?.0 = text.into_bytes();
        Ok(Code::Ok)
    }

    /// The database's state as text, in InnoDB's sections, into `out`.
    fn hf_status_text(database: *const Database, out: *mut Buffer) {
        let text = take!(shared(database))?.0.database().status_text();
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
            for (description, value) in take!(shared(database))?.0.database().metrics_snapshot().values() {
                each(context, Slice::of(description.name.as_bytes()), value);
            }
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

    /// Appends to a buffer.
    fn hf_buffer_append(buffer: *mut Buffer, bytes: Slice) {
        take!(exclusive(buffer))?.0.extend_from_slice(take!(bytes.bytes()));
        Ok(Code::Ok)
    }

    /// Empties a buffer. One with more than `keep` bytes of memory gives it back.
    fn hf_buffer_clear(buffer: *mut Buffer, keep: usize) {
        let bytes = &mut take!(exclusive(buffer))?.0;
        bytes.clear();
        if bytes.capacity() > keep {
            *bytes = Vec::new();
        }
        Ok(Code::Ok)
    }

    /// Frees a buffer.
    fn hf_buffer_free(buffer: *mut Buffer) {
        drop(take!(close(buffer)));
        Ok(Code::Ok)
    }
}
