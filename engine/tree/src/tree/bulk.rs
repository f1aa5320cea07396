//! Bulk load: sorted entries into an empty tree, with leaves filled to a chosen degree and laid out
//! in extents of their own.
//!
//! Pages are built in memory, level by level. Each is allocated and written once, complete, by a
//! mini-transaction of its own. The last one gives the root its content and so attaches the whole
//! tree. Until then nothing leads to the new pages: a crash leaves them allocated but unreachable,
//! and verification lists them. Each page names its index from the moment of its allocation: no
//! page is allocated and not initialised.

use holdfast_base::{Error, PageNo, Result};
use holdfast_pool::Access;
use holdfast_wal::SpaceClass;

use super::Tree;
use crate::node::{EntryList, RECORD_HEADER, SLOT_LEN, body_len, fence_prefix_len, payload_len_max, separator};
use crate::op::PageOp;

/// Share of a page that is filled, in percent, unless the caller says otherwise.
const FILL_DEFAULT_PCT: u8 = 94;

/// A level under construction: the entries of the node that is being filled.
#[derive(Default)]
struct Level {
    /// (key, payload) of the entries.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes of slots and records, without regard to a prefix.
    size: usize,
    /// Lower end of the node's range.
    low: Option<Vec<u8>>,
}

impl Level {
    /// The bytes that the first `count` of the entries with these sizes take with a prefix of
    /// `prefix_len` bytes.
    fn compressed(&self, count: usize, size: usize, prefix_len: usize) -> usize {
        (size + prefix_len).saturating_sub(count * prefix_len)
    }

    /// The most entries from the start that fit into a body of `body` bytes as a node of their own,
    /// and the end of that node's range. `None` if not even one fits.
    fn longest_start(&self, level: usize, body: usize) -> Option<(usize, Vec<u8>)> {
        let mut size = 0;
        let mut longest = None;
        for (i, pair) in self.entries.windows(2).enumerate() {
            size += entry_len(&pair[0]);
            let bound = bound_between(level, Some(&pair[0].0), &pair[1].0);
            let prefix_len = fence_prefix_len(self.low.as_deref(), Some(&bound));
            if self.compressed(i + 1, size, prefix_len) <= body {
                longest = Some((i + 1, bound));
            }
        }
        longest
    }

    /// Takes the entries from `count` on out.
    fn split_off(&mut self, count: usize) -> Level {
        let entries = self.entries.split_off(count);
        let size = entries.iter().map(entry_len).sum();
        self.size -= size;
        Level { entries, size, low: None }
    }
}

fn entry_len((key, payload): &(Vec<u8>, Vec<u8>)) -> usize {
    SLOT_LEN + RECORD_HEADER + key.len() + payload.len()
}

/// The end of the range of a node whose last key is `last` if the next key is `next`. Inner nodes
/// end at a separator as it is.
fn bound_between(level: usize, last: Option<&[u8]>, next: &[u8]) -> Vec<u8> {
    match last {
        Some(last) if level == 0 => separator(last, next),
        _ => next.to_vec(),
    }
}

/// Loads a tree. Made by [`Tree::bulk_loader`].
pub struct BulkLoader<'t> {
    tree: &'t Tree,
    acc: &'t Access<'t>,
    load: SuspendedLoad,
}

/// The state of a [`BulkLoader`] between two calls, for callers that cannot keep a tree and an
/// access.
#[derive(Default)]
pub struct SuspendedLoad {
    /// Leaves first.
    levels: Vec<Level>,
    last: Option<Vec<u8>>,
    fill: usize,
    pages: Vec<PageNo>,
    /// A node could not be written: its entries are gone.
    is_broken: bool,
}

impl std::fmt::Debug for SuspendedLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SuspendedLoad").field("pages", &self.pages.len()).finish_non_exhaustive()
    }
}

impl Tree {
    /// A loader for this tree, which must be empty and is not used otherwise until the loader is
    /// done.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the tree is not empty; the errors of reading the root.
    pub fn bulk_loader<'t>(&'t self, acc: &'t Access<'t>) -> Result<BulkLoader<'t>> {
        let root = self.store().pool().fix_shared(self.space.space(), self.root, acc)?;
        let node = self.node(&root, self.root)?;
        if node.level() != Some(0) || node.count() != Some(0) {
            return Err(Error::invalid("a bulk load needs an empty index"));
        }
        let fill = body_len(self.page_size()) * usize::from(FILL_DEFAULT_PCT) / 100;
        let load = SuspendedLoad { levels: vec![Level::default()], fill, ..SuspendedLoad::default() };
        Ok(self.resume_bulk_load(load, acc))
    }

    /// Makes the tree empty, which was filled by a load that is given up: no other thread uses it.
    /// Its pages but the root stay allocated, and nothing leads to them any more.
    ///
    /// # Errors
    /// The errors of the log and of reading the root.
    pub fn clear(&self, acc: &Access<'_>) -> Result<()> {
        let ticket = self.store().reserve(128, SpaceClass::User)?;
        // A compaction may be about to move a node whose parent is the root.
        let _structure = self.lock_structure();
        let mut mtr = self.store().begin(ticket, acc);
        let root = mtr.fix(self.space.space(), self.root)?;
        mtr.apply(root, &PageOp::InitNode { index: self.index, level: 0 })?;
        mtr.commit().map(drop)
    }

    /// Goes on with a load of this tree.
    #[must_use]
    pub fn resume_bulk_load<'t>(&'t self, load: SuspendedLoad, acc: &'t Access<'t>) -> BulkLoader<'t> {
        BulkLoader { tree: self, acc, load }
    }
}

impl BulkLoader<'_> {
    /// Lets the load rest; [`Tree::resume_bulk_load`] goes on with it.
    #[must_use]
    pub fn suspend(self) -> SuspendedLoad {
        self.load
    }

    /// Fills nodes to `percent` of their body.
    #[must_use]
    pub fn fill_factor(mut self, percent: u8) -> Self {
        self.load.fill = body_len(self.tree.page_size()) * usize::from(percent.clamp(10, 100)) / 100;
        self
    }

    /// Whether `key` may be the next one.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if it equals the one before, [`Error::InvalidArgument`] if it is
    /// less, or if the load has failed; [`Error::KeyTooLong`].
    pub fn check_next(&self, key: &[u8]) -> Result<()> {
        self.check_whole()?;
        self.tree.check_key(key)?;
        match self.load.last.as_deref() {
            Some(last) if last == key => Err(Error::DuplicateKey),
            Some(last) if last > key => Err(Error::invalid("the input of a bulk load is not sorted")),
            _ => Ok(()),
        }
    }

    /// Refuses what would make a tree of a part of the nodes: its keys would not be in order.
    fn check_whole(&self) -> Result<()> {
        if self.load.is_broken { Err(Error::invalid("a bulk load that has failed cannot go on")) } else { Ok(()) }
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The errors of [`BulkLoader::check_next`] and [`Error::ValueTooLong`], after which the load
    /// goes on without the entry; [`Error::DiskFull`], errors of the log, after which all but
    /// [`BulkLoader::abort`] fails.
    pub fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<()> {
        self.check_next(key)?;
        let max = payload_len_max(self.tree.page_size(), key.len());
        if payload.len() > max {
            return Err(Error::ValueTooLong { len: payload.len() as u64, max: max as u64 });
        }
        self.add(0, key, payload).inspect_err(|_| self.load.is_broken = true)?;
        let last = self.load.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Appends an entry to the node under construction on `level`. If that node is full, it is
    /// written first.
    fn add(&mut self, level: usize, key: &[u8], payload: &[u8]) -> Result<()> {
        if self.load.levels.len() == level {
            self.load.levels.push(Level::default());
        }
        let size = SLOT_LEN + RECORD_HEADER + key.len() + payload.len();
        let node = &self.load.levels[level];
        // The prefix if the node ended near this key. If it ends elsewhere, with a shorter prefix,
        // `write_node` makes two nodes of it.
        let prefix_len = fence_prefix_len(node.low.as_deref(), Some(key));
        let with = node.compressed(node.entries.len() + 1, node.size + size, prefix_len);
        let least = if level == 0 { 1 } else { 2 };
        if with > body_len(self.tree.page_size()) || with > self.load.fill && node.entries.len() > least {
            let bound = bound_between(level, node.entries.last().map(|last| last.0.as_slice()), key);
            self.write_node(level, Some(&bound))?;
            self.load.levels[level].low = Some(bound);
        }
        let node = &mut self.load.levels[level];
        node.size += size;
        node.entries.push((key.to_vec(), payload.to_vec()));
        Ok(())
    }

    /// Writes the node under construction, whose range ends at `high`, and hands it to the level
    /// above. If it does not fit with the prefix that this end gives it, as many of its entries as
    /// fit become a node of their own first.
    fn write_node(&mut self, level: usize, high: Option<&[u8]>) -> Result<()> {
        let body = body_len(self.tree.page_size());
        loop {
            let node = &self.load.levels[level];
            let prefix_len = fence_prefix_len(node.low.as_deref(), high);
            if node.compressed(node.entries.len(), node.size, prefix_len) <= body {
                let node = std::mem::take(&mut self.load.levels[level]);
                return self.write_page(level, node, high);
            }
            let (count, bound) = node
                .longest_start(level, body)
                .ok_or_else(|| self.tree.damaged(self.tree.root, "a bulk load with an entry that fits no page"))?;
            let rest = self.load.levels[level].split_off(count);
            let first = std::mem::replace(&mut self.load.levels[level], Level { low: Some(bound.clone()), ..rest });
            self.write_page(level, first, Some(&bound))?;
        }
    }

    fn write_page(&mut self, level: usize, node: Level, high: Option<&[u8]>) -> Result<()> {
        let prefix_len = fence_prefix_len(node.low.as_deref(), high);
        let entries = entry_list(&node, level, prefix_len);
        let prefix = &high.unwrap_or_default()[..prefix_len];
        let no = self.write_new(level, &entries, prefix)?;
        self.load.pages.push(no);
        let key = node.low.unwrap_or_default();
        self.add(level + 1, &key, &no.0.to_le_bytes())
    }

    /// Allocates a page behind the one before and gives it its content.
    fn write_new(&self, level: usize, entries: &EntryList, prefix: &[u8]) -> Result<PageNo> {
        let (tree, store) = (self.tree, self.tree.store());
        let ticket = store.reserve(tree.page_size() + 512, SpaceClass::User)?;
        let near = self.load.pages.last().copied().unwrap_or(tree.root);
        let _frames = tree.space.reserve_alloc(near, 1, self.acc)?;
        let mut mtr = store.begin(ticket, self.acc);
        let page = tree.alloc_new(&mut mtr, near)?;
        mtr.apply(page, &PageOp::InitNode { index: tree.index, level: level as u8 })?;
        mtr.apply(page, &entries.as_content(prefix))?;
        let no = mtr.id(page).no;
        mtr.commit()?;
        Ok(no)
    }

    /// Writes the nodes still under construction and attaches the tree to the root. Returns the
    /// number of pages written.
    ///
    /// # Errors
    /// [`Error::DiskFull`], those of the log; [`Error::InvalidArgument`] if the load has failed
    /// before. The pages are given back then, as by [`BulkLoader::abort`].
    pub fn finish(mut self) -> Result<u64> {
        let attached = self.attach();
        if attached.is_err() {
            // The caller gets the first error. Verification finds pages that cannot be freed now.
            let _ = self.abort();
        }
        attached
    }

    fn attach(&mut self) -> Result<u64> {
        self.check_whole()?;
        let mut level = 0;
        while level + 1 < self.load.levels.len() {
            self.write_node(level, None)?;
            level += 1;
        }
        let store = self.tree.store();
        let top = std::mem::take(&mut self.load.levels[level]);
        let entries = entry_list(&top, level, 0);
        let ticket = store.reserve(self.tree.page_size() + 64, SpaceClass::User)?;
        let mut mtr = store.begin(ticket, self.acc);
        let root = mtr.fix(self.tree.space.space(), self.tree.root)?;
        mtr.apply(root, &PageOp::InitNode { index: self.tree.index, level: level as u8 })?;
        mtr.apply(root, &entries.as_content(&[]))?;
        mtr.commit()?;
        Ok(self.load.pages.len() as u64 + 1)
    }

    /// Gives all pages back; the tree stays empty.
    ///
    /// # Errors
    /// The errors of the log and of reading bitmaps.
    pub fn abort(self) -> Result<()> {
        self.tree.space.free_pages(&self.load.pages, SpaceClass::User, self.acc)
    }
}

fn entry_list(node: &Level, level: usize, prefix_len: usize) -> EntryList {
    let mut list = EntryList::new();
    for (i, (key, payload)) in node.entries.iter().enumerate() {
        let keyless = level > 0 && i == 0;
        list.push(if keyless { &[] } else { &key[prefix_len..] }, payload);
    }
    list
}

impl std::fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoader")
            .field("tree", self.tree)
            .field("pages", &self.load.pages.len())
            .finish_non_exhaustive()
    }
}
