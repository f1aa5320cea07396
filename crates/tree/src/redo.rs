//! Redo: applies logged mini-transactions again.
//!
//! A group is applied to those of its pages whose LSN is below the group's end; the others have it already. Applying is
//! the code of normal running. All pages of a group are latched until it is done, because a page may occur in several of
//! its records and gets the group's end as its LSN only once.
//!
//! A page that a group initialises is not read from disk: what it becomes does not depend on what it was, and all that came
//! later is in the log behind the group. So torn pages, pages beyond the end of the file and pages whose
//! storage was given back do no harm.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_base::codec::Reader;
use holdfast_base::{Error, Lsn, PageId, Result, SpaceId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, ExclusiveGuard, Space};

use crate::op::PageOp;
use crate::store::Store;

/// Finds a space by its number; `None`: its file does not exist (any more).
pub type FindSpace<'a> = dyn FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a;

/// Redo over a log: finds each space once and remembers those that are missing.
pub struct Redo<'a> {
    store: &'a Store,
    find: Box<FindSpace<'a>>,
    spaces: Vec<Arc<Space>>,
    missing: BTreeSet<SpaceId>,
}

impl<'a> Redo<'a> {
    /// Redo into the pool of `store`; spaces are looked up with `find`.
    pub fn new(store: &'a Store, find: impl FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a) -> Redo<'a> {
        Redo { store, find: Box::new(find), spaces: Vec::new(), missing: BTreeSet::new() }
    }

    /// Applies one group, logged from `start` to `end`. `acc`: of the kind recovery.
    ///
    /// # Errors
    /// Damage in the log or in a page; those of reading pages.
    pub fn apply(&mut self, start: Lsn, end: Lsn, payload: &[u8], acc: &Access<'_>) -> Result<()> {
        let store = self.store;
        redo(store, start, end, payload, acc, &mut |id| self.space(id))
    }

    fn space(&mut self, id: SpaceId) -> Result<Option<Arc<Space>>> {
        if let Some(space) = self.spaces.iter().find(|s| s.id() == id) {
            return Ok(Some(space.clone()));
        }
        if self.missing.contains(&id) {
            return Ok(None);
        }
        let found = (self.find)(id)?;
        match &found {
            Some(space) => self.spaces.push(space.clone()),
            None => {
                self.missing.insert(id);
            }
        }
        Ok(found)
    }

    /// Spaces that records were skipped for, because their files do not exist.
    #[must_use]
    pub fn missing(&self) -> &BTreeSet<SpaceId> {
        &self.missing
    }
}

impl std::fmt::Debug for Redo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redo").field("missing", &self.missing).finish_non_exhaustive()
    }
}

struct Latched<'p> {
    guard: ExclusiveGuard<'p>,
    /// The page has this group already.
    skip: bool,
    changed: bool,
}

/// Applies one group of records, logged from `start` to `end`, to the pages that do not have it yet. Records of spaces that
/// `find` does not find are skipped.
///
/// # Errors
/// [`Error::DamagedFile`] if `payload` is no sequence of records, [`Error::DamagedPage`] if one does not fit its page; those of
/// reading pages.
pub fn redo(
    store: &Store,
    start: Lsn,
    end: Lsn,
    payload: &[u8],
    acc: &Access<'_>,
    find: &mut FindSpace<'_>,
) -> Result<()> {
    let mut pages: Vec<Latched<'_>> = Vec::new();
    let mut from = Reader::new(payload);
    let mut last = None;
    while !from.is_empty() {
        let (id, op) = PageOp::decode(&mut from, last)
            .ok_or_else(|| Error::damaged_file("the log", format!("the group at {} is not decodable", start.0)))?;
        last = Some(id);
        let at = match pages.iter().position(|p| p.guard.id() == id) {
            Some(at) => at,
            None => {
                let Some(space) = find(id.space)? else { continue };
                pages.push(latch(store, &space, id, &op, end, acc)?);
                pages.len() - 1
            }
        };
        let page = &mut pages[at];
        if page.skip {
            store.metrics().add(Counter::RecoveryPagesSkipped, 1);
            continue;
        }
        op.apply(id, page.guard.bytes_mut())?;
        page.changed = true;
    }
    for page in pages.iter_mut().filter(|p| p.changed) {
        page.guard.mark_dirty(start, end);
    }
    store.metrics().add(Counter::RecoveryGroups, 1);
    Ok(())
}

fn latch<'p>(
    store: &'p Store,
    space: &Space,
    id: PageId,
    op: &PageOp<'_>,
    end: Lsn,
    acc: &Access<'_>,
) -> Result<Latched<'p>> {
    let pool = store.pool();
    if op.initialises() {
        return Ok(Latched { guard: pool.fix_new(space, id.no, acc)?, skip: false, changed: false });
    }
    let guard = pool.fix_exclusive(space, id.no, acc)?;
    let skip = guard.lsn() >= end;
    Ok(Latched { guard, skip, changed: false })
}
