//! A change of a table's indexes in place: new ones are filled like those of a new table, and all
//! is made to be at once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::load::Duplicate;
use super::{KEY_TYPE, RawDatabase, RawLoad};
use crate::ddl::alter::{Alteration, Outcome};
use crate::ddl::tables;
use crate::instance::Instance;
use crate::schema::catalog::IndexRecord;
use crate::schema::freeing::Leftover;
use crate::{Error, Result};

/// Where a secondary index of an altered table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexSource<'a> {
    /// The table had it, under this number; the rows have number 0.
    Kept(u32),
    /// As before, and from now on it has this name in listings.
    Renamed(u32, &'a str),
    /// It was added, as the one with this number, counted from 0.
    Added(u32),
}

/// A change of a table's indexes that is under way. Dropped before it is made, it leaves the table
/// as it was; dropped behind that, it frees the pages of indexes that have gone, which takes as
/// long as reading them does ([`RawAlter::end_in_background`] does not wait for that).
pub struct RawAlter {
    instance: Arc<Instance>,
    alteration: Alteration,
    load: RawLoad,
    outcome: Option<Outcome>,
    /// Something failed that may have left parts of large values behind.
    failed: bool,
    done: bool,
    /// It is made or given up, and what is to be freed is known to the thread that does it.
    is_ended: bool,
    duplicate: Option<Duplicate>,
}

impl RawDatabase {
    /// Begins to change the indexes of a table. `add`: the names of new ones, and whether they are
    /// unique, for listings. `with_deltas`: from now on a transaction that changes a row notes what
    /// that does to entries of the added indexes
    /// ([`RawTransaction::note_entry`](super::RawTransaction::note_entry)); otherwise rows must not
    /// change until the end. It waits for transactions that have written to the table for `wait`.
    ///
    /// # Errors
    /// [`Error::TableNotFound`]; [`Error::LockTimeout`] if a prepared transaction has changed the
    /// table; the errors of the log.
    pub fn begin_alter(&self, name: &str, add: &[(&str, bool)], with_deltas: bool, wait: Duration) -> Result<RawAlter> {
        let instance = Arc::clone(self.instance());
        let add: Vec<_> = add.iter().map(|(name, unique)| (*name, KEY_TYPE, *unique)).collect();
        let alteration = crate::ddl::alter::begin(&instance, name, &add, with_deltas, wait)?;
        RawAlter::of(instance, alteration)
    }

    /// Makes changes of tables, all of them or none: [`RawAlter::become_table`] has said which. The
    /// tables must not be in use. Other tables get other options at the same time. It waits for
    /// transactions that have written to one of the tables for `wait` each.
    ///
    /// After an error none is made, and the same call may be made again: what was said of each
    /// stays said. Only if the commit could not be made durable are they made; the database takes
    /// no change any more then, and the next open finds all of them or none.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if a transaction that has not ended has changed one of them;
    /// [`Error::DuplicateKey`] if rows have changed so that an entry is there twice, see
    /// [`RawAlter::duplicate`]; [`Error::InvalidArgument`] if a change was made before, or adds
    /// indexes and is not finished; the errors of the log.
    pub fn commit_alters(&self, alters: &mut [&mut RawAlter], others: &[(&str, &[u8])], wait: Duration) -> Result<()> {
        // The table has the new indexes: they must not be taken for those of a change that failed.
        if alters.iter().any(|alter| alter.done) {
            return Err(Error::invalid("the change of the table was made before"));
        }
        if !alters.iter().all(|alter| Arc::ptr_eq(self.instance(), &alter.instance)) {
            return Err(Error::invalid("the change belongs to another database"));
        }
        if alters.iter().any(|alter| !alter.alteration.added.is_empty() && !alter.load.is_finished()) {
            return Err(Error::invalid("an index that is added does not have its entries yet"));
        }
        let changes = alters.iter_mut().map(|alter| {
            let RawAlter { alteration, outcome, .. } = &mut **alter;
            Some((alteration, outcome.as_ref()?))
        });
        let changes: Option<Vec<(&mut Alteration, &Outcome)>> = changes.collect();
        let changes = changes.ok_or_else(|| {
            Error::invalid("the change names no new definition of the table: call `become_table` first")
        })?;
        let (done, result) = crate::ddl::alter::commit(self.instance(), changes, others, wait);
        for alter in alters {
            alter.done = done;
            let refused = alter.alteration.refused.take();
            alter.duplicate = refused.map(|(index, (key, value))| Duplicate { index, key, value });
        }
        result
    }
}

impl RawAlter {
    /// Begins to fill the indexes that `alteration` adds. If that fails, it is given up: writers
    /// would go on to note what they change, and the table would never be altered again.
    fn of(instance: Arc<Instance>, alteration: Alteration) -> Result<RawAlter> {
        let indexes: Vec<_> = alteration.added.iter().map(|new| Arc::clone(&new.index)).collect();
        let load = RawLoad::of(&instance, &indexes, &alteration.table.store.file, false)
            .inspect_err(|_| drop(instance.freeing.free(&crate::ddl::alter::give_up(&alteration, true))))?;
        Ok(RawAlter {
            instance,
            alteration,
            load,
            outcome: None,
            failed: false,
            done: false,
            is_ended: false,
            duplicate: None,
        })
    }

    fn watch<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed |= matches!(&result, Err(error) if !matches!(error, Error::DuplicateKey | Error::Interrupted));
        result
    }

    /// Takes an entry of the added index `index`, counted from 0. The first `prefix` bytes of its
    /// key have to be unique, or all of it.
    ///
    /// # Errors
    /// The errors of [`RawLoad::push`].
    pub fn push(&mut self, index: u32, key: &[u8], prefix: usize, value: &[u8]) -> Result<()> {
        let pushed = self.load.push(index, key, prefix, value);
        self.watch(pushed)
    }

    /// Sorts what is left into the new indexes, and puts in what transactions have noted meanwhile:
    /// little is left to [`RawDatabase::commit_alters`], which keeps writers out.
    ///
    /// # Errors
    /// The errors of [`RawLoad::finish`].
    pub fn finish(&mut self) -> Result<()> {
        let finished = self.load.finish().and_then(|()| self.alteration.catch_up(&self.instance));
        self.watch(finished)
    }

    /// The entry that was refused.
    #[must_use]
    pub fn duplicate(&self) -> Option<&Duplicate> {
        self.duplicate.as_ref().or(self.load.duplicate())
    }

    /// Says what the table is to become: its secondary indexes in their order, all added ones among
    /// them, and its options.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such index, an index cannot have the name that it
    /// is to get, or two are to have the same name.
    pub fn become_table(&mut self, indexes: &[IndexSource<'_>], options: &[u8]) -> Result<()> {
        let Alteration { table, added, .. } = &self.alteration;
        let kept = |no: u32| table.record.indexes.get((no as usize).checked_sub(1)?).cloned();
        let find = |source: &IndexSource<'_>| -> Option<IndexRecord> {
            match *source {
                IndexSource::Kept(no) => kept(no),
                IndexSource::Renamed(no, name) => Some(IndexRecord { name: name.to_owned(), ..kept(no)? }),
                IndexSource::Added(no) => Some(added.get(no as usize)?.record.clone()),
            }
        };
        let renamed = indexes.iter().filter_map(|source| match *source {
            IndexSource::Renamed(_, name) => Some(name),
            _ => None,
        });
        let indexes: Option<Vec<_>> = indexes.iter().map(find).collect();
        let indexes = indexes.ok_or_else(|| Error::invalid("the table has no such index"))?;
        for name in renamed {
            tables::check_index_name(name)?;
            if indexes.iter().filter(|index| index.name == name).count() > 1 {
                return Err(Error::invalid(format!("the table would have two indexes `{name}`")));
            }
        }
        self.outcome = Some(Outcome { indexes, options: options.to_vec() });
        Ok(())
    }
}

impl RawAlter {
    /// As to drop it, for a session that keeps others from the table: the pages of indexes that
    /// have gone are freed in the background. A close of the database waits for that.
    pub fn end_in_background(mut self) {
        if !self.leak_in_child() {
            let leftover = self.leftover();
            self.instance.freeing.begin(leftover);
        }
    }

    /// In a forked child, what belongs to its parent stays untouched.
    fn leak_in_child(&mut self) -> bool {
        let is_child = self.instance.leak_in_child();
        if is_child && let Some(txn) = &mut self.alteration.caught_up {
            txn.abandon();
        }
        is_child
    }

    /// Gives the change up, unless it is made or given up already; what is to be freed.
    fn leftover(&mut self) -> Leftover {
        self.alteration.caught_up = None;
        if std::mem::replace(&mut self.is_ended, true) {
            return Leftover { store: Arc::clone(&self.alteration.table.store), indexes: Vec::new(), is_whole: true };
        }
        if self.done {
            return crate::ddl::alter::dropped(&self.alteration);
        }
        let is_whole = self.load.give_up().is_ok() && !(self.failed && self.load.has_chains());
        crate::ddl::alter::give_up(&self.alteration, is_whole)
    }
}

impl Drop for RawAlter {
    fn drop(&mut self) {
        if !self.leak_in_child() {
            let leftover = self.leftover();
            // What cannot be freed now is freed by the next open.
            let _ = self.instance.freeing.free(&leftover);
        }
    }
}

impl fmt::Debug for RawAlter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawAlter").field("table", &self.alteration.table.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use holdfast_io::MemoryDisk;
    use holdfast_pool::AccessKind;
    use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};
    use holdfast_txn::{FlushAtCommit, TxnOptions};

    use super::*;
    use crate::raw::{Lifetime, RawOptions};
    use crate::schema::handle::TableHandle;
    use crate::{Database, Isolation, VerifyOptions};

    #[test]
    fn a_change_that_cannot_begin_to_fill_its_index_leaves_no_trace() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let instance = Arc::clone(db.instance());
        let begin = || crate::ddl::alter::begin(&instance, "t", &[("k", KEY_TYPE, false)], true, Duration::ZERO);
        let alteration = begin().unwrap();
        // An index that is not empty cannot be filled.
        let access = instance.pool().access(AccessKind::Point);
        alteration.added[0].index.load_entry(b"key", 3, b"value", &access).unwrap();
        drop(access);
        assert!(RawAlter::of(Arc::clone(&instance), alteration).is_err());
        db.begin_alter("t", &[("k", false)], true, Duration::ZERO).unwrap();
        let report = db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.is_clean() && report.unreached_pages == 0, "{report:?}");
    }

    #[test]
    fn what_is_noted_until_an_index_is_filled_is_in_it_before_writers_are_kept_out() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let mut alter = db.begin_alter("t", &[("k", false)], true, Duration::ZERO).unwrap();
        let table = db.open_table("t").unwrap();
        let options = RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false };
        // More than a round follows at a time, so that there is a second one.
        let note = |keys: std::ops::Range<u32>, value: Option<&[u8]>| {
            let mut txn = db.begin(&options).unwrap();
            for key in keys {
                txn.note_entry(&table, 0, &key.to_be_bytes(), value.map(|value| (4, value))).unwrap();
            }
            txn.commit(FlushAtCommit::Lazy).unwrap();
        };
        note(0..3_000, Some(&b"early"[..]));
        alter.finish().unwrap();
        let index = Arc::clone(&alter.alteration.added[0].index);
        let has = |key: u32| {
            let mut txn = db.instance().begin(TxnOptions::snapshot());
            txn.contains(&index, &key.to_be_bytes()).unwrap()
        };
        assert!(has(0) && has(2_999));
        note(2_999..3_001, None);
        note(3_000..3_001, Some(&b"late"[..]));
        assert!(has(2_999) && !has(3_000));
        alter.become_table(&[IndexSource::Added(0)], b"").unwrap();
        db.commit_alters(&mut [&mut alter], &[], Duration::ZERO).unwrap();
        assert!(has(0) && !has(2_999) && has(3_000));
    }

    /// A database with a table `t` for whose file the disk has no more room.
    fn whose_file_does_not_grow() -> (RawDatabase, Arc<TableHandle>) {
        let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let builder = Database::builder().page_size(4096).disk(Arc::new(disk.clone()));
        let db = RawDatabase::new(builder.create("test").unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let table = Arc::clone(db.instance().schema().get("t").unwrap());
        let file = table.store.space().unwrap().space().file().name().to_string();
        disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).on(file).sticky());
        (db, table)
    }

    /// The roots that were made before the disk was full stayed, and the catalog kept their
    /// numbers, until the next open; so every attempt took more of the table's last pages.
    #[test]
    fn a_change_whose_indexes_a_full_disk_does_not_let_begin_leaves_no_trace() {
        let (db, table) = whose_file_does_not_grow();
        let instance = db.instance();
        let names: Vec<String> = (0..64).map(|no| format!("k{no}")).collect();
        let add: Vec<(&str, bool)> = names.iter().map(|name| (name.as_str(), false)).collect();
        let free = || {
            let stats = db.database().stats();
            stats.spaces.iter().find(|space| space.space_id == table.record.space.0).unwrap().free_pages
        };
        let before = free();
        for _ in 0..3 {
            let error = db.begin_alter("t", &add, true, Duration::ZERO).unwrap_err();
            assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
            assert_eq!(free(), before);
        }
        let unused = instance.catalog.read(&instance.txns).unwrap().unused;
        assert!(unused.iter().all(|(_, ids)| ids.is_empty()), "{unused:?}");
        let report = db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.is_clean() && report.unreached_pages == 0, "{report:?}");
    }

    /// The pages of the index were in no tree then, and the catalog forgot it: they were never
    /// freed.
    #[test]
    fn an_index_that_a_full_disk_does_not_let_end_takes_no_pages() {
        let (db, _) = whose_file_does_not_grow();
        let fill = |entries: u32| {
            let mut alter = db.begin_alter("t", &[("k", false)], false, Duration::ZERO).unwrap();
            for n in 0..entries {
                let key = [&n.to_be_bytes()[..], &[7; 200][..]].concat();
                alter.push(0, &key, key.len(), &[8]).unwrap();
            }
            alter.finish()
        };
        // Fewer entries than a leaf takes come with each attempt: so the last leaf has no page.
        let error = (1..).find_map(|fives| fill(fives * 5).err()).unwrap();
        assert!(matches!(error, Error::DiskFull(_)), "{error:?}");
        let report = db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.is_clean() && report.unreached_pages == 0, "{report:?}");
    }
}
