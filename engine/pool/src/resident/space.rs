//! An open space: one file of pages, and where its pages are in the pool.
//!
//! **Life.** `open` -> `closing` (no page comes in any more; its pages are flushed or discarded one
//! by one, waiting for latch holders) -> out of the registry. The pool's registry and the users
//! hold it by `Arc`; frames name it by its id. So the translation is freed with the last `Arc`,
//! when no frame refers to it any more.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use holdfast_base::{Error, HashMap, HashSet, PageId, PageNo, Result, ShortMutex, SpaceId};
use holdfast_io::File;

use crate::resident::access_stats::AccessStats;
use crate::resident::header::space_key;
use crate::resident::translation::Translation;

/// An open space. Obtained from [`Pool::open_space`](crate::Pool::open_space).
pub struct Space {
    id: SpaceId,
    /// See [`space_key`].
    pub(crate) key: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) translation: Translation,
    stats: AccessStats,
    damaged: OnceLock<Error>,
    /// The pages that lack what the log has, since recovery could not read them, and why.
    withheld: OnceLock<HashMap<PageNo, Error>>,
    /// The pages whose last write has failed. The mutex is a leaf.
    unwritten: ShortMutex<HashSet<PageNo>>,
    /// The lowest page that was ever cut off.
    cut_from: AtomicU32,
    /// The LSNs of its pages are not of the pool's log.
    pub(crate) is_of_another_log: bool,
    closing: AtomicBool,
    discarded: AtomicBool,
}

impl Space {
    pub(crate) fn new(id: SpaceId, file: Arc<dyn File>) -> Space {
        Space {
            id,
            key: space_key(id),
            file,
            translation: Translation::new(),
            stats: AccessStats::default(),
            damaged: OnceLock::new(),
            withheld: OnceLock::new(),
            unwritten: ShortMutex::default(),
            cut_from: AtomicU32::new(u32::MAX),
            is_of_another_log: false,
            closing: AtomicBool::new(false),
            discarded: AtomicBool::new(false),
        }
    }

    /// Whose pages another log has.
    pub(crate) fn of_another_log(id: SpaceId, file: Arc<dyn File>) -> Space {
        Space { is_of_another_log: true, ..Space::new(id, file) }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// What was counted for it as a whole: for accesses made with
    /// [`Access::with_stats`](crate::Access::with_stats).
    #[must_use]
    pub fn stats(&self) -> &AccessStats {
        &self.stats
    }

    /// The first damage found in a page of it, if any.
    #[must_use]
    pub fn damaged(&self) -> Option<&Error> {
        self.damaged.get()
    }

    /// Gives no reader these pages as long as the space is open: they lack what the log has. To be
    /// called once.
    pub fn withhold(&self, pages: HashMap<PageNo, Error>) {
        let _ = self.withheld.set(pages);
    }

    /// Refuses a page that is withheld.
    pub(crate) fn check_withheld(&self, no: PageNo) -> Result<()> {
        self.withheld.get().and_then(|pages| pages.get(&no)).map_or(Ok(()), |why| Err(why.clone()))
    }

    /// True if the last write of one of its pages has failed: such pages hold the checkpoint,
    /// however many others are written.
    #[must_use]
    pub fn has_failed_write(&self) -> bool {
        !self.unwritten.lock().is_empty()
    }

    /// How the write of these pages to the file has ended. To be called while they are still marked
    /// as being written: the next write of one of them may end on another thread.
    pub(crate) fn note_write(&self, pages: impl Iterator<Item = PageNo>, failed: bool) {
        let mut unwritten = self.unwritten.lock();
        if failed {
            unwritten.extend(pages);
        } else if !unwritten.is_empty() {
            for no in pages {
                unwritten.remove(&no);
            }
        }
    }

    /// Memory of the page translation, in bytes.
    #[must_use]
    pub fn translation_bytes(&self) -> u64 {
        self.translation.bytes()
    }

    pub(crate) fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.id, no)
    }

    /// Says, before it is done, that the file is cut behind its first `pages` pages. A thread that
    /// latches nothing may have read the number of a page behind them before: that it is not there,
    /// or was not written since, is no damage of the file.
    pub fn will_be_cut(&self, pages: u32) {
        self.cut_from.fetch_min(pages, Ordering::SeqCst);
    }

    /// True if a page was cut off since the file was opened.
    pub(crate) fn was_cut(&self, no: PageNo) -> bool {
        no.0 >= self.cut_from.load(Ordering::SeqCst)
    }

    pub(crate) fn mark_damaged(&self, error: &Error) {
        let _ = self.damaged.set(error.clone());
    }

    /// Refuses a space that is being closed. Sequentially consistent: see `close`.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::SeqCst) { Err(Error::Closed("the table's file")) } else { Ok(()) }
    }

    /// From now on no page comes in; whether this call was the first to say so.
    pub(crate) fn close(&self) -> bool {
        !self.closing.swap(true, Ordering::SeqCst)
    }

    /// None of its pages is in the pool any more, and what was written of them need not be durable.
    pub(crate) fn set_discarded(&self) {
        self.discarded.store(true, Ordering::Release);
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.discarded.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("id", &self.id).field("file", &self.file.name()).finish_non_exhaustive()
    }
}
