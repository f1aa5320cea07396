//! Holdfast is a transactional storage engine to embed in a Rust program: ordered tables of keys
//! and values in a directory, many concurrent writers, snapshots that block no writer, and a page
//! cache that a scan cannot wash out.
//!
//! ```
//! use holdfast::{Database, Result, TableDefinition};
//!
//! const VISITS: TableDefinition<&str, u64> = TableDefinition::new("visits");
//!
//! fn main() -> Result<()> {
//!     # let dir = tempfile::tempdir().unwrap();
//!     # let path = dir.path().join("db");
//!     let db = Database::create(&path)?;
//!
//!     let txn = db.begin_write()?;
//!     txn.open_table(&VISITS)?.insert("home", 1)?;
//!     txn.commit()?;
//!
//!     // `transact` repeats its body when another transaction got in the way.
//!     db.transact(|txn| {
//!         let visits = txn.open_table(&VISITS)?;
//!         let count = visits.get("home")?.unwrap_or(0);
//!         visits.upsert("home", count + 1)
//!     })?;
//!
//!     let txn = db.begin_read()?;
//!     let visits = txn.open_table(&VISITS)?;
//!     assert_eq!(visits.get("home")?, Some(2));
//!     for row in visits.range("a"..="z")?.rev() {
//!         let (page, count) = row?;
//!         println!("{page}: {count}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # A secondary index
//!
//! ```
//! use holdfast::{Database, Error, IndexDefinition, Result, TableDefinition};
//!
//! /// Name and city by number, with an index on the city.
//! const BY_CITY: IndexDefinition<u64, (&str, &str), &str> =
//!     IndexDefinition::new("by_city", |_number: &u64, (_name, city): &(String, String), keys| {
//!         keys.push(city)
//!     });
//!
//! fn people() -> TableDefinition<u64, (&'static str, &'static str)> {
//!     TableDefinition::new("people").index(&BY_CITY)
//! }
//!
//! # fn main() -> Result<()> {
//! # let db = Database::in_memory()?;
//! db.transact(|txn| {
//!     let people = txn.open_table(&people())?;
//!     people.insert(1, ("Ada", "London"))?;
//!     people.insert(2, ("Grace", "New York"))?;
//!     // A statement that fails has no effect, and the transaction goes on.
//!     let again = people.insert(1, ("Alan", "London"));
//!     assert!(matches!(again, Err(Error::DuplicateKey)));
//!     Ok(())
//! })?;
//!
//! let txn = db.begin_read()?;
//! let by_city = txn.open_table(&people())?.index(&BY_CITY)?;
//! for row in by_city.range("London"..="London")? {
//!     let (city, number, (name, _)) = row?;
//!     assert_eq!((city.as_str(), number, name.as_str()), ("London", 1, "Ada"));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Errors
//!
//! [`Error`] says what has happened and where, and each variant what to do. They leave the
//! transaction in different states:
//!
//! | error | transaction | program |
//! |---|---|---|
//! | `Conflict`, `Deadlock` | rolled back | repeats it; [`Database::transact`] does |
//! | `DuplicateKey`, `KeyTooLong`, `ValueTooLong` | goes on without the statement | decides |
//! | `LockTimeout`, `WouldBlock`, `LimitReached`, `DiskFull` | the same | decides |
//! | `SnapshotTooOld` | reads no more of that snapshot, or of that table | begins a new one |
//! | `HalfUndone` | can only be rolled back | rolls it back |
//! | `DamagedPage`, `DamagedFile` | cannot use that table | restores a backup, or salvages |
//! | `Incompatible` | cannot use that table, which a newer version wrote | uses the newer version |
//! | `Poisoned`, `Closed` | over | closes the database, and opens it again |
//!
//! [`WriteTransaction::refused_key`] names the table and the index that `DuplicateKey` and
//! `KeyTooLong` are about. The documentation of a call lists the errors that are its own.
//! `Poisoned`, `Closed`, `Io`, `DamagedPage` and `DamagedFile` can come from every call that
//! returns a `Result`, and `Incompatible` from every call that uses a table.
//!
//! # What there is
//!
//! * [`Database`]: a directory, opened by one process at a time, or by several that only read;
//!   [`Builder`] for its settings.
//! * [`ReadTransaction`], a snapshot, and [`WriteTransaction`], of which many run at once: row
//!   locks, isolation levels ([`Isolation`]), deadlock detection, savepoints, statements that fail
//!   as a whole.
//! * [`Table`]s from [`TableDefinition`]s: typed keys and values ([`Key`], [`Value`]), ranges in
//!   both directions, [`Cursor`]s that fill the caller's buffers, secondary indexes
//!   ([`IndexDefinition`]) kept up by the engine.
//! * Online [`Database::backup`], [`Database::verify`], [`Database::compact`],
//!   [`Database::salvage_table`], and [`Database::stats`], which says how many bytes of which index
//!   are in the cache.
//!
//! # The cache
//!
//! Programs mix small requests with dumps, reports and backups, and a cache that follows recency
//! forgets the former for the latter. Holdfast's does not: a page has to be asked for again after
//! some time before it displaces pages in use, and long scans pass through a small ring. No hint is
//! needed; [`ReadOptions::scan`] gives one.
//!
//! # What a commit promises
//!
//! By default ([`FlushAtCommit::Sync`]) a commit that returned `Ok` survives a power cut; commits
//! of concurrent transactions share one sync of the log. [`FlushAtCommit::Write`] survives the end
//! of the process only, and [`FlushAtCommit::Lazy`] may lose the last second or so; neither ever
//! leaves half a transaction. The choice is made per database ([`Builder::flush_log_at_commit`]),
//! per transaction ([`WriteOptions::flush_at_commit`]) or per commit
//! ([`WriteTransaction::commit_with`]).
//!
//! Torn pages are repaired at open. A failed sync stops the database ([`Error::Poisoned`]): only a
//! reopen, which recovers from the log, can tell what is durable. A full disk fails statements,
//! loses nothing, and work goes on once there is room. One thing no log can know: whether the very
//! last group of bytes before a power cut was still being written or was damaged later; it is taken
//! for the former.
//!
//! # Threads and async
//!
//! [`Database`] is `Send + Sync` and cheap to clone. Transactions, tables and ranges are `Send +
//! Sync` too, and a transaction's statements run one at a time: share one between threads and they
//! take turns. What belongs to a transaction cannot outlive it:
//!
//! ```compile_fail,E0505
//! # use holdfast::{Database, TableDefinition};
//! # const T: TableDefinition<u64, u64> = TableDefinition::new("t");
//! # let db = Database::in_memory().unwrap();
//! let txn = db.begin_write().unwrap();
//! let mut rows = txn.open_table(&T).unwrap().iter().unwrap();
//! txn.commit().unwrap();
//! rows.next();
//! ```
//!
//! Calls block, on disk and on locks; from async code run a whole transaction in `spawn_blocking`
//! (or a thread of its own), rather than one call at a time, so that no lock is held across an
//! await.
//!
//! Dropping an unfinished write transaction rolls it back. A snapshot that lives long keeps one old
//! version of each row that changes. At the limit ([`Builder::version_limit_bytes`], which says
//! which snapshots are exempt) the oldest snapshot gets [`Error::SnapshotTooOld`].
//!
//! # Limits
//!
//! | | |
//! |---|---|
//! | key, encoded; an index key has the primary key appended | a quarter of the page |
//! | value, encoded | 4 GiB - 1; longer than about half a page: in pages of its own |
//! | page | 4, 8, 16 (default), 32 or 64 KiB |
//! | file of one table | 2^32 pages: 64 TiB at 16 KiB |
//! | cache | 5 MiB up to the reserved maximum, changeable at run time |
//! | log capacity | 4 MiB and up |
//!
//! # The file format
//!
//! Every file carries a format version and feature bits. A release that cannot read what an older
//! one wrote will have a new major version and a tool that converts; before 1.0 that means a new
//! minor version. A database that a newer version wrote is refused with [`Error::Incompatible`],
//! never guessed at.
//!
//! # What it is not
//!
//! It is no SQL database, no server, and not spread over machines. Two processes at a time share a
//! database only to read it. It is no log-structured store: bulk inserts in random order cost page
//! reads and writes. A database takes some MiB of cache and log, so for a handful of keys a plain
//! file is better. It is tested on Linux alone.
#![forbid(unsafe_code)]

mod api;
mod ddl;
mod instance;
mod maintenance;
mod observe;
pub mod raw;
mod rows;
mod schema;
mod session;
mod sort;
mod startup;

pub use api::database::Database;
pub use api::index::{Entry, Index, IndexEntries, IndexRange, IndexedRow};
pub use api::range::{Cursor, Range};
pub use api::table::{ReadTable, Table};
pub use api::transaction::{ReadTransaction, Savepoint, WriteTransaction};
pub use ddl::load::TableLoader;
pub use instance::options::{FlushAtCommit, Isolation, ReadOptions, Scan, WaitMode, WriteOptions};
pub use instance::settings::{Builder, RecoveryProgress, ReplacementPolicy};
pub use maintenance::backup::{BackupOptions, BackupProgress, BackupReport};
pub use maintenance::compact::CompactReport;
pub use maintenance::report::{Finding, VerifyOptions, VerifyProgress, VerifyReport};
pub use maintenance::salvage::SalvageReport;
pub use observe::listing::{Cell, Column, ColumnType, Listing};
pub use observe::stats::{
    CacheStats, IndexStats, LogStats, MemoryStats, SpaceStats, Stats, TableStats, TransactionStats, WaitStats,
};
pub use rows::definition::{Extractor, IndexDefinition, IndexKeys, TableDefinition};
pub use rows::encoding::Row;
pub use rows::types::{Key, Value};
pub use schema::info::{IndexInfo, TableInfo};
pub use session::transaction::RefusedKey;

pub use holdfast_base::{Error, Result, limits};
pub use holdfast_io as io;
pub use holdfast_io::{Clock, Disk, FlushMethod};
pub use holdfast_metrics as metrics;

/// The program in README.md compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
