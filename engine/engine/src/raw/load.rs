//! Filling a new table: no undo, no locks, pages written once where the keys come sorted.
//!
//! For empty tables that no other transaction can reach: the target of a copy. A load that fails,
//! or that a crash cuts short, leaves the table empty ([`Filling`]).
//!
//! 1. Rows go straight into their index as long as their keys ascend, but the first 100 wait until
//!    it is seen whether they do.
//! 2. What does not ascend, and the entries of the other indexes, goes through a sorter (`sort`),
//!    whose runs are on disk if they do not fit into memory.
//! 3. [`RawLoad::finish`] fills each index with what was sorted, from the start. Only rows behind
//!    those that went straight into the index are inserted.
//! 4. Uniqueness is checked by comparing neighbours, and by a search in the index where rows are
//!    inserted.
//!
//! So the time of a load is in proportion to the entries, however much larger than the cache an
//! index becomes. Nothing is visible before [`RawLoad::finish`].
//!
//! A table can be made anew, too ([`RawLoad::anew`]): the load fills one that no catalog has, which
//! takes the place of the other when [`RawDatabase::replace_by`] says so.
//!
//! [`Filling`]: crate::schema::filling::Filling

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use holdfast_pool::AccessKind;
use holdfast_txn::{NewValue, TableIndex, TxnOptions};

use super::index_load::IndexLoad;
use super::{MARKS, RawDatabase, RawTable};
use crate::ddl::replace::{self, Anew};
use crate::instance::Instance;
use crate::schema::filling::Filling;
use crate::schema::marks::Marks;
use crate::schema::store;
use crate::schema::table_file::{TableFile, Visit};
use crate::sort::Share;
use crate::{Error, Result};

/// An entry that must not be there a second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Number of the index.
    pub index: u32,
    /// Key of the entry that came second.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// A table that is being filled. Dropped without [`RawLoad::finish`], it leaves the table empty,
/// with pages that nothing leads to, which a compaction frees. If even that fails, the table takes
/// no rows before the next open has made it empty.
pub struct RawLoad {
    instance: Arc<Instance>,
    indexes: Vec<IndexLoad>,
    file: Arc<TableFile>,
    /// Nothing leads to the pages of a tree that is not complete.
    _building: Visit,
    /// Until the table is complete; `None` if the indexes belong to a table that has its rows.
    filling: Option<Filling>,
    share: Share,
    /// Bytes of entries that are collected even if the share is more: tests have less.
    collect_bytes: usize,
    duplicate: Option<Duplicate>,
    /// All that was pushed is in the indexes, and nothing more may come: others may use them.
    is_finished: bool,
    /// Why it could not be finished: a part of what was pushed is gone.
    failed: Option<Error>,
    /// If it fills a table that is to take the place of another one.
    anew: Option<Renewal>,
}

/// A table that is made anew.
struct Renewal {
    table: Anew,
    /// The numbers that the table has counted up.
    marks: Arc<Marks>,
}

impl RawLoad {
    /// Begins to fill `table`, which is empty and used by the caller alone.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is not empty; [`Error::ReadOnly`]; the errors of reading
    /// pages.
    pub fn new(table: &RawTable) -> Result<RawLoad> {
        table.instance.check_writable()?;
        let store = &table.handle.store;
        RawLoad::of(&table.instance, store.indexes()?, &store.file, true)
    }

    /// Begins to make `table` anew: what is pushed becomes, with [`RawDatabase::replace_by`], the
    /// table of this name, with the same indexes and marks. No transaction writes to the table
    /// until the load ends; it waits for `wait` for those that do. Dropped before that, the load
    /// leaves the table as it was, as does a crash.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if a transaction that has not ended has changed the table;
    /// [`Error::TableNotFound`] if it is not the one of this name any more; the errors of creating
    /// a table.
    pub fn anew(table: &RawTable, wait: Duration) -> Result<RawLoad> {
        let renewed = replace::begin_anew(&table.instance, table.name(), &table.handle.store, wait)?;
        let store = Arc::clone(renewed.store());
        let mut load = RawLoad::of(&table.instance, store.indexes()?, &store.file, true)?;
        load.anew = Some(Renewal { table: renewed, marks: Arc::clone(&table.marks) });
        Ok(load)
    }

    /// Begins to fill `indexes` of a table, which are empty and known to the caller alone; the
    /// first one with rows if `has_rows`.
    pub(super) fn of(
        instance: &Arc<Instance>,
        indexes: &[Arc<TableIndex>],
        file: &Arc<TableFile>,
        has_rows: bool,
    ) -> Result<RawLoad> {
        let building = file.build();
        let (instance, file) = (Arc::clone(instance), Arc::clone(file));
        let access = instance.pool().access(AccessKind::Point);
        let begin = |(no, index)| IndexLoad::new(index, has_rows && no == 0, &instance, &access);
        let loads = indexes.iter().enumerate().map(begin).collect::<Result<Vec<_>>>()?;
        drop(access);
        // They are known to be empty.
        let filling = if has_rows { Some(Filling::begin(&file, indexes.to_vec())?) } else { None };
        let (share, collect_bytes) = (instance.sort_memory.share(), usize::MAX);
        let load = RawLoad {
            instance,
            indexes: loads,
            file,
            _building: building,
            filling,
            share,
            collect_bytes,
            duplicate: None,
            is_finished: false,
            failed: None,
            anew: None,
        };
        Ok(load)
    }

    /// Takes an entry of index `index`. The first `prefix` bytes of its key have to be unique, or
    /// all of it.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`]: now, or later, when the entry is compared with others;
    /// [`RawLoad::duplicate`] says which it was. [`Error::InvalidArgument`] if there is no such
    /// index, the prefix is longer than the key, or the load is finished; the errors of writing
    /// pages.
    pub fn push<'v>(&mut self, index: u32, key: &[u8], prefix: usize, value: impl Into<NewValue<'v>>) -> Result<()> {
        if self.is_finished {
            return Err(Error::invalid("the load is finished"));
        }
        let value = value.into();
        let no = index as usize;
        let load = self.indexes.get_mut(no).ok_or_else(|| Error::invalid(format!("there is no index {index}")))?;
        let pushed = load.push(&self.instance, key, prefix, value);
        let taken = self.note_duplicate(no, pushed).and_then(|()| self.spill_if_full());
        // A part of what was pushed may be gone, unless the entry itself was refused.
        if let Err(error) = &taken
            && !matches!(error, Error::InvalidArgument(_))
        {
            self.failed.get_or_insert_with(|| error.clone());
        }
        taken
    }

    fn spill_if_full(&mut self) -> Result<()> {
        if self.indexes.iter().map(IndexLoad::cost).sum::<usize>() < self.share.bytes().min(self.collect_bytes) {
            return Ok(());
        }
        (0..self.indexes.len()).try_for_each(|no| self.spill(no))
    }

    /// Sorts what is left into the indexes. The table is complete then. Its rows belong to no
    /// transaction; views of before cannot use it.
    ///
    /// # Errors
    /// The errors of [`RawLoad::push`]; [`Error::Interrupted`] if the session has been killed.
    pub fn finish(&mut self) -> Result<()> {
        if self.is_finished {
            return Ok(());
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.fill_all().inspect_err(|error| self.failed = Some(error.clone()))?;
        self.filling = None;
        self.is_finished = true;
        Ok(())
    }

    fn fill_all(&mut self) -> Result<()> {
        for no in 0..self.indexes.len() {
            self.instance.txns.check_session()?;
            self.fill(no)?;
        }
        self.attach_all()?;
        store::begin_now(&self.instance.txns, self.file.lifetime, self.indexes.iter().map(|load| &load.index));
        self.filling.as_ref().map_or(Ok(()), Filling::finish)
    }

    /// True if all that was pushed is in the indexes.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Makes trees of what was written so far.
    fn attach_all(&mut self) -> Result<()> {
        self.indexes.iter_mut().try_for_each(|load| load.attach(&self.instance))
    }

    /// Sees to it that what was written so far is in trees, or free: of each index, whatever
    /// becomes of the others.
    pub(super) fn give_up(&mut self) -> Result<()> {
        self.indexes.iter_mut().map(|load| load.give_up(&self.instance)).fold(Ok(()), Result::and)
    }

    /// True if what an error breaks off may leave parts of values behind.
    pub(super) fn has_chains(&self) -> bool {
        self.indexes.iter().any(IndexLoad::has_chains)
    }

    /// The entry that was refused.
    #[must_use]
    pub fn duplicate(&self) -> Option<&Duplicate> {
        self.duplicate.as_ref()
    }

    /// Reads the row under `key` that was pushed to a load which has failed, for a message. Returns
    /// whether there is one. There may be none if a row is there a second time, too: then
    /// [`RawLoad::duplicate`] is this row from now on. The load cannot go on.
    ///
    /// # Errors
    /// The errors of reading and writing pages.
    pub fn row(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let is_found = self.find_row(key, value)?;
        let second = if is_found { None } else { self.indexes.first_mut().and_then(IndexLoad::take_duplicate) };
        if let Some((key, value)) = second {
            self.duplicate = Some(Duplicate { index: 0, key, value });
        }
        Ok(is_found)
    }

    /// Looks for `key` among the rows, which end before one that is there a second time.
    fn find_row(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(rows) = self.indexes.first_mut() else { return Ok(false) };
        match rows.fill(&self.instance) {
            Ok(()) | Err(Error::DuplicateKey) => {}
            Err(error) => return Err(error),
        }
        rows.attach(&self.instance)?;
        let mut txn = self.instance.begin(TxnOptions::snapshot());
        txn.take_snapshot();
        txn.get(&rows.index, key, value)
    }

    /// Frees the memory of what was collected for an index.
    fn spill(&mut self, no: usize) -> Result<()> {
        let spilled = self.indexes[no].spill(&self.instance);
        self.note_duplicate(no, spilled)
    }

    /// Moves what was collected, and all runs, into an index.
    fn fill(&mut self, no: usize) -> Result<()> {
        let filled = self.indexes[no].fill(&self.instance);
        self.note_duplicate(no, filled)
    }

    fn note_duplicate(&mut self, no: usize, result: Result<()>) -> Result<()> {
        if let (Err(Error::DuplicateKey), Some((key, value))) = (&result, self.indexes[no].take_duplicate()) {
            self.duplicate = Some(Duplicate { index: no as u32, key, value });
        }
        result
    }
}

impl Renewal {
    /// Gives the new table the marks of the old one.
    fn take_over_marks(&self, instance: &Instance) -> Result<()> {
        let access = instance.pool().access(AccessKind::Point);
        let space = self.table.store().space()?;
        (0..MARKS).try_for_each(|which| space.set_mark(which, self.marks.next(which), &access).map(drop))
    }
}

impl RawDatabase {
    /// Puts tables that [`RawLoad::anew`] began and [`RawLoad::finish`] completed in the places of
    /// those that they were made from, all of them or none, with these options. The tables must not
    /// be in use: handles that are open see the old ones.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a load is none of these, or there are more or fewer options
    /// than loads; [`Error::TableNotFound`] if a table has got another name; the errors of the log.
    pub fn replace_by(&self, loads: &mut [&mut RawLoad], options: &[&[u8]]) -> Result<()> {
        if loads.len() != options.len() {
            return Err(Error::invalid("each of the tables has options of its own"));
        }
        let instance = self.instance();
        let mut tables = Vec::new();
        for (load, options) in loads.iter_mut().zip(options) {
            let is_complete = load.filling.is_none() && Arc::ptr_eq(instance, &load.instance);
            // One that has its place counts up numbers of its own.
            let anew = load.anew.as_mut().filter(|anew| is_complete && !anew.table.has_its_place());
            let anew = anew.ok_or_else(|| Error::invalid("no table was made anew"))?;
            anew.take_over_marks(instance)?;
            tables.push((&mut anew.table, *options));
        }
        replace::replace_by(instance, tables)
    }
}

impl Drop for RawLoad {
    fn drop(&mut self) {
        if let Some(filling) = &self.filling
            && !self.instance.leak_in_child()
        {
            filling.give_up();
        }
    }
}

impl fmt::Debug for RawLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawLoad").field("indexes", &self.indexes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use holdfast_io::Disk as _;
    use holdfast_metrics::Counter;
    use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};

    use super::*;
    use crate::raw::{Lifetime, RawDatabase, RawOptions, RawRead};
    use crate::{BackupOptions, Builder, Database, FlushAtCommit, Isolation, VerifyOptions};

    fn database() -> RawDatabase {
        RawDatabase::new(Database::in_memory().unwrap())
    }

    fn table(database: &RawDatabase) -> RawTable {
        database.create_table("t", &[("k", true)], b"", Lifetime::Lasting).unwrap();
        database.open_table("t").unwrap()
    }

    /// A database on `disk`, with a load of table `t` of which the index has entries and the rows
    /// are not there.
    fn half_loaded(disk: &CrashDisk) -> (RawDatabase, RawLoad) {
        let database = RawDatabase::new(builder(disk).create("test").unwrap());
        let mut load = RawLoad::new(&table(&database)).unwrap();
        load.collect_bytes = 0;
        for i in 0..100u8 {
            load.push(0, &[i], 1, &[i; 50]).unwrap();
            load.push(1, &[100 - i, i], 1, &[1]).unwrap();
        }
        load.fill(1).unwrap();
        load.indexes[1].attach(&load.instance).unwrap();
        (database, load)
    }

    fn builder(disk: &CrashDisk) -> Builder {
        Database::builder().page_size(4096).disk(Arc::new(disk.clone()))
    }

    fn assert_empty(database: &RawDatabase) {
        let table = database.open_table("t").unwrap();
        assert_eq!((read(database, &table, 0).len(), read(database, &table, 1).len()), (0, 0));
        assert_clean(database);
    }

    fn insert(database: &RawDatabase) {
        let table = database.open_table("t").unwrap();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };
        let mut txn = database.begin(&options).unwrap();
        txn.insert(&table, 0, b"r", b"row").unwrap();
        txn.insert(&table, 1, b"er", &[1][..]).unwrap();
        txn.commit(FlushAtCommit::Sync).unwrap();
    }

    type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

    fn read(database: &RawDatabase, table: &RawTable, index: u32) -> Entries {
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: true };
        let mut txn = database.begin(&options).unwrap();
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = txn.cursor(table, index, all, RawRead::default()).unwrap();
        let mut found = Entries::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.insert(key.to_vec(), value.to_vec());
        }
        found
    }

    fn assert_clean(database: &RawDatabase) {
        let report = database.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert_eq!(report.findings.iter().map(|f| &f.what).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    /// Rows 0..n in the order that `step`, which has no divisor in common with `n`, makes; with an
    /// entry each.
    fn load_in_steps(n: u64, step: u64, collect_bytes: usize) {
        let database = database();
        let table = table(&database);
        let mut load = RawLoad::new(&table).unwrap();
        load.collect_bytes = collect_bytes;
        let (mut rows, mut entries) = (Entries::new(), Entries::new());
        for i in 0..n {
            let (id, k) = ((i * step % n).to_be_bytes(), (i * 7 % n).to_be_bytes());
            let value = vec![i as u8; if i % 100 == 0 { 20_000 } else { (i % 50) as usize }];
            load.push(0, &id, id.len(), &value).unwrap();
            let entry = [k, id].concat();
            // An entry says how long its index key is.
            load.push(1, &entry, k.len(), &[8]).unwrap();
            rows.insert(id.to_vec(), value);
            entries.insert(entry, vec![8]);
        }
        load.finish().unwrap();
        assert_eq!(read(&database, &table, 0), rows);
        assert_eq!(read(&database, &table, 1), entries);
        assert_eq!((table.rows(0).unwrap(), table.rows(1).unwrap()), (n, n));
        assert_clean(&database);
    }

    #[test]
    fn what_was_loaded_in_any_order_is_there() {
        for step in [1, 1009, 1999] {
            for collect_bytes in [0, 5_000, usize::MAX] {
                load_in_steps(2_000 + step % 2, step, collect_bytes);
            }
        }
    }

    #[test]
    fn an_index_larger_than_the_cache_is_written_once() {
        let cache = Database::builder().page_size(4096).cache_size_bytes(5 << 20).log_capacity_bytes(256 << 20);
        let disk = Arc::new(holdfast_io::MemoryDisk::new());
        let database = RawDatabase::new(cache.disk(disk).create("test").unwrap());
        let table = table(&database);
        let mut load = RawLoad::new(&table).unwrap();
        load.collect_bytes = 1 << 20;
        let (n, step) = (50_000u64, 7_919);
        for i in 0..n {
            load.push(0, &i.to_be_bytes(), 8, b"").unwrap();
            load.push(1, &[&(i * step % n).to_be_bytes()[..], &[7; 250]].concat(), 8, b"").unwrap();
        }
        load.finish().unwrap();
        database.database().checkpoint().unwrap();
        let pages = database.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap().pages;
        let written = database.database().metrics_snapshot().get(Counter::PagesWritten);
        assert!(pages * 4096 > 12 << 20, "{pages} pages");
        // A page of the table's middle may be written while more is appended to it.
        assert!(written < pages + pages / 10, "{written} writes of {pages} pages");
    }

    #[test]
    fn what_is_there_twice_is_refused_within_a_batch_and_between_batches() {
        for collect_bytes in [0, 200, usize::MAX] {
            let database = database();
            let table = table(&database);
            let mut load = RawLoad::new(&table).unwrap();
            load.collect_bytes = collect_bytes;
            let mut result = Ok(());
            for (n, i) in (0..100u8).chain([40]).enumerate() {
                // The two of 40 differ behind what has to be unique.
                result = load.push(1, &[7, i, n as u8], 2, &[i]);
                if result.is_err() {
                    break;
                }
            }
            let result = result.and_then(|()| load.finish());
            assert!(matches!(result, Err(Error::DuplicateKey)), "{result:?}");
            let duplicate = load.duplicate().unwrap();
            assert_eq!((duplicate.index, duplicate.key[1]), (1, 40));
            // Not even if it is tried again: what was merged by then is gone.
            assert!(matches!(load.finish(), Err(Error::DuplicateKey)));
        }
    }

    /// Two keys that were shorter than what has to be unique counted as the same.
    #[test]
    fn a_prefix_that_is_longer_than_its_key_is_refused() {
        let database = database();
        let mut load = RawLoad::new(&table(&database)).unwrap();
        for key in [&b"a"[..], b"b"] {
            let pushed = load.push(1, key, 2, &b""[..]);
            assert!(matches!(pushed, Err(Error::InvalidArgument(_))), "{pushed:?}");
        }
        load.finish().unwrap();
    }

    #[test]
    fn a_row_may_be_there_once_only() {
        let database = database();
        let table = table(&database);
        for second in [&b"b"[..], b"a"] {
            let mut load = RawLoad::new(&table).unwrap();
            load.push(0, b"a", 1, b"1").unwrap();
            load.push(0, b"b", 1, b"2").unwrap();
            let result = load.push(0, second, 1, b"3").and_then(|()| load.finish());
            assert!(matches!(result, Err(Error::DuplicateKey)), "{result:?}");
            assert_eq!(load.duplicate().map(|d| (d.key.as_slice(), d.value.as_slice())), Some((second, &b"3"[..])));
        }
        let mut load = RawLoad::new(&table).unwrap();
        load.push(0, b"a", 1, b"1").unwrap();
        load.finish().unwrap();
        assert!(RawLoad::new(&table).is_err(), "a table with rows is not filled");
    }

    #[test]
    fn a_row_that_hides_the_row_of_an_entry_is_named_in_its_place() {
        // An entry is there twice in a batch, a row twice in two batches.
        let database = database();
        let mut load = RawLoad::new(&table(&database)).unwrap();
        let rows = [9u8, 3, 8, 3, 7, 5];
        let entries = [1u8, 2, 3, 4, 4, 6];
        let mut result = Ok(());
        for (n, (row, entry)) in rows.into_iter().zip(entries).enumerate() {
            load.push(0, &[row], 1, &[n as u8]).unwrap();
            load.push(1, &[entry, row], 1, &b""[..]).unwrap();
            if n % 3 == 2 {
                result = load.spill(0).and_then(|()| load.spill(1));
            }
        }
        assert!(matches!(result, Err(Error::DuplicateKey)), "{result:?}");
        assert_eq!(load.duplicate().map(|second| (second.index, second.key.clone())), Some((1, vec![4, 7])));
        assert!(!load.row(&[7], &mut Vec::new()).unwrap());
        assert_eq!(load.duplicate(), Some(&Duplicate { index: 0, key: vec![3], value: vec![3] }));
        assert!(load.row(&[3], &mut Vec::new()).unwrap());
    }

    #[test]
    fn a_load_that_a_crash_cuts_short_leaves_an_empty_table() {
        let disk = CrashDisk::new();
        let (database, load) = half_loaded(&disk);
        database.database().checkpoint().unwrap();
        let left = disk.reboot(0);
        drop((load, database));
        assert_empty(&RawDatabase::new(builder(&left).open_read_only("test").unwrap()));
        let database = RawDatabase::new(builder(&left).open("test").unwrap());
        assert_empty(&database);
        insert(&database);
        database.close().unwrap();
        let database = RawDatabase::new(builder(&left).open("test").unwrap());
        assert_eq!(read(&database, &database.open_table("t").unwrap(), 0).len(), 1, "it is no load any more");
    }

    #[test]
    fn a_backup_that_meets_a_load_can_be_restored() {
        let (disk, copy) = (CrashDisk::new(), CrashDisk::new());
        let (database, mut load) = half_loaded(&disk);
        assert_clean(&database);
        let options = BackupOptions::new().disk(Arc::new(copy.clone()));
        database.database().backup("copy", &options).unwrap();
        builder(&copy).restore("copy").unwrap();
        assert_empty(&RawDatabase::new(builder(&copy).open("copy").unwrap()));
        load.finish().unwrap();
        assert_clean(&database);
        database.database().checkpoint().unwrap();
        let database = RawDatabase::new(builder(&disk.reboot(0)).open("test").unwrap());
        assert_eq!(read(&database, &database.open_table("t").unwrap(), 0).len(), 100);
    }

    #[test]
    fn a_disk_without_room_to_sort_ends_the_load_and_nothing_else() {
        let disk = FaultDisk::new(Arc::new(CrashDisk::new()));
        let builder = Database::builder().page_size(4096).disk(Arc::new(disk.clone()));
        let database = RawDatabase::new(builder.create("test").unwrap());
        let mut load = RawLoad::new(&table(&database)).unwrap();
        load.collect_bytes = 1_000;
        disk.schedule(Fault::nth(FaultOp::Write, 3).kind(FaultKind::Enospc).on("sort.000000"));
        let pushed = (0..200u8).try_for_each(|i| load.push(1, &[i.reverse_bits(), i], 2, &[1; 50]));
        assert!(matches!(pushed, Err(Error::DiskFull { .. })), "{pushed:?}");
        drop(load);
        assert_eq!(disk.fired(), 1);
        assert!(!disk.list().unwrap().iter().any(|name| name.starts_with("sort")));
        assert_empty(&database);
        insert(&database);
        assert_clean(&database);
    }

    #[test]
    fn a_load_that_is_given_up_leaves_an_empty_table() {
        let disk = CrashDisk::new();
        let (database, load) = half_loaded(&disk);
        drop(load);
        assert_empty(&database);
        insert(&database);
        assert_clean(&database);
        database.close().unwrap();
        let database = RawDatabase::new(builder(&disk).open("test").unwrap());
        assert_eq!(read(&database, &database.open_table("t").unwrap(), 1).len(), 1);
    }
}
