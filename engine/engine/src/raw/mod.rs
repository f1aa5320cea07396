//! For layers that bring their own formats: tables of byte strings, made of an index of rows and of
//! indexes whose entries the caller makes, keeps up and reads. A database server's handler is one.
//!
//! Index 0 of a table holds its rows; the others hold entries. The key of an entry is an index key
//! followed by the row's key, which makes it unique; its value begins with the length of the index
//! key as a varint ([`row_key_begin`](holdfast_txn::row_key_begin)). All have versions and locks of
//! their own, so that an entry can be read without its row.
//!
//! A [`RawTransaction`] belongs to one user at a time and does not undo a failed call as a whole:
//! the caller takes savepoints and goes back to them. After [`Error::Deadlock`] and
//! [`Error::Conflict`] it has to roll back.
//!
//! A row may begin with a *head*: if it is too large for its page, its head is kept there and the
//! rest elsewhere. A read without a lock may be content with the head ([`Part::Head`]), and a
//! change of the head alone does not write the rest again.

mod alter;
mod index_load;
mod load;
mod table;
mod transaction;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use holdfast_txn::TxnOptions;

pub use alter::{IndexSource, RawAlter};
pub use holdfast_tree::Lifetime;
pub use holdfast_txn::{
    Direction, EarlyRelease, LockMode, NewValue, Part, RowCursor, ScanMode, Session, TxnSavepoint, WaitInterest,
    WaitObserver,
};
pub use load::{Duplicate, RawLoad};
pub use table::RawTable;
pub use transaction::{RawLock, RawOptions, RawRead, RawTransaction};

pub use crate::rows::entry_sum::EntrySum;
pub use crate::schema::marks::MARKS;

use crate::instance::Instance;
use crate::maintenance::salvage_files;
use crate::rows::definition::{IndexSpec, TableDefinition};
use crate::schema::marks::Marks;
use crate::{Database, Error, Result};

/// The key type under which such indexes stand in the catalog.
const KEY_TYPE: &str = "raw";

/// A database seen as tables of byte strings.
pub struct RawDatabase {
    database: Database,
}

impl RawDatabase {
    /// The database's tables as byte strings.
    #[must_use]
    pub fn new(database: Database) -> RawDatabase {
        RawDatabase { database }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.database
    }

    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.database.instance
    }

    /// Creates a table. `indexes`: name of each secondary index, and whether it is unique, for
    /// listings. `options` are bytes of the caller's that are kept with it in the catalog. Nothing
    /// of a temporary table is made durable: it ends with the run of the database that made it, the
    /// next open drops what is left, and a backup does not have it.
    ///
    /// # Errors
    /// The errors of [`Database::create_table`].
    pub fn create_table(&self, name: &str, indexes: &[(&str, bool)], options: &[u8], lifetime: Lifetime) -> Result<()> {
        let mut definition = TableDefinition::<&[u8], &[u8]>::named(name);
        definition.indexes.extend(indexes.iter().map(|(name, unique)| {
            Arc::new(IndexSpec {
                name: (*name).into(),
                unique: *unique,
                key_type: KEY_TYPE.into(),
                extract: Box::new(|_, _, _| Err(Error::invalid("the entries of this index are made by its user"))),
            })
        }));
        crate::ddl::tables::create_with_options(self.instance(), &definition, options, lifetime).map(drop)
    }

    /// Opens a table.
    ///
    /// # Errors
    /// [`Error::TableNotFound`]; damage of the table.
    pub fn open_table(&self, name: &str) -> Result<RawTable> {
        let instance = self.instance();
        let handle = instance.schema().get(name).cloned().ok_or_else(|| Error::TableNotFound(name.into()))?;
        let mut known = instance.marks.lock();
        let id = handle.record.space;
        if let Some(marks) = known.get(&id) {
            return Ok(RawTable { handle, instance: Arc::clone(instance), marks: Arc::clone(marks) });
        }
        let marks = Arc::new(Marks::load(&handle.store)?);
        let table = RawTable { handle, instance: Arc::clone(instance), marks };
        table.count_again()?;
        // One that was dropped since it was looked up would stay here, and keep its file.
        if !table.handle.store.file.is_dropped() {
            known.insert(id, Arc::clone(&table.marks));
        }
        Ok(table)
    }

    /// Removes a table. It waits for transactions that have written to a lasting table for `wait`,
    /// and for none that has written to a temporary one: what they did there is forgotten.
    ///
    /// # Errors
    /// The errors of [`Database::drop_table`].
    pub fn drop_table(&self, name: &str, wait: Duration) -> Result<()> {
        crate::ddl::tables::drop_table(self.instance(), name, wait)
    }

    /// Replaces a table by an empty one of the same name, indexes and options, in one change of the
    /// catalog. Handles that are open see the old one. It waits as [`RawDatabase::drop_table`]
    /// does.
    ///
    /// # Errors
    /// The errors of [`Database::create_table`] and [`Database::drop_table`].
    pub fn truncate_table(&self, name: &str, wait: Duration) -> Result<()> {
        crate::ddl::replace::truncate_table(self.instance(), name, wait)
    }

    /// True if no prepared transaction without a session has changed a table: a copy that replaces
    /// the table would lose its changes. What such transactions have changed is read once. This
    /// waits, as long as `wait`, for another thread that reads it or that has adopted one.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if one has; [`Error::Interrupted`]; [`Error::TableNotFound`]; the
    /// errors of reading pages.
    pub fn check_unprepared(&self, name: &str, wait: Duration) -> Result<()> {
        crate::ddl::tables::check_unprepared(self.instance(), name, wait)
    }

    /// The options of a table.
    ///
    /// # Errors
    /// [`Error::TableNotFound`].
    pub fn options(&self, name: &str) -> Result<Vec<u8>> {
        let schema = self.instance().schema();
        let table = schema.get(name).ok_or_else(|| Error::TableNotFound(name.into()))?;
        Ok(table.record.options.clone())
    }

    /// Changes the options of tables, by their names, in one change of the catalog.
    ///
    /// # Errors
    /// [`Error::TableNotFound`]; the errors of the log.
    pub fn set_options(&self, options: &[(&str, &[u8])]) -> Result<()> {
        crate::ddl::tables::set_options(self.instance(), options)
    }

    /// Gives a table another name, and in the same change of the catalog other options to tables;
    /// those of the renamed one go by its new name.
    ///
    /// # Errors
    /// The errors of [`Database::rename_table`]; [`Error::TableNotFound`] for a table that is to
    /// get options.
    pub fn rename_table(&self, from: &str, to: &str, options: &[(&str, &[u8])]) -> Result<()> {
        crate::ddl::tables::rename_table(self.instance(), from, to, options)
    }

    /// The tables' names and options.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, Vec<u8>)> {
        self.instance().schema().tables().map(|t| (t.name.clone(), t.record.options.clone())).collect()
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Poisoned`].
    pub fn begin(&self, options: &RawOptions) -> Result<RawTransaction> {
        let instance = self.database.reference();
        instance.check()?;
        let txn = instance.begin(TxnOptions {
            isolation: options.isolation,
            snapshot_isolation: options.snapshot_isolation,
            read_only: options.read_only || instance.read_only,
            wait: None,
        });
        Ok(RawTransaction::new(instance, txn))
    }

    /// Lets `find` say which sessions run the transactions, for listings, the monitor and deadlock
    /// reports. It is called without any latch or lock but the one of deadlock reports, and must
    /// not wait for a transaction. The first one stays.
    pub fn set_sessions(&self, find: impl Fn(u64) -> Option<Session> + Send + Sync + 'static) {
        self.instance().txns.locks().set_sessions(Box::new(find));
    }

    /// Lets `observer` be told of waits for locks, by the threads that wait. The first one stays.
    pub fn set_wait_observer(&self, observer: impl WaitObserver + 'static) {
        self.instance().txns.locks().set_wait_observer(Box::new(observer));
    }

    /// Ends the lock wait of the transaction with this number: the one that it is in, or else the
    /// next one of its statement. Nothing happens if there is no such transaction.
    pub fn kill(&self, serial: u64) {
        self.instance().txns.kill(serial);
    }

    /// Has the sessions that wait for something that is not a lock ask the observer whether they
    /// give up ([`WaitObserver::gives_up`]). Costs a few mutexes for each table.
    pub fn wake_waits(&self) {
        self.instance().wake_waits();
    }

    /// The prepared transactions that no session holds, by what their coordinator calls them: those
    /// of an earlier run, and those that were dropped since.
    #[must_use]
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.instance().txns.prepared().into_iter().map(|p| p.xid).collect()
    }

    /// Takes over a prepared transaction, to commit it or to roll it back.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is none; [`Error::ReadOnly`].
    pub fn adopt(&self, xid: &[u8]) -> Result<RawTransaction> {
        let instance = self.database.reference();
        instance.check_writable()?;
        Ok(RawTransaction::new(instance, instance.txns.adopt(xid)?))
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.instance().meta.page_size
    }

    /// Bytes of a page in the tables' files in the directory `dir`, whether they are those of a
    /// database that can be opened or not: for a database that takes what is saved of them. Smaller
    /// pages would have no room for the longest keys.
    ///
    /// # Errors
    /// [`Error::NotADatabase`] without a table's file; [`Error::DamagedFile`] without a sound page;
    /// the errors of reading.
    pub fn page_size_of_files(dir: &Path) -> Result<usize> {
        salvage_files::page_size_on(&*salvage_files::directory(dir)?)
    }

    /// The files that are named like those of tables and were none's when the database was opened,
    /// but for those that are known to be left of a creation or a drop: the catalog's record of a
    /// table may be damaged. [`Database::salvage_file`] saves their rows.
    #[must_use]
    pub fn files_of_no_table(&self) -> &[String] {
        &self.instance().foreign_files
    }

    /// Bytes of the longest key.
    #[must_use]
    pub fn key_limit(&self) -> u64 {
        holdfast_base::limits::key_len_max(self.page_size()) as u64
    }

    /// Makes all commits so far durable.
    ///
    /// # Errors
    /// The errors of the log.
    pub fn flush_log(&self) -> Result<()> {
        let wal = self.instance().wal();
        wal.flush_to(wal.next_lsn())
    }

    /// Closes the database; see [`Database::close`].
    ///
    /// # Errors
    /// The errors of [`Database::close`]; why the numbers of a table could not be saved, which go
    /// on after a gap then, as after a crash. The database is closed all the same.
    pub fn close(self) -> Result<()> {
        let instance = &self.database.instance;
        // Of each table, whether or not those of another one can be saved.
        // They stay known: a table that another layer opens now counts on with them.
        let marks: Vec<_> = instance.marks.lock().values().cloned().collect();
        let saved = marks.iter().map(|marks| marks.save_exactly()).fold(Ok(()), Result::and);
        // Also after an error: tables that are open would keep the directory.
        let closed = self.database.close();
        saved.and(closed)
    }
}

impl fmt::Debug for RawDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawDatabase({:?})", self.database)
    }
}
