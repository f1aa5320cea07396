//! A tree as the transactions see it: rows or secondary entries, each a version with a header.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use holdfast_base::blocking::{RwLock, RwLockReadGuard};
use holdfast_base::{CommitNo, Error, IndexId, Result};
use holdfast_metrics::Spread;
use holdfast_pool::AccessStats;
use holdfast_tree::Tree;

use crate::entry::row::VERSION_HEADER_LEN;
use crate::mvcc::view::View;

/// What the entries of an index are. The protocols are the same; what is counted differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Rows: key -> value.
    Rows,
    /// Secondary entries: (index key ++ row key) -> length of the index key, covered bytes.
    Entries,
}

/// An open index. There is to be one per index of a database; it is registered with the
/// [`crate::TxnSystem`], which finds it by its id when it rolls back and purges.
pub struct TableIndex {
    tree: Tree,
    kind: IndexKind,
    /// The rows that its entries lead to.
    rows_led_to: Option<Arc<TableIndex>>,
    /// Every transaction that inserts or deletes writes it: the rest is read all the time.
    rows: Spread<AtomicI64>,
    /// The commit from which on it says what there is; views of before find nothing of theirs in
    /// it.
    since: AtomicU64,
    stats: AccessStats,
    /// True once the index is dropped. Purge and rollback hold it for reading while they work on
    /// the tree.
    gone: RwLock<bool>,
}

impl TableIndex {
    /// The index over `tree`. If it holds entries, they lead to no rows.
    #[must_use]
    pub fn new(tree: Tree, kind: IndexKind) -> Arc<TableIndex> {
        TableIndex::make(tree, kind, None)
    }

    /// The secondary index over `tree`, whose entries lead to `rows`. Readers that have changed
    /// rows rely on what the value of an entry begins with: see
    /// [`row_key_begin`](crate::row_key_begin).
    #[must_use]
    pub fn leading_to(rows: &Arc<TableIndex>, tree: Tree) -> Arc<TableIndex> {
        TableIndex::make(tree, IndexKind::Entries, Some(Arc::clone(rows)))
    }

    fn make(tree: Tree, kind: IndexKind, rows_led_to: Option<Arc<TableIndex>>) -> Arc<TableIndex> {
        let (rows, since, stats) = (Spread::default(), AtomicU64::new(0), AccessStats::default());
        Arc::new(TableIndex { tree, kind, rows_led_to, rows, since, stats, gone: RwLock::new(false) })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> IndexId {
        self.tree.index()
    }

    /// The tree.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Rows or entries.
    #[must_use]
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// The rows that its entries lead to, if it is a secondary index of a table.
    #[must_use]
    pub fn rows_led_to(&self) -> Option<&Arc<TableIndex>> {
        self.rows_led_to.as_ref()
    }

    /// About how many live entries it has, by committed transactions. Exact after a clean stop.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.all().map(|own| own.load(Ordering::Relaxed)).sum::<i64>().max(0).unsigned_abs()
    }

    /// Sets the number of live entries (after a bulk load, or when a scan counted them). A larger
    /// one than there can be, which damage may have left in a checkpoint, is made smaller: there is
    /// room to count on.
    pub fn set_rows(&self, n: u64) {
        let n = n.min(i64::MAX.unsigned_abs() / 2).cast_signed();
        self.rows.all().for_each(|own| own.store(0, Ordering::Relaxed));
        self.rows.mine().store(n, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, by: i64) {
        self.rows.mine().fetch_add(by, Ordering::Relaxed);
    }

    /// Says that the index was filled, from its table's rows, when `commit` was the last commit. It
    /// has no older versions of its entries, so views of before that commit cannot use it.
    pub fn set_since(&self, commit: CommitNo) {
        self.since.store(commit.0, Ordering::Release);
    }

    /// Whether the index has what `view` sees.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`] if it was filled later.
    pub(crate) fn check_view(&self, view: &View) -> Result<()> {
        if view.commit_no().0 < self.since.load(Ordering::Acquire) { Err(Error::SnapshotTooOld) } else { Ok(()) }
    }

    /// What all accesses to the index add up to.
    #[must_use]
    pub fn access_stats(&self) -> &AccessStats {
        &self.stats
    }

    /// Keeps the index from being dropped; `None` if it is gone.
    pub(crate) fn pin(&self) -> Option<RwLockReadGuard<'_, bool>> {
        let guard = self.gone.read();
        if *guard { None } else { Some(guard) }
    }

    /// Waits until purge and rollback are not working on the tree, and keeps them away from then
    /// on.
    pub(crate) fn retire(&self) {
        *self.gone.write() = true;
    }

    /// `None` if damage of the index's own table stood in the way: that can only be salvaged, and
    /// others must not wait for it. Damage without a page is of bytes that the index holds.
    pub(crate) fn unless_damaged<T>(&self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(Error::DamagedPage { page, .. }) if page.space == self.tree.space().space().id() => Ok(None),
            Err(Error::DamagedFile { .. }) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Longest payload that an entry with a key of `key_len` bytes can have, header included.
    pub(crate) fn body_max(&self, key_len: usize) -> usize {
        let page_size = self.tree.space().store().page_size();
        holdfast_tree::node::payload_len_max(page_size, key_len) - VERSION_HEADER_LEN
    }

    /// As [`Tree::get`].
    pub(crate) fn read(&self, key: &[u8], acc: &holdfast_pool::Access<'_>, out: &mut Vec<u8>) -> Result<bool> {
        self.tree.get(key, acc, out)
    }
}

impl fmt::Debug for TableIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableIndex").field("id", &self.id()).field("kind", &self.kind).finish_non_exhaustive()
    }
}
