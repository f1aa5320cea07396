//! Guards: the holds on a page. A latch is the pin - its holder keeps the page in its frame.
//!
//! [`OptimisticGuard`] holds nothing: what was read through it counts only after
//! [`OptimisticGuard::validate`]. Under Miri it holds the shared latch instead and always
//! validates.
//!
//! Lock order: page latches are taken top-down in a tree (parents before children) and released in
//! any order. *No wait under a latch*: a thread that holds a guard fixes another page only if its
//! access carries a reserved frame for it.

use std::fmt;
use std::ops::Deref;

use holdfast_base::{Lsn, PageId, page};

use crate::core::Core;
use crate::resident::access::OptPage;
use crate::resident::header::{EXAMINED, FrameHeader, WRITING};
use holdfast_latch::Stamp;

/// What was read optimistically does not count; start over from a point that is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart;

/// A version of a page in a frame: equal stamps mean that the page has not changed, and has not
/// left its frame, in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStamp {
    pub(crate) frame: u32,
    pub(crate) stamp: Stamp,
}

/// A page that is read without a latch.
pub struct OptimisticGuard<'a> {
    pub(crate) core: &'a Core,
    pub(crate) header: &'a FrameHeader,
    pub(crate) at: PageStamp,
    pub(crate) id: PageId,
}

impl<'a> OptimisticGuard<'a> {
    /// The page, for reading. What is read counts only if [`OptimisticGuard::validate`] says so
    /// afterwards.
    #[inline]
    #[must_use]
    pub fn page(&self) -> OptPage<'a> {
        let frames = &self.core.frames;
        // SAFETY: a frame's memory stays mapped and initialised as long as the pool lives, which
        // `'a` borrows.
        unsafe { OptPage::new(frames.bytes(self.at.frame), frames.page_size()) }
    }

    /// True if nothing has changed since this guard was made.
    #[inline]
    #[must_use]
    pub fn validate(&self) -> bool {
        self.header.latch.validate(self.at.stamp)
    }

    /// Which page.
    #[must_use]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The version that is being read.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> PageStamp {
        self.at
    }

    /// Takes the latch exclusively, if nothing has changed since this guard was made. Waits for
    /// shared holders only.
    ///
    /// # Errors
    /// [`Restart`] if something has.
    pub fn upgrade(self) -> Result<ExclusiveGuard<'a>, Restart> {
        #[cfg(miri)]
        self.header.latch.release_shared();
        let upgraded = self.header.latch.upgrade(self.at.stamp);
        let guard = upgraded.then(|| ExclusiveGuard::new(self.core, self.at.frame, self.id));
        #[cfg(miri)]
        std::mem::forget(self);
        guard.ok_or(Restart)
    }

    /// Takes the latch shared, if nothing has changed since this guard was made.
    ///
    /// # Errors
    /// [`Restart`] if something has.
    pub fn to_shared(self) -> Result<SharedGuard<'a>, Restart> {
        let unchanged = || self.header.latch.stamp() == self.at.stamp;
        if !self.core.latch_shared_while(self.header, unchanged) {
            return Err(Restart);
        }
        let guard = SharedGuard { core: self.core, header: self.header, frame: self.at.frame, id: self.id };
        if self.validate() { Ok(guard) } else { Err(Restart) }
    }
}

#[cfg(miri)]
impl Drop for OptimisticGuard<'_> {
    fn drop(&mut self) {
        self.header.latch.release_shared();
    }
}

impl fmt::Debug for OptimisticGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OptimisticGuard({})", self.id)
    }
}

/// A page latched shared: its bytes do not change.
pub struct SharedGuard<'a> {
    pub(crate) core: &'a Core,
    pub(crate) header: &'a FrameHeader,
    pub(crate) frame: u32,
    pub(crate) id: PageId,
}

impl SharedGuard<'_> {
    /// Which page.
    #[must_use]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The version that is being read.
    #[must_use]
    pub fn stamp(&self) -> PageStamp {
        PageStamp { frame: self.frame, stamp: self.header.latch.stamp() }
    }
}

impl Deref for SharedGuard<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this guard holds the latch shared, as long as the borrow lasts at least.
        unsafe { self.core.frames.page(self.frame) }
    }
}

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        self.header.latch.release_shared();
    }
}

impl fmt::Debug for SharedGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedGuard({})", self.id)
    }
}

/// A page latched exclusively. A holder that changes it logs the change and calls
/// [`ExclusiveGuard::mark_dirty`] before the guard is dropped.
pub struct ExclusiveGuard<'a> {
    core: &'a Core,
    header: &'a FrameHeader,
    frame: u32,
    id: PageId,
    changed: bool,
    /// The page was made by `fix_new` and is not dirty yet: it is not what its file holds.
    fresh: bool,
    /// The page was there when it was to be made anew: it is zeroed by the first change.
    stale: bool,
}

impl<'a> ExclusiveGuard<'a> {
    /// The caller holds the frame's latch exclusively.
    pub(crate) fn new(core: &'a Core, frame: u32, id: PageId) -> ExclusiveGuard<'a> {
        let header = core.frames.header(frame);
        ExclusiveGuard { core, header, frame, id, changed: false, fresh: false, stale: false }
    }

    /// The page has just come in: the frame's version has to move.
    pub(crate) fn brought_in(mut self) -> ExclusiveGuard<'a> {
        self.changed = true;
        self
    }

    /// The page is to be made, anew if it was there (`stale`).
    pub(crate) fn fresh(mut self, stale: bool) -> ExclusiveGuard<'a> {
        (self.changed, self.fresh, self.stale) = (true, true, stale);
        self
    }

    /// Which page.
    #[must_use]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The page.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: this guard holds the latch exclusively, as long as the borrow lasts at least.
        unsafe { self.core.frames.page(self.frame) }
    }

    /// The page, to be changed.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.changed = true;
        if self.stale {
            self.stale = false;
            self.core.zero(self.frame, self.id);
        }
        // SAFETY: this guard holds the latch exclusively, and `&mut self` makes this the only
        // reference.
        unsafe { self.core.frames.page_mut(self.frame) }
    }

    /// The page LSN.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        page::lsn(self.bytes())
    }

    /// True if the page is newer than its file.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.header.rec_lsn() != 0
    }

    /// True if [`ExclusiveGuard::note_examined`] was called since the page came into its frame.
    /// Another page in the frame, or the same one in another frame, begins without it.
    #[inline]
    #[must_use]
    pub fn is_examined(&self) -> bool {
        self.header.has(EXAMINED)
    }

    /// Remembers, as long as the page is in its frame, that its content was looked through and
    /// found sound. What changes it keeps it sound.
    pub fn note_examined(&self) {
        self.header.set(EXAMINED);
    }

    /// Records that the mini-transaction logged from `start` to `end` changed the page: sets the
    /// page LSN to `end`, and holds the checkpoint at `start` until the page is on disk. The
    /// caller's writer slot of the log still stands.
    ///
    /// # Panics
    /// In debug builds, if `start` is 0 or not before `end`.
    pub fn mark_dirty(&mut self, start: Lsn, end: Lsn) {
        debug_assert!(start.0 > 0 && start < end, "{start:?}..{end:?}");
        page::set_lsn(self.bytes_mut(), end);
        self.core.register_dirty(self.frame, self.header, self.id, start);
        self.fresh = false;
    }

    /// Turns the exclusive hold into a shared one; no other thread changes the page in between.
    #[must_use]
    pub fn downgrade(self) -> SharedGuard<'a> {
        let this = std::mem::ManuallyDrop::new(self);
        this.header.latch.downgrade(this.changed);
        SharedGuard { core: this.core, header: this.header, frame: this.frame, id: this.id }
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        // In this order: see `header` on WRITING. The end of a write sets rec_lsn before it clears
        // WRITING, and would clear it in the frame's next life.
        if self.fresh && !self.header.has(WRITING) && self.header.rec_lsn() == 0 {
            // A page that was begun and given up must not pass for what is on disk. One that was
            // there, and dirty, is as it was.
            self.core.forget_page(self.frame, self.id);
        } else {
            self.header.latch.release_exclusive(self.changed);
        }
    }
}

impl fmt::Debug for ExclusiveGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExclusiveGuard({})", self.id)
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use holdfast_base::PageNo;

    use super::*;
    use crate::AccessKind;
    use crate::test_pool::with_space;

    /// The thread that ends a write was preempted between its last two steps. The frame went to
    /// another page, whose first write it then took for ended.
    #[test]
    fn a_page_is_not_given_up_while_the_end_of_its_write_is_under_way() {
        let (pool, wal, space) = with_space();
        let access = pool.access(AccessKind::Point);
        let mut page = pool.fix_new(&space, PageNo(0), &access).unwrap();
        let (start, end) = wal.append(b"made").unwrap();
        page.mark_dirty(start, end);
        let (frame, core) = (page.frame, page.core);
        drop(page);
        let (header, partition) = (core.frames.header(frame), core.partition(space.page_id(PageNo(0))));
        partition.begin_write(header).unwrap();
        let given_up = pool.fix_new(&space, PageNo(0), &access).unwrap();
        // The first of the two steps.
        partition.forget_dirty(frame, header);
        drop(given_up);
        assert!(pool.is_resident(&space, PageNo(0)) && header.has(WRITING));
        header.clear(WRITING);
        drop(pool.fix_new(&space, PageNo(0), &access).unwrap());
        assert!(!pool.is_resident(&space, PageNo(0)));
    }
}
