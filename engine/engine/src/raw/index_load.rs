//! One index that is being filled by a load; see [`RawLoad`](super::RawLoad) for the rules.

use std::cmp::Ordering;
use std::sync::Arc;

use holdfast_pool::{Access, AccessKind};
use holdfast_txn::{NewValue, SuspendedLoader, TableIndex};

use crate::instance::Instance;
use crate::sort::{Before, Sorter};
use crate::{Error, Result};

/// Rows that are looked at, to see whether they come in the order of their keys.
const LOOK_AT: usize = if cfg!(sim) { 5 } else { 100 };

/// Entries between looks at whether the session has been killed.
const LOOK_EVERY: u64 = 1024;

fn go_on(instance: &Instance, entries: u64) -> Result<()> {
    if entries.is_multiple_of(LOOK_EVERY) { instance.txns.check_session() } else { Ok(()) }
}

/// One index that is being filled.
pub(super) struct IndexLoad {
    pub(super) index: Arc<TableIndex>,
    /// Gone when the tree is attached; what comes then is inserted.
    loader: Option<SuspendedLoader>,
    /// Entries that went into the loader.
    loaded: u64,
    /// True while rows come in the order of their keys; always false for entries.
    ascends: bool,
    /// The last key of those that came in order.
    last: Option<Vec<u8>>,
    /// What has to be unique of these.
    before: Before,
    /// The values of some entries are in chains.
    has_chains: bool,
    /// Why the tree could not be completed. Pages of it may not be free.
    failed: Option<Error>,
    sorter: Sorter,
}

impl IndexLoad {
    /// Begins to fill `index`, which is empty. `ascends`: with rows, which may come in order.
    pub(super) fn new(
        index: &Arc<TableIndex>,
        ascends: bool,
        instance: &Instance,
        access: &Access<'_>,
    ) -> Result<IndexLoad> {
        let (index, loader) = (Arc::clone(index), Some(index.loader(access)?.suspend()));
        let sorter = Sorter::new(&instance.disk);
        let (last, before, has_chains, failed) = (None, Before::default(), false, None);
        Ok(IndexLoad { index, loader, loaded: 0, ascends, last, before, has_chains, failed, sorter })
    }

    /// Takes an entry; see [`RawLoad::push`](super::RawLoad::push).
    pub(super) fn push(&mut self, instance: &Instance, key: &[u8], prefix: usize, value: NewValue<'_>) -> Result<()> {
        if prefix > key.len() {
            return Err(Error::invalid("the prefix is longer than the key"));
        }
        let order = self.last.as_deref().map_or(Ordering::Greater, |last| key.cmp(last));
        let comes_behind = self.ascends && order == Ordering::Greater;
        let is_there = comes_behind && self.before.has(self.last.as_deref(), key, prefix);
        if order == Ordering::Equal || is_there {
            self.sorter.note_duplicate(Some((key.to_vec(), value.bytes().to_vec())));
            return Err(Error::DuplicateKey);
        }
        self.ascends = comes_behind;
        self.has_chains |= self.index.needs_chain(key.len(), value.bytes().len());
        if self.ascends {
            self.remember(key);
            if self.loaded > 0 {
                return self.append(instance, key, value);
            }
        }
        self.sorter.push(key, prefix, value)?;
        if self.ascends && self.sorter.collected() == LOOK_AT { self.fill(instance) } else { Ok(()) }
    }

    /// Bytes of memory that its entries take.
    pub(super) fn cost(&self) -> usize {
        self.sorter.cost()
    }

    /// Frees the memory of what was collected.
    pub(super) fn spill(&mut self, instance: &Instance) -> Result<()> {
        if self.ascends { self.fill(instance) } else { self.sorter.spill(&|| instance.txns.check_session()) }
    }

    /// The key and the value of the entry that came second, after [`Error::DuplicateKey`].
    pub(super) fn take_duplicate(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.sorter.take_duplicate()
    }

    fn remember(&mut self, key: &[u8]) {
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
    }

    /// Appends an entry whose key is greater than all before.
    fn append(&mut self, instance: &Instance, key: &[u8], value: NewValue<'_>) -> Result<()> {
        let access = instance.pool().access(AccessKind::Point);
        let Some(suspended) = self.loader.take() else {
            return Err(Error::invalid("the index is complete already"));
        };
        let mut loader = self.index.resume_load(suspended, &access);
        let pushed = loader.push(key, value);
        self.loader = Some(loader.suspend());
        pushed?;
        self.loaded += 1;
        Ok(())
    }

    /// Completes the tree, if that was not done before.
    pub(super) fn attach(&mut self, instance: &Instance) -> Result<()> {
        let Some(suspended) = self.loader.take() else { return Ok(()) };
        let access = instance.pool().access(AccessKind::Point);
        let finished = self.index.resume_load(suspended, &access).finish().map(drop);
        finished.inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// True if what an error breaks off may leave parts of values behind.
    pub(super) fn has_chains(&self) -> bool {
        self.has_chains
    }

    /// Gives the load up, unless it is complete. The pages that it has written are freed, also on a
    /// full disk; those that lead to chains become a tree first, if they can: then the chains are
    /// found.
    ///
    /// # Errors
    /// The errors of the log and of reading pages; why the tree could not be completed. Pages to
    /// which no tree leads may be left then.
    pub(super) fn give_up(&mut self, instance: &Instance) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.has_chains {
            return self.attach(instance);
        }
        let Some(suspended) = self.loader.take() else { return Ok(()) };
        let access = instance.pool().access(AccessKind::Point);
        self.index.resume_load(suspended, &access).abort()
    }

    /// Moves what was collected, and all runs, into the index: to its end if nothing is in it, or
    /// if all ascends.
    pub(super) fn fill(&mut self, instance: &Instance) -> Result<()> {
        if self.sorter.is_empty() {
            return Ok(());
        }
        if self.loaded > 0 && !self.ascends {
            return self.insert(instance);
        }
        let Some(suspended) = self.loader.take() else { return self.insert(instance) };
        let access = instance.pool().access(AccessKind::Point);
        let mut loader = self.index.resume_load(suspended, &access);
        let loaded = &mut self.loaded;
        let filled = self.sorter.drain(&|| instance.txns.check_session(), &mut |key, _, value| {
            *loaded += 1;
            go_on(instance, *loaded)?;
            loader.push(key, value)
        });
        self.loader = Some(loader.suspend());
        filled
    }

    /// Inserts what was collected, and all runs, between the rows that are there.
    fn insert(&mut self, instance: &Instance) -> Result<()> {
        self.attach(instance)?;
        let access = instance.pool().access(AccessKind::Point);
        let (index, rows, mut second) = (&self.index, &mut self.loaded, None);
        let inserted = self.sorter.drain(&|| instance.txns.check_session(), &mut |key, prefix, value| {
            index.load_entry(key, prefix, value, &access).inspect_err(|_| {
                second = Some((key.to_vec(), value.bytes().to_vec()));
            })?;
            *rows += 1;
            go_on(instance, *rows)
        });
        self.sorter.note_duplicate(second);
        self.index.set_rows(self.loaded);
        inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Database;
    use crate::raw::{Lifetime, RawDatabase, RawLoad};

    /// Once rows went straight into the index, whole keys were compared.
    #[test]
    fn the_beginning_of_a_key_is_unique_however_many_rows_came_in_order() {
        for rows in [3, 98, 99, 100, 101, 150] {
            let db = RawDatabase::new(Database::in_memory().unwrap());
            db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
            let mut load = RawLoad::new(&db.open_table("t").unwrap()).unwrap();
            (0..rows).for_each(|row| load.push(0, &[row, 0], 1, b"row".as_slice()).unwrap());
            let again = load.push(0, &[rows - 1, 1], 1, b"again".as_slice());
            let error = again.and_then(|()| load.finish()).unwrap_err();
            assert!(matches!(error, Error::DuplicateKey), "{rows} rows: {error:?}");
            assert_eq!(load.duplicate().unwrap().key, [rows - 1, 1]);
        }
    }
}
