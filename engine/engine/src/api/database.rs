//! [`Database`]: the handle that everything starts from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use holdfast_io::Disk;
use holdfast_metrics::{Local, Spread, local};

use crate::Result;
use crate::api::transaction::{ReadTransaction, WriteTransaction};
use crate::ddl::tables;
use crate::instance::Instance;
use crate::instance::options::WriteOptions;
use crate::instance::settings::{Builder, ReplacementPolicy};
use crate::maintenance::backup::BackupOptions;
use crate::maintenance::compact::CompactReport;
use crate::maintenance::report::{VerifyOptions, VerifyProgress, VerifyReport};
use crate::maintenance::{backup, compact, salvage, salvage_files, verify};
use crate::observe::listing::{Cell, Listing};
use crate::observe::stats::{CacheStats, Stats, TableStats};
use crate::observe::{stats, status};
use crate::rows::definition::TableDefinition;
use crate::rows::types::{Key, Value};
use crate::schema::info::TableInfo;
use crate::session::retry;
use crate::session::transaction::Transaction;

/// An open database. Cloning the handle is cheap, and all clones are the same database, usable from
/// any thread.
///
/// It is closed by [`Database::close`], or when the last handle and the last transaction are
/// dropped. It belongs to the process that opened it: in a forked child every call fails with
/// [`crate::Error::Closed`], and dropping the handle there leaves the parent's database alone.
#[derive(Clone)]
pub struct Database {
    pub(crate) instance: Arc<Instance>,
    /// What transactions take a copy of.
    references: Arc<Spread<Local<Arc<Instance>>>>,
}

impl Database {
    pub(crate) fn new(instance: Arc<Instance>) -> Database {
        let references = Arc::new(Spread::new(|| local(Arc::clone(&instance))));
        Database { instance, references }
    }

    /// The calling thread's reference.
    pub(crate) fn reference(&self) -> &Local<Arc<Instance>> {
        self.references.mine()
    }

    /// Settings, to create or open a database with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Creates a database with the default settings.
    ///
    /// # Errors
    /// The errors of [`Builder::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Database> {
        Builder::default().create(path)
    }

    /// Opens a database with the default settings.
    ///
    /// # Errors
    /// The errors of [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Builder::default().open(path)
    }

    /// Opens a database with the default settings, or creates it.
    ///
    /// # Errors
    /// The errors of [`Builder::create_or_open`].
    pub fn create_or_open(path: impl AsRef<Path>) -> Result<Database> {
        Builder::default().create_or_open(path)
    }

    /// Creates a database in memory, with the default settings.
    ///
    /// # Errors
    /// The errors of [`Builder::in_memory`].
    pub fn in_memory() -> Result<Database> {
        Builder::default().in_memory()
    }

    /// Opens a database for reading, with the default settings.
    ///
    /// # Errors
    /// The errors of [`Builder::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Database> {
        Builder::default().open_read_only(path)
    }

    /// Begins a transaction that reads a snapshot.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Poisoned`].
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        Transaction::begin_read(self.reference()).map(ReadTransaction::new)
    }

    /// Begins a transaction that can write, with the database's defaults.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Poisoned`], [`crate::Error::ReadOnly`].
    pub fn begin_write(&self) -> Result<WriteTransaction> {
        self.begin_write_with(&WriteOptions::default())
    }

    /// Begins a transaction that can write.
    ///
    /// # Errors
    /// The errors of [`Database::begin_write`].
    pub fn begin_write_with(&self, options: &WriteOptions) -> Result<WriteTransaction> {
        Transaction::begin_write(self.reference(), options).map(WriteTransaction::new)
    }

    /// Runs `body` in a write transaction and commits it. When body or commit fails with
    /// [`crate::Error::Conflict`] or [`crate::Error::Deadlock`], or with
    /// [`crate::Error::SnapshotTooOld`] because a table is younger than its snapshot, the
    /// transaction is rolled back and everything is done again, so `body` must have no effect but
    /// on the database. What an attempt conflicted on is locked by the next one before `body` runs:
    /// it waits for its turn, and does not conflict there again. With any other error the
    /// transaction is rolled back and the error returned.
    ///
    /// # Errors
    /// What `body` returns; an error that makes it try again only after 1,000 attempts;
    /// [`crate::Error::LockTimeout`] if another transaction keeps what is to be locked first.
    pub fn transact<T>(&self, body: impl FnMut(&WriteTransaction) -> Result<T>) -> Result<T> {
        self.transact_with(&WriteOptions::default(), body)
    }

    /// [`Database::transact`] with options for the transaction.
    ///
    /// # Errors
    /// The errors of [`Database::transact`].
    pub fn transact_with<T>(
        &self,
        options: &WriteOptions,
        body: impl FnMut(&WriteTransaction) -> Result<T>,
    ) -> Result<T> {
        retry::transact(|| self.begin_write_with(options), body)
    }

    /// Creates a table. Crash-safe: it exists afterwards, or it does not.
    ///
    /// # Errors
    /// [`crate::Error::TableExists`]; [`crate::Error::InvalidArgument`] for a name that is empty or
    /// holds control characters, for a table's name longer than 1,023 bytes, an index's longer than
    /// 256, and two indexes of one name; [`crate::Error::DiskFull`], [`crate::Error::Io`],
    /// [`crate::Error::ReadOnly`].
    pub fn create_table<K: Key, V: Value>(&self, definition: &TableDefinition<K, V>) -> Result<()> {
        tables::create_table(&self.instance, definition).map(drop)
    }

    /// Creates a table with the rows that `rows` pushes, in ascending order of their keys: several
    /// times as fast as inserting them. Crash-safe: it exists afterwards with all rows, or it does
    /// not. The entries of its secondary indexes are sorted meanwhile: at most 64 MiB of them in
    /// memory, the rest in files of this directory that are gone afterwards. Other tables can be
    /// created and dropped meanwhile.
    ///
    /// ```
    /// # use holdfast::{Database, TableDefinition};
    /// const SQUARES: TableDefinition<u64, u64> = TableDefinition::new("squares");
    /// let db = Database::in_memory()?;
    /// db.create_table_with(&SQUARES, |table| (0..1000).try_for_each(|n| table.push(n, n * n)))?;
    /// assert_eq!(db.begin_read()?.open_table(&SQUARES)?.get(12)?, Some(144));
    /// # Ok::<(), holdfast::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Database::create_table`]; what `rows` returns; the errors of
    /// [`crate::TableLoader::push`] after which the load has failed, also if `rows` passes over
    /// them.
    pub fn create_table_with<K: Key, V: Value>(
        &self,
        definition: &TableDefinition<K, V>,
        rows: impl FnOnce(&mut crate::TableLoader<'_, K, V>) -> Result<()>,
    ) -> Result<()> {
        tables::create_table_with(&self.instance, definition, rows).map(drop)
    }

    /// Removes a table and gives its space back: its file is unlinked as soon as no transaction
    /// that began before needs it. Waits for write transactions that have opened the table to end,
    /// also for one of the calling thread.
    ///
    /// # Errors
    /// [`crate::Error::TableNotFound`]; [`crate::Error::LockTimeout`] if such a transaction does
    /// not end within the lock wait timeout; [`crate::Error::Io`], [`crate::Error::ReadOnly`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        tables::drop_table(&self.instance, name, self.instance.settings.lock_wait_timeout)
    }

    /// Gives a table another name. Transactions that began before know it by the old one.
    ///
    /// # Errors
    /// [`crate::Error::TableNotFound`], [`crate::Error::TableExists`];
    /// [`crate::Error::InvalidArgument`] for a name that [`Database::create_table`] refuses;
    /// [`crate::Error::LockTimeout`] if a prepared transaction without a session has changed the
    /// table; [`crate::Error::Io`], [`crate::Error::ReadOnly`].
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        tables::rename_table(&self.instance, from, to, &[])
    }

    /// The tables, sorted by name.
    #[must_use]
    pub fn list_tables(&self) -> Vec<TableInfo> {
        self.instance.list_tables()
    }

    /// What the database is doing: cache per table and index, log, transactions, waits, files.
    #[must_use]
    pub fn stats(&self) -> Stats {
        stats::collect(&self.instance)
    }

    /// The part of [`Database::stats`] about the cache. It reads no page, so that a monitor that
    /// asks ten times a second does not change what it watches.
    #[must_use]
    pub fn cache_stats(&self) -> (CacheStats, Vec<TableStats>) {
        stats::of_cache(&self.instance)
    }

    /// Calls `each` with every row of a listing, until it returns false.
    pub fn list(&self, listing: Listing, each: &mut dyn FnMut(&[Cell<'_>]) -> bool) {
        listing.list(&self.instance, each);
    }

    /// All counters and gauges now; see the crate `holdfast-metrics` for names and meaning.
    #[must_use]
    pub fn metrics_snapshot(&self) -> holdfast_metrics::Snapshot {
        self.instance.publish_metrics()
    }

    /// All counters; gauges as they were at the last snapshot by [`Database::metrics_snapshot`].
    #[must_use]
    pub fn metrics(&self) -> Arc<holdfast_metrics::Metrics> {
        Arc::clone(&self.instance.metrics)
    }

    /// The statistics as text, in sections like those of InnoDB's monitor.
    #[must_use]
    pub fn status_text(&self) -> String {
        status::text(&self.instance)
    }

    /// The latest deadlock as text: the waiters, and for which lock of which transaction each
    /// waited. `None` if there was none.
    #[must_use]
    pub fn latest_deadlock(&self) -> Option<String> {
        status::deadlock(&self.instance)
    }

    /// Checks every page and what hangs together: checksums, order of the trees, allocation, index
    /// entries against rows. Runs beside everything else. Damage is in the report; an error means
    /// that the check could not be done. It reads every page from disk, walks every tree, and reads
    /// rows and entries to compare them: about three times the bytes of the files. Beside many
    /// changes its snapshots may be given up ([`crate::Builder::version_limit_bytes`]); after
    /// several of them it goes on, and the report names the tables that were not compared.
    ///
    /// # Errors
    /// [`crate::Error::TableNotFound`] for a name in [`VerifyOptions::tables`];
    /// [`crate::Error::InvalidArgument`] if it is to find nothing; [`crate::Error::Closed`],
    /// [`crate::Error::Poisoned`], [`crate::Error::Io`].
    pub fn verify(&self, options: &VerifyOptions, progress: &mut dyn FnMut(&VerifyProgress)) -> Result<VerifyReport> {
        verify::verify(&self.instance, options, progress)
    }

    /// Copies what can be read of table `name` into the table of the same name in `target`, which
    /// is created there if there is none, and passes over damaged pages. Rows are copied as they
    /// are committed when this begins; as they are, if their older versions cannot be read.
    /// Indexes of that table get the entries of the rows that were saved. To have them all, create
    /// the table with its definition in `target` first: otherwise a damaged index is left out,
    /// unless the program has opened the table here for writing. If damage has made the table's
    /// name one that no table can have, it gets that of its file.
    ///
    /// # Errors
    /// [`crate::Error::TableNotFound`]; [`crate::Error::TableMismatch`] if the table in `target`
    /// has other types, or indexes of which it is not known how their entries are made;
    /// [`crate::Error::InvalidArgument`] if `target` is this database;
    /// [`crate::Error::SnapshotTooOld`] if the table is written to meanwhile, or a transaction
    /// without a session is unfinished, and the snapshot is given up
    /// ([`crate::Builder::version_limit_bytes`]): what is in `target` then is of several moments;
    /// errors of `target`.
    pub fn salvage_table(&self, name: &str, target: &Database) -> Result<crate::SalvageReport> {
        self.salvage_table_with(name, target, &|_| ())
    }

    /// As [`Database::salvage_table`]; `progress` is told how far it has come.
    ///
    /// # Errors
    /// The errors of [`Database::salvage_table`].
    pub fn salvage_table_with(
        &self,
        name: &str,
        target: &Database,
        progress: &dyn Fn(&VerifyProgress),
    ) -> Result<crate::SalvageReport> {
        salvage::salvage_table(self.reference(), name, target.reference(), progress)
    }

    /// Copies what can be read of the tables whose files are in the directory `dir` into tables of
    /// this database, which are created if there are none of these names: for what cannot be opened
    /// at all, because the log, `holdfast.meta` or the catalog is lost or damaged. The name of each
    /// table and what was found of it. Where a database can be opened, [`Database::salvage_table`]
    /// finds more.
    ///
    /// Nothing is recovered: changes that were only in the log are missing, and those of
    /// transactions that had not committed are there. A table that the catalog does not name any
    /// more is saved as plain bytes under the name of its file. The tables of this database that
    /// take the rows should be empty: a row there is replaced by one of the same key, and goes if
    /// the files say that it was deleted. New tables have no indexes; those
    /// of a table that this database has, and that was created or opened for writing since it was
    /// opened, are filled.
    ///
    /// # Errors
    /// [`crate::Error::AlreadyOpen`] if a program has `dir` open; [`crate::Error::NotADatabase`]
    /// without a table's file; [`crate::Error::DamagedFile`] without a sound page;
    /// [`crate::Error::TableMismatch`] if a table here has other types; errors of this database.
    pub fn salvage_files(&self, dir: impl AsRef<Path>) -> Result<Vec<(String, crate::SalvageReport)>> {
        self.salvage_files_with(dir, None, &|_| ())
    }

    /// As [`Database::salvage_files`], of the file `only` if it is given, as
    /// [`Database::salvage_file`]; `progress` is told how far it has come with each file.
    ///
    /// # Errors
    /// The errors of [`Database::salvage_files`].
    pub fn salvage_files_with(
        &self,
        dir: impl AsRef<Path>,
        only: Option<&str>,
        progress: &dyn Fn(&VerifyProgress),
    ) -> Result<Vec<(String, crate::SalvageReport)>> {
        salvage_files::salvage_files(salvage_files::directory(dir.as_ref())?, only, self.reference(), progress)
    }

    /// As [`Database::salvage_files`], from `disk` instead of a directory of the file system: for
    /// tests and models.
    ///
    /// # Errors
    /// The errors of [`Database::salvage_files`].
    pub fn salvage_files_on(&self, disk: Arc<dyn Disk>) -> Result<Vec<(String, crate::SalvageReport)>> {
        salvage_files::salvage_files(disk, None, self.reference(), &|_| ())
    }

    /// As [`Database::salvage_files`], of the table in one file of `dir` ([`TableInfo::file`]): for
    /// a table that [`Database::salvage_table`] refuses because the header of its file is damaged.
    /// Its database may be open for reading ([`Database::open_read_only`]).
    ///
    /// # Errors
    /// As there; [`crate::Error::DamagedFile`] if the file is missing.
    pub fn salvage_file(&self, dir: impl AsRef<Path>, file: &str) -> Result<(String, crate::SalvageReport)> {
        let saved = self.salvage_files_with(dir, Some(file), &|_| ())?;
        saved.into_iter().next().ok_or_else(|| crate::Error::damaged_file(file, "it is missing"))
    }

    /// Copies the database, as of the end of the call, into the new directory `dir`, while it is in
    /// use. The copy is opened like any database; [`Database::restore`] checks and recovers it
    /// first. After an error `dir` may hold a part of a copy, which cannot be opened.
    ///
    /// ```
    /// # use holdfast::{BackupOptions, Database, Result};
    /// # fn main() -> Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (db, monday) = (Database::create(dir.path().join("db"))?, dir.path().join("monday"));
    /// let report = db.backup(&monday, &BackupOptions::new())?;
    /// println!("{} files, {} bytes", report.files, report.bytes);
    ///
    /// Database::restore(&monday)?;
    /// let copy = Database::open(&monday)?;
    /// # copy.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::AlreadyExists`] if `dir` is not empty; [`crate::Error::Interrupted`] if
    /// [`BackupOptions::stop_when`] says so; [`crate::Error::DamagedPage`];
    /// [`crate::Error::DamagedFile`] and [`crate::Error::Incompatible`] for a table whose file
    /// cannot be used, unless [`BackupOptions::leave_out_damaged`] is set;
    /// [`crate::Error::InvalidArgument`] for a rate of 0; [`crate::Error::DiskFull`],
    /// [`crate::Error::Io`].
    pub fn backup(&self, dir: impl AsRef<Path>, options: &BackupOptions) -> Result<crate::BackupReport> {
        backup::backup(&self.instance, dir.as_ref(), options)
    }

    /// [`Builder::restore`] with the default settings.
    ///
    /// # Errors
    /// The errors of [`Builder::restore`].
    pub fn restore(dir: impl AsRef<Path>) -> Result<VerifyReport> {
        Database::builder().restore(dir)
    }

    /// Moves pages from the ends of the tables' files into free space further ahead and cuts the
    /// files, while they are in use. Walks over every tree, and writes each page that it moves. The
    /// root of a tree and the pages of a large value stay where they are, and so does what lies
    /// before the last of them.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`], [`crate::Error::DiskFull`], [`crate::Error::Io`].
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(&|_| ())
    }

    /// As [`Database::compact`]; `progress` is told how far it has come.
    ///
    /// # Errors
    /// The errors of [`Database::compact`].
    pub fn compact_with(&self, progress: &dyn Fn(&VerifyProgress)) -> Result<CompactReport> {
        compact::compact(&self.instance, progress)
    }

    /// Writes all changed pages and moves the checkpoint to the end of the log. Not needed in
    /// normal running: checkpoints are continuous.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`], [`crate::Error::DiskFull`], [`crate::Error::Io`].
    pub fn checkpoint(&self) -> Result<()> {
        self.instance.checkpoint()
    }

    /// Changes the size of the cache, in bytes, while it is in use.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] below 5 MiB, above the maximum chosen at open, or above
    /// the memory of the machine with its swap space.
    pub fn set_cache_size_bytes(&self, bytes: u64) -> Result<()> {
        self.instance.set_cache_size(bytes)
    }

    /// Changes how much log is kept between checkpoints, in bytes, while it is written. Less takes
    /// effect as the checkpoint follows. It lasts until the database is closed.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] below 4 MiB, or if it is too little for the log buffer
    /// chosen at open; [`crate::Error::DiskFull`] if there is no room for what a larger log keeps
    /// for rollback; then nothing has changed. [`crate::Error::Poisoned`], [`crate::Error::Io`].
    pub fn set_log_capacity_bytes(&self, bytes: u64) -> Result<()> {
        self.instance.set_log_capacity(bytes)
    }

    /// Changes the replacement policy while the cache is in use; its content stays.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a parameter out of range; [`crate::Error::Closed`],
    /// [`crate::Error::Poisoned`].
    pub fn set_replacement_policy(&self, policy: ReplacementPolicy) -> Result<()> {
        self.instance.set_policy(policy)
    }

    /// Whether the cache is told which ranges are scans; see [`Builder::scan_hints`].
    pub fn set_scan_hints(&self, on: bool) {
        self.instance.set_scan_hints(on);
    }

    /// Closes the database: writes all changed pages, checkpoints, saves the warm-up list, so that
    /// the next open has nothing to recover. Transactions that still run, other handles and
    /// snapshots get [`crate::Error::Closed`] from now on; so does, at once, a thread that waits
    /// for a row or a table. What was not committed is rolled back by the next open. The database
    /// can be opened again when this returns, also after an error.
    ///
    /// # Errors
    /// [`crate::Error::Closed`] in a forked child, where nothing is done;
    /// [`crate::Error::Poisoned`], [`crate::Error::DiskFull`], [`crate::Error::Io`]: nothing
    /// committed is lost, the next open recovers.
    pub fn close(self) -> Result<()> {
        self.instance.close()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.instance.leak_in_child();
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({})", self.instance.describe())
    }
}
