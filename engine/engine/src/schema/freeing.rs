//! Frees the pages of indexes that no table has any more: dropped ones, and those whose building
//! was given up.
//!
//! Each of the pages is read, since an entry may lead to a large value: for a large index that
//! takes minutes. So no lock is held for which other sessions wait, and a session that keeps others
//! from the table leaves it to a thread ([`Freeing::begin`]), which ends when there is nothing left
//! to do. A close waits for that. After a crash the next open frees the rest, since the catalog
//! notes which indexes are [`Unused`], but for that it reads the whole file.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::thread::{self, JoinHandle};
use holdfast_base::{IndexId, PageNo};
use holdfast_pool::AccessKind;
use holdfast_tree::PageSet;
use holdfast_txn::{TableIndex, TxnSystem, values};
use holdfast_wal::SpaceClass;

use crate::schema::catalog::{Catalog, NextIds, Unused};
use crate::schema::store::TableStore;
use crate::schema::table_file::Visit;
use crate::{Error, Result};

/// Pages that are freed between two questions whether to go on.
const PART: usize = 4096;

/// Indexes in one file that are to be freed.
pub(crate) struct Leftover {
    /// The table may be dropped meanwhile: its file stays as long as this.
    pub store: Arc<TableStore>,
    pub indexes: Vec<Arc<TableIndex>>,
    /// Nothing has failed that could have left pages to which no tree leads: these are all of their
    /// pages.
    pub is_whole: bool,
}

/// See the module's description.
pub(crate) struct Freeing {
    parts: Arc<Parts>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread works with. It does not hold the database: that could not be closed then.
struct Parts {
    txns: Arc<TxnSystem>,
    catalog: Catalog,
    ddl: Arc<Mutex<NextIds>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// A compaction takes no page for lost meanwhile.
    waiting: VecDeque<(Leftover, Visit)>,
    is_running: bool,
    is_closed: bool,
}

impl Freeing {
    pub(crate) fn new(txns: &Arc<TxnSystem>, catalog: &Catalog, ddl: &Arc<Mutex<NextIds>>) -> Freeing {
        let (txns, catalog, ddl) = (Arc::clone(txns), catalog.clone(), Arc::clone(ddl));
        let parts = Arc::new(Parts { txns, catalog, ddl, queue: Mutex::default() });
        Freeing { parts, thread: Mutex::new(None) }
    }

    /// Frees pages, and has the catalog forget the indexes if these are all.
    ///
    /// # Errors
    /// Damage; the errors of the log and of reading pages. The next open frees what is left.
    pub(crate) fn free(&self, leftover: &Leftover) -> Result<()> {
        self.parts.free(leftover, &|| Ok(()))
    }

    /// The same in the background. Errors are of no interest: the next open frees what is left.
    pub(crate) fn begin(&self, leftover: Leftover) {
        if leftover.indexes.is_empty() {
            return;
        }
        let building = leftover.store.file.build();
        let mut queue = self.parts.queue.lock();
        if queue.is_closed {
            return;
        }
        queue.waiting.push_back((leftover, building));
        if std::mem::replace(&mut queue.is_running, true) {
            return;
        }
        // First: a close that comes behind the queue has to find the thread.
        let mut thread = self.thread.lock();
        drop(queue);
        let parts = Arc::clone(&self.parts);
        match thread::spawn("holdfast-free", move || parts.run()) {
            Ok(started) => *thread = Some(started),
            Err(_) => self.parts.run(),
        }
    }

    /// Takes nothing more and waits until what was begun is done.
    pub(crate) fn close(&self) {
        self.parts.queue.lock().is_closed = true;
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread has been reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The thread that frees. When it panics, the next leftover begins another one: else all that comes
/// would wait for the next open, and compactions would pass over these tables.
struct Running<'p>(&'p Mutex<Queue>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_running = false;
        }
    }
}

impl Parts {
    fn run(&self) {
        self.run_with(|leftover| {
            let dropped = || leftover.store.file.is_dropped().then_some(Error::Closed("the table's file"));
            let _ = self.free(leftover, &|| dropped().map_or(Ok(()), Err));
        });
    }

    fn run_with(&self, free: impl Fn(&Leftover)) {
        let _running = Running(&self.queue);
        while let Some((leftover, _building)) = self.next() {
            free(&leftover);
        }
    }

    fn next(&self) -> Option<(Leftover, Visit)> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        queue.is_running = next.is_some();
        next
    }

    fn free(&self, leftover: &Leftover, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        let Leftover { store, indexes, is_whole } = leftover;
        if indexes.is_empty() {
            return Ok(());
        }
        let ids: Vec<IndexId> = indexes.iter().map(|index| index.id()).collect();
        ids.iter().for_each(|&id| self.txns.forget(id));
        let space = store.space()?;
        let access = space.store().pool().access(AccessKind::Maintenance);
        let (mut reached, mut is_sound) = (PageSet::new(), true);
        // What the entries say of their writers does not matter any more.
        let mut chain = |_: &[u8], entry: &[u8]| values::chain_of(entry);
        for index in indexes {
            index.tree().verify_while(&access, &mut reached, &mut chain, &mut |_| is_sound = false, go_on)?;
        }
        if !is_sound {
            return Err(Error::damaged_file(space.space().file().name(), "an index that is given up is damaged"));
        }
        let pages: Vec<PageNo> = reached.iter().collect();
        for part in pages.chunks(PART) {
            go_on()?;
            space.free_pages(part, SpaceClass::User, &access)?;
        }
        drop(access);
        if *is_whole {
            let unused = Unused { space: space.id(), more: Vec::new(), less: ids };
            let _ddl = self.ddl.lock();
            self.catalog.set_unused(&self.txns, &unused)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;
    use crate::Database;
    use crate::raw::{Lifetime, RawDatabase};

    /// What came behind it was freed by the next open only.
    #[test]
    fn another_thread_takes_the_place_of_one_that_panics() {
        let db = RawDatabase::new(Database::in_memory().unwrap());
        db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
        let parts = &db.instance().freeing.parts;
        let store = Arc::clone(&db.instance().schema().get("t").unwrap().store);
        let building = store.file.build();
        let mut queue = parts.queue.lock();
        queue.is_running = true;
        queue.waiting.push_back((Leftover { store, indexes: Vec::new(), is_whole: true }, building));
        drop(queue);
        let panics = || parts.run_with(|_| panic!("planned"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!parts.queue.lock().is_running, "nothing begins another one");
        let mut alter = db.begin_alter("t", &[("k", false)], false, Duration::ZERO).unwrap();
        alter.push(0, b"key", 3, b"\x03").unwrap();
        alter.finish().unwrap();
        alter.end_in_background();
        db.instance().freeing.close();
        assert!(parts.queue.lock().waiting.is_empty());
        let report = db.database().verify(&crate::VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.is_clean() && report.unreached_pages == 0, "{report:?}");
    }
}
