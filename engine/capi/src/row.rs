//! Single entries of an index, by key. Index 0 of a table holds its rows; the key of an entry of
//! another one ends with the key of its row, and its value begins with how many bytes of the key
//! are before that, as LEB128.

use holdfast::raw::{EarlyRelease, LockMode, NewValue, RawLock};

use crate::handle::{Slice, entry_points, exclusive, put, shared, take};
use crate::{Buffer, Code, Table, Transaction};

/// Whether a read locks what it reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// No: it reads the snapshot.
    None = 0,
    /// Against changes by others; reads the newest committed version.
    Shared = 1,
    /// Against changes and locks by others; reads the newest committed version.
    Exclusive = 2,
    /// As `Shared`, also where the snapshot is older than the table: for what a reference leads to.
    /// A cursor keeps inserts out of what it has read at READ COMMITTED, too, while it reads.
    LinkedShared = 3,
    /// As `Exclusive`, likewise.
    LinkedExclusive = 4,
}

impl Lock {
    /// True if it keeps out others' locks, too.
    fn is_exclusive(self) -> bool {
        matches!(self, Lock::Exclusive | Lock::LinkedExclusive)
    }

    /// The lock of a read, if it takes one.
    pub(crate) fn of_read(self, skip_locked: bool) -> Option<RawLock> {
        let linked = matches!(self, Lock::LinkedShared | Lock::LinkedExclusive);
        (self != Lock::None).then_some(RawLock { exclusive: self.is_exclusive(), skip_locked, linked })
    }
}

/// What a read has added to the lock of its entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Nothing that is given up early.
    Nothing = 0,
    /// The transaction had locked it for sharing before, and has done so exclusively.
    ToShared = 1,
    /// All of the lock.
    All = 2,
}

impl From<EarlyRelease> for Release {
    fn from(release: EarlyRelease) -> Release {
        match release {
            EarlyRelease::Nothing | EarlyRelease::DownTo(Some(LockMode::Exclusive)) => Release::Nothing,
            EarlyRelease::DownTo(Some(LockMode::Shared)) => Release::ToShared,
            EarlyRelease::DownTo(None) => Release::All,
        }
    }
}

impl From<Release> for EarlyRelease {
    fn from(release: Release) -> EarlyRelease {
        match release {
            Release::Nothing => EarlyRelease::Nothing,
            Release::ToShared => EarlyRelease::DownTo(Some(LockMode::Shared)),
            Release::All => EarlyRelease::DownTo(None),
        }
    }
}

entry_points! {
    /// Adds an entry; [`Code::DuplicateKey`] if there is one. The first `head` bytes of the value
    /// can be read without the rest of a large one. An entry that is in the way is locked as
    /// `duplicate` says, so that it stays.
    fn hf_insert(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        value: Slice,
        head: usize,
        duplicate: Lock,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let (key, value) = (take!(key.bytes()), NewValue::with_head(take!(value.bytes()), head));
        match duplicate {
            Lock::None => transaction.raw.insert(&table.0, index, key, value)?,
            lock => transaction.raw.insert_or_lock(&table.0, index, key, value, lock.is_exclusive())?,
        }
        Ok(Code::Ok)
    }

    /// Adds an entry; [`Code::DuplicateKey`] if another one has the same index key, the first
    /// `prefix` bytes of `key`. For `duplicate` see `hf_insert`.
    fn hf_insert_unique(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        prefix: usize,
        value: Slice,
        duplicate: Lock,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let (key, value) = (take!(key.bytes()), take!(value.bytes()));
        let raw = &mut transaction.raw;
        match duplicate {
            Lock::None => raw.insert_unique(&table.0, index, key, prefix, value)?,
            lock => raw.insert_unique_or_lock(&table.0, index, key, prefix, value, lock.is_exclusive())?,
        }
        Ok(Code::Ok)
    }

    /// Replaces the value of an entry; [`Code::NotFound`] if there is none. For `head` see
    /// `hf_insert`: what is behind it is written only if it has changed.
    fn hf_update(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        value: Slice,
        head: usize,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let value = NewValue::with_head(take!(value.bytes()), head);
        let found = transaction.raw.update(&table.0, index, take!(key.bytes()), value)?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// Removes an entry; [`Code::NotFound`] if there is none.
    fn hf_delete(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let found = transaction.raw.delete(&table.0, index, take!(key.bytes()))?;
        Ok(if found { Code::Ok } else { Code::NotFound })
    }

    /// What the `hf_get` just before has added to the lock of its entry, as far as READ COMMITTED
    /// lets it be given up.
    fn hf_early_release(transaction: *mut Transaction, out: *mut Release) {
        let release = take!(exclusive(transaction))?.raw.early_release();
        take!(put(out, release.into()));
        Ok(Code::Ok)
    }

    /// Gives up what a read has added to the lock of an entry that did not qualify: `release` is
    /// what `hf_early_release` said of this entry.
    fn hf_unlock(transaction: *mut Transaction, table: *const Table, index: u32, key: Slice, release: Release) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        transaction.raw.unlock(&table.0, index, take!(key.bytes()), release.into())?;
        Ok(Code::Ok)
    }

    /// Replaces the content of `out` by the value of an entry; [`Code::NotFound`] if there is none.
    /// If `head_only`, and nothing is locked, the head of a large value is all that is read.
    /// Without `out` no value is read.
    fn hf_get(
        transaction: *mut Transaction,
        table: *const Table,
        index: u32,
        key: Slice,
        lock: Lock,
        skip_locked: bool,
        head_only: bool,
        out: *mut Buffer,
    ) {
        let (transaction, table) = (take!(exclusive(transaction))?, take!(shared(table))?);
        let key = take!(key.bytes());
        if out.is_null() {
            let found = transaction.raw.contains(&table.0, index, key, lock.of_read(skip_locked))?;
            return Ok(if found { Code::Ok } else { Code::NotFound });
        }
        let out = &mut take!(exclusive(out))?.0;
        let found = if head_only && lock == Lock::None {
            transaction.raw.get_head(&table.0, index, key, out)?
        } else {
            transaction.raw.get(&table.0, index, key, lock.of_read(skip_locked), out)?
        };
        Ok(if found { Code::Ok } else { Code::NotFound })
    }
}
