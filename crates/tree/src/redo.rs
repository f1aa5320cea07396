//! Redo: applies logged mini-transactions again.
//!
//! A group is applied to those of its pages whose LSN is below the group's end; the others have it
//! already. The code is that of normal operation. All pages of a group stay latched until the group
//! is applied: a page may occur in several of its records and gets the group's end as its LSN only
//! once. Frames for all of them are reserved before.
//!
//! A page that a group initialises is not read from disk: its new content does not depend on the
//! old one, and all later changes are in the log behind the group. So torn pages and pages beyond
//! the end of the file do no harm.
//!
//! A page that turns out damaged is [passed over](Redo::pass_over), if the caller allows it, while
//! all others get their records: one bad page does not keep a database shut. If it cannot be read,
//! its checksum goes on saying so. If it can be read but a record does not fit it, its checksum is
//! right, and it would pass for a sound page that lacks changes: so it becomes a
//! [forsaken](TYPE_FORSAKEN) one, which is written like any other change and is damaged for every
//! reader, in this run of the database and the next. Records that initialise the page heal it.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_base::codec::Reader;
use holdfast_base::page::{OFF_TYPE, TYPE_FORSAKEN};
use holdfast_base::{Error, Lsn, PageId, Result, SpaceId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, ExclusiveGuard, Space};
use smallvec::SmallVec;

use crate::op::PageOp;
use crate::store::Store;

/// Finds a space by its number; `None`: its file does not exist (any more).
pub type FindSpace<'a> = dyn FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a;

/// Redo over a log: finds each space once and remembers those that are missing.
pub struct Redo<'a> {
    store: &'a Store,
    find: Box<FindSpace<'a>>,
    may_pass_over: Box<dyn Fn(SpaceId) -> bool + 'a>,
    spaces: Vec<Arc<Space>>,
    missing: BTreeSet<SpaceId>,
}

impl<'a> Redo<'a> {
    /// Redo into the pool of `store`; spaces are looked up with `find`.
    pub fn new(store: &'a Store, find: impl FnMut(SpaceId) -> Result<Option<Arc<Space>>> + 'a) -> Redo<'a> {
        let may_pass_over = Box::new(|_| false);
        Redo { store, find: Box::new(find), may_pass_over, spaces: Vec::new(), missing: BTreeSet::new() }
    }

    /// Damaged pages of the spaces that `which` names stay damaged, instead of being an error.
    #[must_use]
    pub fn pass_over(self, which: impl Fn(SpaceId) -> bool + 'a) -> Redo<'a> {
        Redo { may_pass_over: Box::new(which), ..self }
    }

    /// Applies one group, logged from `start` to `end`, to the pages that do not have it yet. Skips
    /// records of spaces that do not exist. `acc`: an access of the kind recovery.
    ///
    /// # Errors
    /// [`Error::DamagedFile`] if `payload` is no sequence of records; [`Error::DamagedPage`] if a
    /// page is damaged or a record does not fit its page, unless the page may be passed over; other
    /// errors of reading pages.
    pub fn apply(&mut self, start: Lsn, end: Lsn, payload: &[u8], acc: &Access<'_>) -> Result<()> {
        let store = self.store;
        let count = pages_of(start, payload)?;
        let _frames = (count > 1).then(|| store.pool().reserve_frames(count, acc)).transpose()?;
        let mut pages: Vec<Latched<'_>> = Vec::new();
        let mut from = Reader::new(payload);
        let mut last = None;
        while !from.is_empty() {
            let (id, op) = PageOp::decode(&mut from, last).ok_or_else(|| undecodable(start))?;
            last = Some(id);
            let at = match pages.iter().position(|p| p.id == id) {
                Some(at) => at,
                None => {
                    let Some(space) = self.space(id.space)? else { continue };
                    let guard = match latch(store, &space, id, &op, acc) {
                        Err(error) if error.is_damage() && (self.may_pass_over)(id.space) => None,
                        latched => Some(latched?),
                    };
                    let guard = guard.filter(|guard| {
                        op.initialises() || guard.lsn() < end || holdfast_base::planted!("redo-repeats-changes")
                    });
                    pages.push(Latched { id, guard, changed: false });
                    pages.len() - 1
                }
            };
            let page = &mut pages[at];
            let Some(guard) = &mut page.guard else {
                store.metrics().add(Counter::RecoveryPagesSkipped, 1);
                continue;
            };
            page.changed = true;
            if let Err(error) = op.apply(id, guard.bytes_mut()) {
                if !(self.may_pass_over)(id.space) {
                    return Err(error);
                }
                guard.bytes_mut()[OFF_TYPE] = TYPE_FORSAKEN;
                store.metrics().add(Counter::RecoveryPagesSkipped, 1);
            }
        }
        for page in pages.iter_mut().filter(|p| p.changed) {
            if let Some(guard) = &mut page.guard {
                guard.mark_dirty(start, end);
            }
        }
        store.metrics().add(Counter::RecoveryGroups, 1);
        Ok(())
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
    id: PageId,
    /// None: the page has this group already, or is damaged and passed over.
    guard: Option<ExclusiveGuard<'p>>,
    changed: bool,
}

fn undecodable(start: Lsn) -> Error {
    Error::damaged_file("the log", format!("the group at {} is not decodable", start.0))
}

/// How many pages the records of a group are of.
fn pages_of(start: Lsn, payload: &[u8]) -> Result<usize> {
    let (mut from, mut last) = (Reader::new(payload), None);
    let mut pages: SmallVec<[PageId; 8]> = SmallVec::new();
    while !from.is_empty() {
        let (id, _) = PageOp::decode(&mut from, last).ok_or_else(|| undecodable(start))?;
        if last != Some(id) && !pages.contains(&id) {
            pages.push(id);
        }
        last = Some(id);
    }
    Ok(pages.len())
}

fn latch<'p>(
    store: &'p Store,
    space: &Space,
    id: PageId,
    op: &PageOp<'_>,
    acc: &Access<'_>,
) -> Result<ExclusiveGuard<'p>> {
    if op.initialises() {
        store.pool().fix_new(space, id.no, acc)
    } else {
        store.pool().fix_exclusive(space, id.no, acc)
    }
}
