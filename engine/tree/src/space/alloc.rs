//! Allocation: near a hint, first in its extent, then in a free extent, then in any place with
//! room. The file grows only when it is full.
//!
//! An index names also its last new page, and fills that extent before it takes another one.
//! Otherwise pages that split in random order would each begin an extent, and no free extent would
//! be left for an index that grows at its end. For an index the file also grows before it is full,
//! as long as less than one page in [`SPARE_DIV`] is free: single pages between those of other
//! indexes cost a scan one seek each. Where the file cannot grow, an index takes these pages, too.
//!
//! **Frames.** An allocation latches page 0 and at most four bitmaps: [`ALLOC_FRAMES`] frames,
//! which the caller reserves before its first latch ([`SpaceFile::reserve_alloc`]). It is known
//! beforehand which bitmaps have room (see [`rooms`](super::rooms)), so an allocation reads at most
//! [`LOOKS`] of them: those of the two hints, and one more.
//!
//! To allocate and to free have two halves. The first latches page 0, the bitmaps and the new
//! pages, and checks all of them: the bits that change must have the other value, and no page that
//! the caller has latched may be marked as free. The second changes them and cannot fail. Callers
//! with further changes in the same mini-transaction check those in between.

use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::page::PageType;
use holdfast_base::{Error, IndexId, PageNo, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, Reserved};

use super::bitmap::{ALLOCATED_BEYOND, bitmaps, from_home};
use super::{SpaceFile, bitmap, header};
use crate::mtr::{Mtr, PageRef};
use crate::op::PageOp;

/// Largest step by which a file grows, in extents: at most one new bitmap comes with it.
const GROWTH_MAX_EXTENTS: u32 = if cfg!(sim) { 1 } else { 64 };
/// A file grows by this part of its size.
const GROWTH_DIV: u32 = 8;
/// While fewer pages than this part, and an extent, are free, an index lets the file grow rather
/// than take single pages.
const SPARE_DIV: u32 = 8;
/// Pages at which a file begins to grow by whole extents.
const SMALL: u32 = EXTENT_PAGES;
/// Bitmaps that one allocation looks at.
const LOOKS: usize = 3;
/// Frames that an allocation may need beside those of the new pages: page 0, the bitmaps of two
/// hints, and one with room; or the last one and a new one if the file grows.
pub const ALLOC_FRAMES: usize = 5;
/// Frames that giving a page back may need: page 0 and a bitmap.
pub const FREE_FRAMES: usize = 2;
/// Log bytes that giving a page back may need.
pub const FREE_BYTES: usize = 32;

/// What is wanted: pages near another. `last`: for an index, which took that page before.
#[derive(Clone, Copy)]
struct Want {
    near: PageNo,
    last: Option<PageNo>,
    count: usize,
    /// Fewer pages than this are of no use.
    least: usize,
}

/// What an allocation will do. Page 0 and the bitmaps are latched, the file is long enough, nothing
/// is changed yet.
struct Plan {
    header: PageRef,
    /// What will be allocated.
    pages: Vec<PageNo>,
    /// Bitmaps that were looked at, and stay latched.
    looked: Vec<PageNo>,
    /// Pages of the file afterwards, if it grows, and the bitmap pages that come with them.
    grown: Option<(u32, Vec<PageRef>)>,
}

/// Pages that [`SpaceFile::take`] will allocate, latched to be initialised. Nothing is changed yet.
pub struct NewPages {
    plan: Plan,
    latched: Vec<PageRef>,
}

impl NewPages {
    /// The new page number `i`.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn page(&self, i: usize) -> PageRef {
        self.latched[i]
    }
}

/// A page that [`SpaceFile::give_back`] will free, with its bitmap latched. Nothing is changed yet.
pub struct FreeingPage {
    no: PageNo,
    bitmap: PageRef,
}

impl FreeingPage {
    fn op(&self, mtr: &Mtr<'_>) -> PageOp<'static> {
        PageOp::ClearBits { first: self.no.0 - bitmap::first_covered(mtr.id(self.bitmap).no), count: 1 }
    }
}

/// A bitmap in the search for free pages. Pages are counted from its first one, and those of the
/// plan count as taken.
struct Looked<'m> {
    bytes: &'m [u8],
    first: u32,
    limit: u32,
    taken: &'m [PageNo],
}

impl Looked<'_> {
    fn page(&self, bit: u32) -> PageNo {
        PageNo(self.first + bit)
    }

    fn is_taken(&self, bit: u32) -> bool {
        self.taken.contains(&self.page(bit))
    }

    fn free_in(&self, from: u32, to: u32) -> Option<PageNo> {
        let mut bit = bitmap::first_free(self.bytes, from, to)?;
        while self.is_taken(bit) {
            bit = bitmap::first_free(self.bytes, bit + 1, to)?;
        }
        Some(self.page(bit))
    }

    fn free_extent(&self, from: u32) -> Option<PageNo> {
        let bit = bitmap::first_free_extent(self.bytes, from, self.limit).filter(|&bit| !self.is_taken(bit))?;
        Some(self.page(bit))
    }
}

impl SpaceFile {
    /// Reserves the frames of an allocation near `near`, and `beside` frames for pages that are
    /// latched with it, the new ones included. The caller has reserved log space and holds no
    /// latch.
    ///
    /// # Errors
    /// The errors of [`Pool::reserve_frames`](holdfast_pool::Pool::reserve_frames); the errors of
    /// reading bitmaps.
    pub fn reserve_alloc<'r>(&self, near: PageNo, beside: usize, acc: &'r Access<'r>) -> Result<Reserved<'r>> {
        self.look_around(near, |room| room.extents > 0, acc)?;
        self.store.pool().reserve_frames(ALLOC_FRAMES + beside, acc)
    }

    /// The same for a mini-transaction after the one that `frames` were reserved for. The caller
    /// holds no latch.
    pub(crate) fn refill_alloc(&self, near: PageNo, frames: &Reserved<'_>, acc: &Access<'_>) -> Result<()> {
        self.look_around(near, |room| room.extents > 0, acc)?;
        frames.refill()
    }

    /// Allocates a page, near `near` if there is room. The page is neither latched nor initialised:
    /// [`Mtr::fix_new`].
    ///
    /// # Errors
    /// [`Error::DiskFull`] if the file cannot grow; errors of reading bitmaps. Nothing has changed
    /// then.
    pub fn alloc_page(&self, mtr: &mut Mtr<'_>, near: PageNo) -> Result<PageNo> {
        Ok(self.alloc_pages(mtr, near, 1)?[0])
    }

    /// Allocates a page near `near` and latches it to be initialised. Everything that can fail
    /// comes before the first change.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::alloc_page`]; the errors of finding a frame.
    pub fn alloc_new(&self, mtr: &mut Mtr<'_>, near: PageNo) -> Result<PageRef> {
        self.alloc_and_latch(mtr, Want { near, last: None, count: 1, least: 1 })
    }

    /// As [`SpaceFile::alloc_new`], for an index whose last new page was `last`.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::alloc_new`].
    pub fn alloc_new_of_index(&self, mtr: &mut Mtr<'_>, near: PageNo, last: PageNo) -> Result<PageRef> {
        self.alloc_and_latch(mtr, Want { near, last: Some(last), count: 1, least: 1 })
    }

    fn alloc_and_latch(&self, mtr: &mut Mtr<'_>, want: Want) -> Result<PageRef> {
        let plan = self.plan(mtr, want)?;
        let new = self.latch_new(mtr, plan)?;
        let page = new.page(0);
        self.take(mtr, new)?;
        Ok(page)
    }

    /// Latches `count` free pages near `near` for [`SpaceFile::take`].
    ///
    /// # Errors
    /// The errors of [`SpaceFile::alloc_new`]. Nothing has changed then.
    pub fn plan_new(&self, mtr: &mut Mtr<'_>, near: PageNo, count: usize) -> Result<NewPages> {
        let plan = self.plan(mtr, Want { near, last: None, count, least: count })?;
        self.latch_new(mtr, plan)
    }

    fn latch_new(&self, mtr: &mut Mtr<'_>, plan: Plan) -> Result<NewPages> {
        let mut latched = Vec::with_capacity(plan.pages.len());
        for &no in &plan.pages {
            if mtr.has_latched(self.page_id(no)) {
                return Err(self.damaged(no, "in use, but not allocated"));
            }
            latched.push(mtr.fix_new(self.space(), no)?);
        }
        Ok(NewPages { plan, latched })
    }

    /// Allocates what was planned.
    ///
    /// # Errors
    /// None, as long as nothing else has changed the bitmaps: the plan has found the change
    /// possible.
    pub fn take(&self, mtr: &mut Mtr<'_>, new: NewPages) -> Result<()> {
        self.carry_out(mtr, new.plan)
    }

    /// Allocates up to `count` pages near `near`, ascending as far as possible: at least one, and
    /// fewer than `count` if the search for more would take many places.
    ///
    /// # Errors
    /// The errors of [`SpaceFile::alloc_page`].
    pub fn alloc_pages(&self, mtr: &mut Mtr<'_>, near: PageNo, count: usize) -> Result<Vec<PageNo>> {
        let plan = self.plan(mtr, Want { near, last: None, count, least: 1 })?;
        let pages = plan.pages.clone();
        self.carry_out(mtr, plan)?;
        Ok(pages)
    }

    /// Latches the lowest free page, if it is below `limit`, for [`SpaceFile::take`]: to move pages
    /// to the front of the file. See `SpaceFile::refill_below`.
    ///
    /// # Errors
    /// Damage; the errors of reading bitmaps and of finding a frame.
    pub fn plan_new_below(&self, mtr: &mut Mtr<'_>, limit: PageNo) -> Result<Option<NewPages>> {
        let header = self.fix_header(mtr)?;
        let pages = self.pages_of(mtr.bytes(header))?.min(limit.0);
        let with_room = |no: &PageNo| self.room(*no).is_some_and(|room| room.free > 0);
        let Some(no) = bitmaps(pages, mtr.page_size()).find(with_room) else { return Ok(None) };
        let mut plan = Plan { header, pages: Vec::new(), looked: Vec::new(), grown: None };
        let Some(looked) = self.look(mtr, pages, no, &mut plan)? else { return Ok(None) };
        let Some(found) = looked.free_in(0, looked.limit) else { return Ok(None) };
        plan.pages.push(found);
        self.latch_new(mtr, plan).map(Some)
    }

    /// Call it before the mini-transaction of [`SpaceFile::plan_new_below`], with no latch held.
    pub(crate) fn refill_below(&self, frames: &Reserved<'_>, acc: &Access<'_>) -> Result<()> {
        self.look_around(PageNo(0), |room| room.free > 0, acc)?;
        frames.refill()
    }

    /// Gives a latched page back: it becomes a free page, and its bit is cleared.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it was not allocated; the errors of reading its bitmap.
    pub fn free_latched(&self, mtr: &mut Mtr<'_>, page: PageRef) -> Result<()> {
        let freeing = self.plan_free(mtr, mtr.id(page).no)?;
        mtr.apply(page, &PageOp::FreePage)?;
        self.give_back(mtr, &freeing)
    }

    /// Frees pages without a latch on them: their bytes stay as they are until they are allocated
    /// again.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if one of them was not allocated, or is named twice; errors of
    /// reading bitmaps. Nothing has changed then.
    pub fn free_unlatched(&self, mtr: &mut Mtr<'_>, pages: &[PageNo]) -> Result<()> {
        let mut freeing = Vec::with_capacity(pages.len());
        for (i, &no) in pages.iter().enumerate() {
            if pages[..i].contains(&no) {
                return Err(self.damaged(no, "it is given back twice"));
            }
            freeing.push(self.plan_free(mtr, no)?);
        }
        freeing.iter().try_for_each(|page| self.give_back(mtr, page))
    }

    /// Latches what giving page `no` back changes, beside the page itself.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it was not allocated; the errors of reading its bitmap.
    pub fn plan_free(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<FreeingPage> {
        self.fix_header(mtr)?;
        let bitmap_no = bitmap::page_for(no, mtr.page_size());
        let freeing = FreeingPage { no, bitmap: mtr.fix(self.space(), bitmap_no)? };
        if no == bitmap_no || no.0 == 0 || !mtr.can_apply(freeing.bitmap, &freeing.op(mtr)) {
            return Err(self.damaged(no, "it is given back, but was not allocated"));
        }
        Ok(freeing)
    }

    /// Clears the bit of a page that [`SpaceFile::plan_free`] has looked at.
    ///
    /// # Errors
    /// None, as long as nothing else has changed the bit.
    pub fn give_back(&self, mtr: &mut Mtr<'_>, freeing: &FreeingPage) -> Result<()> {
        mtr.apply(freeing.bitmap, &freeing.op(mtr))?;
        let (bitmap_no, bytes) = (mtr.id(freeing.bitmap).no, mtr.bytes(freeing.bitmap));
        let bit = freeing.no.0 - bitmap::first_covered(bitmap_no);
        let word = bitmap::word(bytes, (bit / EXTENT_PAGES) as usize).unwrap_or(u64::MAX);
        self.note_change(freeing.no, false, word);
        self.store.metrics().add(Counter::PagesFreed, 1);
        Ok(())
    }

    fn plan(&self, mtr: &mut Mtr<'_>, want: Want) -> Result<Plan> {
        let header = self.fix_header(mtr)?;
        let pages = self.pages_of(mtr.bytes(header))?;
        self.note_pages(pages);
        let mut plan = Plan { header, pages: Vec::new(), looked: Vec::new(), grown: None };
        self.pick_all(mtr, pages, want, &mut plan)?;
        let missing = want.count - plan.pages.len();
        if missing == 0 || plan.pages.len() >= want.least && plan.looked.len() == LOOKS {
            return Ok(plan);
        }
        match self.grow(mtr, pages, missing as u32, &mut plan) {
            Ok(new) => plan.pages.extend(new.take(missing)),
            Err(error) if holdfast_base::planted!("free-pages-kept-back") => return Err(error),
            Err(error) => {
                // What is kept free for other indexes is better than nothing.
                self.pick_all(mtr, pages, Want { last: None, ..want }, &mut plan)?;
                if plan.pages.len() < want.least {
                    return Err(error);
                }
            }
        }
        Ok(plan)
    }

    /// Adds free pages to the plan as long as some are wanted and found.
    fn pick_all(&self, mtr: &mut Mtr<'_>, pages: u32, want: Want, plan: &mut Plan) -> Result<()> {
        let mut near = plan.pages.last().copied().unwrap_or(want.near);
        while plan.pages.len() < want.count {
            let Some(no) = self.pick(mtr, pages, (near, want.last), plan)? else { break };
            plan.pages.push(no);
            near = no;
        }
        Ok(())
    }

    /// A free page that is not in the plan: in the extent of `near` or of `last`, at the start of a
    /// free extent, or in any place.
    fn pick(
        &self,
        mtr: &mut Mtr<'_>,
        pages: u32,
        (near, last): (PageNo, Option<PageNo>),
        plan: &mut Plan,
    ) -> Result<Option<PageNo>> {
        let size = mtr.page_size();
        let near = PageNo(near.0.min(pages.saturating_sub(1)));
        for start in [Some(near), last.filter(|last| last.0 < pages)].into_iter().flatten() {
            let Some(looked) = self.look(mtr, pages, bitmap::page_for(start, size), plan)? else { continue };
            let at = start.0 - looked.first;
            let extent = at - at % EXTENT_PAGES;
            let end = (extent + EXTENT_PAGES).min(looked.limit);
            if let Some(no) = looked.free_in(at, end).or_else(|| looked.free_in(extent, at)) {
                return Ok(Some(no));
            }
        }
        let home = bitmap::page_for(near, size);
        let from = |no| if no == home { near.0 - bitmap::first_covered(no) } else { 0 };
        let mut free = 0;
        for no in from_home(near, pages, size) {
            let Some(room) = self.room(no) else { continue };
            free += room.free;
            if room.extents == 0 {
                continue;
            }
            let Some(looked) = self.look(mtr, pages, no, plan)? else { continue };
            if let Some(found) = looked.free_extent(from(no)).or_else(|| looked.free_extent(0)) {
                return Ok(Some(found));
            }
        }
        if last.is_some() && pages >= SMALL && free < pages / SPARE_DIV + EXTENT_PAGES {
            return Ok(None);
        }
        for no in from_home(near, pages, size).filter(|&no| self.room(no).is_some_and(|room| room.free > 0)) {
            let Some(looked) = self.look(mtr, pages, no, plan)? else { continue };
            if let Some(found) = looked.free_in(from(no), looked.limit).or_else(|| looked.free_in(0, from(no))) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Latches a bitmap page to look at it. `None`: the plan has looked at as many as it may.
    fn look<'m>(&self, mtr: &'m mut Mtr<'_>, pages: u32, no: PageNo, plan: &'m mut Plan) -> Result<Option<Looked<'m>>> {
        if !plan.looked.contains(&no) {
            if plan.looked.len() == LOOKS {
                return Ok(None);
            }
            plan.looked.push(no);
        }
        let first = bitmap::first_covered(no);
        let limit = (pages - first).min(bitmap::pages_covered(mtr.page_size()));
        let bytes = self.fix_bitmap(mtr, no)?;
        if self.room(no).is_none() {
            self.note_room(no, bytes, pages);
        }
        Ok(Some(Looked { bytes, first, limit, taken: &plan.pages }))
    }

    pub(super) fn fix_bitmap<'m>(&self, mtr: &'m mut Mtr<'_>, no: PageNo) -> Result<&'m [u8]> {
        let page = mtr.fix(self.space(), no)?;
        let bytes = mtr.bytes(page);
        if !bitmap::is_typed(bytes) {
            return Err(self.damaged(no, "it should be an allocation bitmap"));
        }
        Ok(bytes)
    }

    /// Makes the file longer by at least `more` pages that are no bitmaps, and latches the bitmaps
    /// that come with them. Returns the new pages without the bitmaps, ascending. A file that is
    /// longer than its page count says does no harm.
    fn grow<'m>(
        &self,
        mtr: &mut Mtr<'m>,
        pages: u32,
        more: u32,
        plan: &mut Plan,
    ) -> Result<impl Iterator<Item = PageNo> + use<'m>> {
        let size = mtr.page_size();
        let spare = 1 + more / bitmap::pages_covered(size);
        let wanted = u64::from(pages) + u64::from(more) + u64::from(spare);
        let target = self.lengthen(mtr, pages, wanted.max(step(pages))).or_else(|error| match error {
            Error::DiskFull(_) | Error::LimitReached(_) => self.lengthen(mtr, pages, wanted),
            other => Err(other),
        })?;
        let mut new_bitmaps = Vec::new();
        for no in bitmaps(target, size).filter(|no| no.0 >= pages) {
            let new = mtr.fix_new(self.space(), no)?;
            self.check_new_bitmap(no, mtr.bytes(new))?;
            new_bitmaps.push(new);
        }
        plan.grown = Some((target, new_bitmaps));
        Ok((pages..target).map(PageNo).filter(move |&no| !bitmap::is_bitmap(no, size)))
    }

    /// Makes the file, which has `pages` pages, long enough for `wanted` pages, in whole extents if
    /// it is not small. Returns its new number of pages.
    fn lengthen(&self, mtr: &mut Mtr<'_>, pages: u32, wanted: u64) -> Result<u32> {
        let size = mtr.page_size();
        let target = u32::try_from(wanted)
            .ok()
            .filter(|&target| target < u32::MAX - EXTENT_PAGES)
            .ok_or_else(|| Error::LimitReached("the table's file has the largest size possible".to_string()))?;
        let target = if target <= SMALL { target } else { target.next_multiple_of(EXTENT_PAGES) };
        for no in bitmaps(target, size).filter(|no| no.0 < pages) {
            // The old bitmaps get bits set in the new range. A page count that is too small is
            // found here.
            let (first, covered) = (bitmap::first_covered(no), bitmap::pages_covered(size));
            let (from, end) = (pages - first, covered.min(target - first));
            if from < end && !bitmap::all_equal(self.fix_bitmap(mtr, no)?, from, end - from, false) {
                return Err(self.damaged(no, ALLOCATED_BEYOND));
            }
        }
        let (file, len) = (self.space().file(), u64::from(target) * size as u64);
        if file.len()? < len {
            file.set_len(len)?;
        }
        Ok(target)
    }

    fn carry_out(&self, mtr: &mut Mtr<'_>, plan: Plan) -> Result<()> {
        let size = mtr.page_size();
        if let Some((pages, new_bitmaps)) = plan.grown {
            let before = self.pages_of(mtr.bytes(plan.header))?;
            let offset = header::OFF_PAGES as u16;
            mtr.apply(plan.header, &PageOp::WriteBytes { offset, bytes: &pages.to_le_bytes() })?;
            for page in new_bitmaps {
                let init = PageOp::InitPage { page_type: PageType::Allocation, index: IndexId(0) };
                mtr.apply(page, &init)?;
                mtr.apply(page, &PageOp::SetBits { first: 0, count: 1 })?;
            }
            self.note_pages(pages);
            let new = |&no: &PageNo| bitmap::first_covered(no).saturating_add(bitmap::pages_covered(size)) > before;
            for no in bitmaps(pages, size).filter(new) {
                let page = mtr.fix(self.space(), no)?;
                self.note_room(no, mtr.bytes(page), pages);
            }
        }
        for no in plan.pages {
            let bitmap_no = bitmap::page_for(no, size);
            let page = mtr.fix(self.space(), bitmap_no)?;
            let bit = no.0 - bitmap::first_covered(bitmap_no);
            if !holdfast_base::planted!("page-not-marked") || !no.0.is_multiple_of(16) {
                mtr.apply(page, &PageOp::SetBits { first: bit, count: 1 })?;
            }
            let word = bitmap::word(mtr.bytes(page), (bit / EXTENT_PAGES) as usize).unwrap_or(u64::MAX);
            self.note_change(no, true, word);
            self.store.metrics().add(Counter::PagesAllocated, 1);
        }
        Ok(())
    }
}

/// Size that a file of `pages` pages grows to if nothing more is asked for.
fn step(pages: u32) -> u64 {
    if pages < SMALL {
        return u64::from((pages * 2).min(SMALL));
    }
    let extents = (pages / EXTENT_PAGES / GROWTH_DIV).clamp(1, GROWTH_MAX_EXTENTS);
    u64::from(pages) + u64::from(extents * EXTENT_PAGES)
}
