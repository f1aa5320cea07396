//! An open table: its indexes, its numbers, what is known about its size.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use holdfast_pool::AccessKind;
use holdfast_tree::{Lifetime, Walk};
use holdfast_txn::{Direction, TableIndex};

use crate::instance::Instance;
use crate::schema::handle::TableHandle;
use crate::schema::marks::Marks;
use crate::{Error, Result};

/// An open table. It stays valid while the table is renamed or dropped; when its indexes change, it
/// has to be opened again.
pub struct RawTable {
    pub(super) handle: Arc<TableHandle>,
    pub(super) instance: Arc<Instance>,
    pub(super) marks: Arc<Marks>,
}

impl RawTable {
    /// Its name when it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.handle.name
    }

    pub(super) fn index(&self, no: u32) -> Result<&Arc<TableIndex>> {
        self.handle.store.check_current(self.name())?;
        let indexes = self.handle.store.indexes()?;
        indexes.get(no as usize).ok_or_else(|| Error::invalid(format!("table `{}` has no index {no}", self.name())))
    }

    /// The name of index `no`, if there is such an index behind that of the rows.
    #[must_use]
    pub fn index_name(&self, no: u32) -> Option<&str> {
        let no = (no as usize).checked_sub(1)?;
        Some(&self.handle.record.indexes.get(no)?.name)
    }

    /// About how many entries an index has.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such index; damage of the table.
    pub fn rows(&self, index: u32) -> Result<u64> {
        self.index(index).map(|i| i.rows())
    }

    /// Bytes of the table's file.
    ///
    /// # Errors
    /// Damage of the table; [`Error::Io`].
    pub fn file_bytes(&self) -> Result<u64> {
        self.handle.store.space()?.space().file().len()
    }

    /// Bytes of the pages that the table's indexes and large values have. It reads the pages that
    /// manage the file: one for about 1 GB with pages of 16 KiB.
    ///
    /// # Errors
    /// Damage of the table; the errors of reading pages.
    pub fn used_bytes(&self) -> Result<u64> {
        let space = self.handle.store.space()?;
        let info = space.info(&self.instance.pool().access(AccessKind::Scan))?;
        let pages = info.pages.saturating_sub(info.free_pages).saturating_sub(info.own_pages);
        Ok(u64::from(pages) * self.instance.pool().page_size() as u64)
    }

    /// About how many entries of an index lie within bounds: from two descents.
    ///
    /// # Errors
    /// The errors of [`RawTable::rows`]; the errors of reading pages.
    pub fn estimate(&self, index: u32, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<u64> {
        let access = self.instance.pool().access(AccessKind::Point);
        Ok(self.index(index)?.tree().estimate(from, to, &access)?.entries)
    }

    /// About how many leaves an index has.
    ///
    /// # Errors
    /// The errors of [`RawTable::estimate`].
    pub fn leaves(&self, index: u32) -> Result<u64> {
        let access = self.instance.pool().access(AccessKind::Point);
        Ok(self.index(index)?.tree().estimate(Bound::Unbounded, Bound::Unbounded, &access)?.leaves)
    }

    /// Shows the keys of at most `leaves` leaves of an index, spread evenly over it, whatever their
    /// versions.
    ///
    /// # Errors
    /// The errors of [`RawTable::estimate`].
    pub fn sample(&self, index: u32, leaves: usize, see: &mut dyn FnMut(&[Vec<u8>])) -> Result<()> {
        let access = self.instance.pool().access(AccessKind::Maintenance);
        self.index(index)?.tree().sample(leaves, &access, see)
    }

    /// The first key of an index from `from` on, whatever its version; whether there is one. It is
    /// for statistics, which jump from value to value: the page is read as by a scan.
    ///
    /// # Errors
    /// The errors of [`RawTable::estimate`].
    pub fn first_key(&self, index: u32, from: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let access = self.instance.pool().access(AccessKind::Scan);
        let mut cursor = self.index(index)?.tree().cursor(&access);
        cursor.seek(Bound::Included(from), Direction::Forward);
        // It goes no farther: nothing is to be read ahead.
        cursor.continues(Walk::default(), Some(from));
        out.clear();
        let Some((key, _)) = cursor.next()? else { return Ok(false) };
        out.extend_from_slice(key);
        Ok(true)
    }

    /// If the number of rows was lost, takes the estimate for it.
    pub(super) fn count_again(&self) -> Result<()> {
        let rows = self.index(0)?;
        if !self.handle.store.counted && rows.rows() == 0 {
            let access = self.instance.pool().access(AccessKind::Point);
            rows.set_rows(rows.tree().estimate(Bound::Unbounded, Bound::Unbounded, &access)?.total);
        }
        Ok(())
    }

    /// The next number of mark `which`; nothing is taken.
    ///
    /// # Panics
    /// If there is no such mark.
    #[must_use]
    pub fn mark(&self, which: usize) -> u64 {
        self.marks.next(which)
    }

    /// Takes `count` numbers of a mark; the first of them. They are never given out again.
    ///
    /// # Errors
    /// [`Error::LimitReached`] if there are not so many left; [`Error::ReadOnly`]; the errors of
    /// the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn take_mark(&self, which: usize, count: u64) -> Result<u64> {
        self.instance.check_writable()?;
        let first = self.marks.take(which, count)?;
        first.ok_or_else(|| Error::LimitReached(format!("the numbers of table `{}` are used up", self.name())))
    }

    /// Sees to it that the next number of a mark is at least `next`. After a crash it is larger by
    /// `ahead` at most; the file's header is written once for so many numbers.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the number has to be raised and the database was opened for reading;
    /// the errors of the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn raise_mark(&self, which: usize, next: u64, ahead: u64) -> Result<()> {
        if self.mark(which) >= next {
            return Ok(());
        }
        self.instance.check_writable()?;
        self.marks.raise(which, next, ahead)
    }

    /// Sets the next number of a mark, also downwards. The caller is the only user of the table.
    /// Unless that is temporary, the number is durable: statements that define tables set it.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database was opened for reading; the errors of the log.
    ///
    /// # Panics
    /// If there is no such mark.
    pub fn set_mark(&self, which: usize, next: u64) -> Result<()> {
        self.instance.check_writable()?;
        self.marks.set(which, next)?;
        match self.handle.store.file.lifetime {
            Lifetime::Lasting => self.instance.wal().flush_to(self.instance.wal().next_lsn()),
            Lifetime::Temporary => Ok(()),
        }
    }
}

impl fmt::Debug for RawTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTable({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use holdfast_metrics::Counter;

    use super::*;
    use crate::Database;
    use crate::raw::{RawDatabase, RawLoad};

    const ROWS: u32 = 30_000;

    /// Each was read like a row that a statement looks for: ANALYZE put thousands of pages on
    /// trial.
    #[test]
    fn the_jumps_of_statistics_go_through_the_ring_and_read_nothing_ahead() {
        let builder = Database::builder().page_size(4096).cache_size_bytes(5 << 20);
        let db = RawDatabase::new(builder.in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let table = db.open_table("t").unwrap();
        let mut load = RawLoad::new(&table).unwrap();
        (0..ROWS).for_each(|n| load.push(0, &n.to_be_bytes(), 4, &[1u8; 500][..]).unwrap());
        load.finish().unwrap();
        let (pool, metrics) = (db.instance().pool(), &db.instance().metrics);
        pool.flush_all().unwrap();
        let before = metrics.snapshot().get(Counter::ReadAhead);
        let mut key = Vec::new();
        for n in (0..ROWS).step_by(300) {
            assert!(table.first_key(0, &n.to_be_bytes(), &mut key).unwrap());
            assert_eq!(key, n.to_be_bytes());
        }
        assert!(pool.stats().policy.ring > 0);
        assert_eq!(metrics.snapshot().get(Counter::ReadAhead), before);
    }
}
