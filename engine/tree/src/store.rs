//! What spaces and trees are built on, in one handle.

use std::sync::Arc;

use holdfast_base::{Error, PageId, Result};
use holdfast_metrics::Metrics;
use holdfast_pool::{Access, AccessKind, Pool};
use holdfast_wal::{SpaceClass, SpaceTicket, Wal};

/// Pool, log and counters of one database.
#[derive(Debug)]
// In cache lines of its own: every step down a tree reads it, and must not wait for a thread that
// writes to a neighbour of the allocation, or to the count of references.
#[repr(align(128))]
pub struct Store {
    pool: Arc<Pool>,
    wal: Arc<Wal>,
    metrics: Arc<Metrics>,
}

impl Store {
    /// Takes them together.
    #[must_use]
    pub fn new(pool: Arc<Pool>, wal: Arc<Wal>, metrics: Arc<Metrics>) -> Arc<Store> {
        Arc::new(Store { pool, wal, metrics })
    }

    /// The buffer pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The log.
    #[must_use]
    pub fn wal(&self) -> &Arc<Wal> {
        &self.wal
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The error for a page whose content is not what its place in the database asks for. Either
    /// the page is damaged, or the database has stopped: a mini-transaction that broke off leaves
    /// pages in memory that look damaged and are not.
    #[cold]
    #[must_use]
    pub fn damaged(&self, page: PageId, what: impl Into<String>) -> Error {
        self.wal.check_poisoned().err().unwrap_or_else(|| Error::damaged_page(page, what))
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page_size(&self) -> usize {
        self.pool.page_size()
    }

    /// Reserves log space for mini-transactions whose records take `bytes` bytes in all. Waits; the
    /// caller holds no latch.
    ///
    /// # Errors
    /// The errors of the log: poisoned, closed, or more than it can ever give.
    pub fn reserve(&self, bytes: usize, class: SpaceClass) -> Result<SpaceTicket<'_>> {
        self.wal.reserve(Wal::group_bytes(bytes), class)
    }

    /// The class of log space for changes under `acc`: purge may use the reserve that is kept for
    /// it.
    #[must_use]
    pub fn class_of(acc: &Access<'_>) -> SpaceClass {
        if acc.kind() == AccessKind::Purge { SpaceClass::Rollback } else { SpaceClass::User }
    }
}
