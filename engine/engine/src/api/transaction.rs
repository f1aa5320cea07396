//! Transactions: [`ReadTransaction`] is a snapshot, [`WriteTransaction`] can change rows, and many
//! may run at once.

use std::fmt;

use crate::api::table::{ReadTable, Table};
use crate::ddl::tables;
use crate::instance::options::FlushAtCommit;
use crate::rows::definition::TableDefinition;
use crate::rows::types::{Key, Value};
use crate::schema::handle::TableRef;
use crate::session::transaction::{RefusedKey, SavepointId, Transaction};
use crate::{Error, Result};

/// A snapshot of the database: it sees what was committed when it began.
///
/// Costs writers nothing but one old version per row that they change meanwhile. It lives until it
/// is dropped. If old versions reach their limit before that, its reads fail with
/// [`crate::Error::SnapshotTooOld`]; see [`crate::Builder::version_limit_bytes`].
pub struct ReadTransaction {
    transaction: Transaction,
}

impl ReadTransaction {
    pub(crate) fn new(transaction: Transaction) -> ReadTransaction {
        ReadTransaction { transaction }
    }

    /// Opens a table for reading.
    ///
    /// # Errors
    /// [`crate::Error::TableNotFound`]; [`crate::Error::TableMismatch`] if it was created with
    /// other types. Indexes are compared when they are asked for.
    pub fn open_table<K: Key, V: Value>(&self, definition: &TableDefinition<K, V>) -> Result<ReadTable<'_, K, V>> {
        let handle = self.transaction.table(definition.name())?;
        handle.check_types(definition)?;
        Ok(ReadTable::new(&self.transaction, handle))
    }

    /// The tables that the snapshot has, sorted by name.
    #[must_use]
    pub fn list_tables(&self) -> Vec<String> {
        self.transaction.table_names()
    }
}

impl Drop for ReadTransaction {
    fn drop(&mut self) {
        // There is nothing to roll back, and the counters are to say so. A database that is closed
        // does not mind.
        let _ = self.transaction.commit(None);
    }
}

impl fmt::Debug for ReadTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadTransaction")
    }
}

/// A transaction that can change rows. Any number of them run at the same time, also on the same
/// table.
///
/// Rolls back when it is dropped without [`WriteTransaction::commit`]. It may move between threads.
///
/// Its snapshot is taken by the first read without a lock, or, with snapshot isolation, by the
/// first change that finds no row of its key. A statement that fails has no effect, and the
/// transaction goes on. After [`crate::Error::Conflict`] and [`crate::Error::Deadlock`] it is
/// rolled back, and all later calls fail with the same error.
pub struct WriteTransaction {
    transaction: Transaction,
}

/// A point in a write transaction that it can go back to.
#[derive(Clone, Debug)]
pub struct Savepoint(pub(crate) SavepointId);

impl WriteTransaction {
    pub(crate) fn new(transaction: Transaction) -> WriteTransaction {
        WriteTransaction { transaction }
    }

    /// Opens a table for reading and writing, and creates it if there is none.
    ///
    /// Creating a table is a transaction of its own: the new, empty table stays when this one rolls
    /// back. This transaction can read it, whatever its snapshot is; a table that another one has
    /// created after the snapshot takes nothing but [`Table::insert`]
    /// ([`crate::Error::SnapshotTooOld`]). A table that was dropped since this transaction began is
    /// not there, and one that has its name by now is opened.
    ///
    /// # Errors
    /// What ended the transaction, if it was rolled back because of an error;
    /// [`crate::Error::TableMismatch`] if the table was created with other types or indexes;
    /// [`crate::Error::LockTimeout`] if it is about to be dropped and other transactions keep it;
    /// when it is created, those of [`crate::Database::create_table`].
    pub fn open_table<K: Key, V: Value>(&self, definition: &TableDefinition<K, V>) -> Result<Table<'_, K, V>> {
        self.transaction.check_alive()?;
        loop {
            self.transaction.instance().check()?;
            let handle = table_or_create(&self.transaction, definition)?;
            handle.check_types(definition)?;
            let specs = handle.check_writable(definition)?;
            match self.transaction.enter_waiting(&handle) {
                // It was dropped since it was found.
                Err(Error::TableNotFound(_)) if handle.store.file.is_dropped() => continue,
                entered => entered?,
            }
            handle.store.learn_specs(&specs);
            return Ok(Table::new(ReadTable::new(&self.transaction, handle), specs));
        }
    }

    /// Which key it was that the last statement which failed with [`crate::Error::DuplicateKey`] or
    /// [`crate::Error::KeyTooLong`] was refused for: that of the row, or one of a secondary index.
    ///
    /// ```
    /// # use holdfast::{Database, Error, IndexDefinition, TableDefinition};
    /// const BY_MAIL: IndexDefinition<u64, &str, &str> =
    ///     IndexDefinition::unique("by_mail", |_: &u64, mail: &String, keys| keys.push(mail));
    /// # let db = Database::in_memory()?;
    /// let txn = db.begin_write()?;
    /// let people = txn.open_table(&TableDefinition::<u64, &str>::new("people").index(&BY_MAIL))?;
    /// people.insert(1, "ada@example.org")?;
    /// assert!(matches!(people.insert(2, "ada@example.org"), Err(Error::DuplicateKey)));
    /// assert_eq!(txn.refused_key().unwrap().index.as_deref(), Some("by_mail"));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn refused_key(&self) -> Option<RefusedKey> {
        self.transaction.refused_key()
    }

    /// Marks the point to which [`WriteTransaction::rollback_to`] goes back. Costs nothing.
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`], [`crate::Error::Conflict`] and others that have ended the
    /// transaction: an earlier call had reported it, and everything was rolled back.
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.transaction.savepoint().map(Savepoint)
    }

    /// Undoes everything done since `savepoint`, which stays valid; later ones do not. Locks stay,
    /// but for those that rows inserted since have had by that alone: these rows are gone, and
    /// others may insert them.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the savepoint is another transaction's or was undone
    /// itself; the errors of [`WriteTransaction::savepoint`]; [`crate::Error::Io`] and damage,
    /// after which the transaction is over, too.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.transaction.rollback_to(&savepoint.0)
    }

    /// Makes the changes visible to transactions that begin later, and durable as the options say.
    ///
    /// # Errors
    /// The errors of [`WriteTransaction::savepoint`]; [`crate::Error::Poisoned`] and
    /// [`crate::Error::Io`] if it is unknown whether the commit is durable: the next open tells.
    pub fn commit(self) -> Result<()> {
        self.transaction.commit(None)
    }

    /// [`WriteTransaction::commit`] that waits for `flush`, whatever the options say.
    ///
    /// # Errors
    /// The errors of [`WriteTransaction::commit`].
    pub fn commit_with(self, flush: FlushAtCommit) -> Result<()> {
        self.transaction.commit(Some(flush))
    }

    /// Undoes all changes. Dropping the transaction does the same; this reports errors.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`], [`crate::Error::Closed`], [`crate::Error::Io`]: the changes are
    /// then undone by the next open.
    pub fn rollback(self) -> Result<()> {
        self.transaction.rollback()
    }

    /// The tables that there are, sorted by name.
    #[must_use]
    pub fn list_tables(&self) -> Vec<String> {
        self.transaction.table_names_by_now()
    }
}

/// The table as the transaction knows it, or as it is by now, or a new one.
fn table_or_create<'t, K: Key, V: Value>(
    transaction: &'t Transaction,
    definition: &TableDefinition<K, V>,
) -> Result<TableRef<'t>> {
    loop {
        if let Some(table) = transaction.table_or_newer(definition.name()) {
            return Ok(table);
        }
        match tables::create_table(transaction.instance(), definition) {
            Err(Error::TableExists(_)) => {}
            result => {
                let table = result?;
                transaction.admit(&table);
                return Ok(TableRef::New(table));
            }
        }
    }
}

impl AsRef<Transaction> for WriteTransaction {
    fn as_ref(&self) -> &Transaction {
        &self.transaction
    }
}

impl fmt::Debug for WriteTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteTransaction")
    }
}
