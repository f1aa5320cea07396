//! Allocation: near a hint, first in its extent, then in a free extent, then wherever there is room; the file grows only
//! when it is full.
//!
//! An index says besides where it took its last page, and fills that extent before it takes another one: pages split in random
//! order would each begin an extent of their own, and soon there would be none left for an index that grows at its end. For an
//! index the file also grows before it is full, as long as less than one page in [`SPARE_DIV`] is free: pages taken one by one between
//! those of other indexes cost a scan a seek each.

use holdfast_base::codec::get_u32;
use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::page::PageType;
use holdfast_base::{Error, IndexId, PageId, PageNo, Result};
use holdfast_metrics::Counter;
use holdfast_pool::Access;

use super::{FreedExtent, SpaceFile, SpaceInfo, bitmap, header};
use crate::mtr::{Mtr, PageRef};
use crate::op::PageOp;

/// Largest step by which a file grows, in extents.
const GROWTH_MAX_EXTENTS: u32 = 64;
/// A file grows by this part of its size.
const GROWTH_DIV: u32 = 8;
/// With this part of the pages free, and an extent more, an index takes single pages rather than let the file grow.
const SPARE_DIV: u32 = 8;
/// Pages at which a file begins to grow by whole extents.
const SMALL: u32 = EXTENT_PAGES;

/// What is wanted: pages near another. `last`: for an index, which took that page before.
#[derive(Clone, Copy)]
struct Want {
    near: PageNo,
    last: Option<PageNo>,
    count: usize,
}

/// What an allocation will do, with everything latched and the file long enough, nothing changed yet.
struct Plan {
    header: PageRef,
    /// What will be allocated.
    pages: Vec<PageNo>,
    /// Pages of the file afterwards, if it grows, and the bitmap pages that come with them.
    grown: Option<(u32, Vec<PageRef>)>,
}

/// A bitmap that is being looked at: pages are counted from its first one, and those of the plan are not free any more.
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
    /// Allocates a page, near `near` if there is room. The page is neither latched nor initialised: [`Mtr::fix_new`].
    ///
    /// # Errors
    /// [`Error::DiskFull`] if the file cannot grow; those of reading bitmaps. Nothing has changed then.
    pub fn alloc_page(&self, mtr: &mut Mtr<'_>, near: PageNo) -> Result<PageNo> {
        Ok(self.alloc_pages(mtr, near, 1)?[0])
    }

    /// Allocates a page near `near` and latches it for being initialised. Everything that can fail comes before the
    /// first change.
    ///
    /// # Errors
    /// As [`SpaceFile::alloc_page`]; those of finding a frame.
    pub fn alloc_new(&self, mtr: &mut Mtr<'_>, near: PageNo) -> Result<PageRef> {
        self.alloc_and_latch(mtr, Want { near, last: None, count: 1 })
    }

    /// As [`SpaceFile::alloc_new`], for an index whose last new page was `last`.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_new_of_index(&self, mtr: &mut Mtr<'_>, near: PageNo, last: PageNo) -> Result<PageRef> {
        self.alloc_and_latch(mtr, Want { near, last: Some(last), count: 1 })
    }

    fn alloc_and_latch(&self, mtr: &mut Mtr<'_>, want: Want) -> Result<PageRef> {
        let plan = self.plan(mtr, want)?;
        let page = mtr.fix_new(self.space(), plan.pages[0])?;
        self.carry_out(mtr, plan)?;
        Ok(page)
    }

    /// Allocates `count` pages near `near`, ascending as far as possible.
    ///
    /// # Errors
    /// As [`SpaceFile::alloc_page`]: all or none.
    pub fn alloc_pages(&self, mtr: &mut Mtr<'_>, near: PageNo, count: usize) -> Result<Vec<PageNo>> {
        let plan = self.plan(mtr, Want { near, last: None, count })?;
        let pages = plan.pages.clone();
        self.carry_out(mtr, plan)?;
        Ok(pages)
    }

    /// Allocates the lowest free page if it is below `limit`, and latches it for being initialised: for moving pages to
    /// the front of the file.
    ///
    /// # Errors
    /// Those of reading bitmaps and of finding a frame.
    pub fn alloc_new_below(&self, mtr: &mut Mtr<'_>, limit: PageNo) -> Result<Option<PageRef>> {
        let header = mtr.fix(self.space(), PageNo(0))?;
        let pages = self.pages(mtr, header)?.min(limit.0);
        for no in bitmaps(pages, mtr.page_size()) {
            let bitmap = mtr.fix(self.space(), no)?;
            let first = bitmap::first_covered(no);
            let limit = (pages - first).min(bitmap::pages_covered(mtr.page_size()));
            if let Some(bit) = bitmap::first_free(mtr.bytes(bitmap), 0, limit) {
                let found = PageNo(first + bit);
                let page = mtr.fix_new(self.space(), found)?;
                self.carry_out(mtr, Plan { header, pages: vec![found], grown: None })?;
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Gives a latched page back: it becomes a free page, and its bit is cleared.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it was not allocated; those of reading its bitmap.
    pub fn free_latched(&self, mtr: &mut Mtr<'_>, page: PageRef) -> Result<()> {
        let no = mtr.id(page).no;
        let (bitmap, op) = self.prepare_free(mtr, no)?;
        mtr.apply(page, &PageOp::FreePage)?;
        self.finish_free(mtr, bitmap, no, &op)
    }

    /// Gives a page back without looking at it: its bytes stay what they are until it is allocated again.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it was not allocated; those of reading its bitmap.
    pub fn free_page(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<()> {
        let (bitmap, op) = self.prepare_free(mtr, no)?;
        self.finish_free(mtr, bitmap, no, &op)
    }

    fn prepare_free(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<(PageRef, PageOp<'static>)> {
        mtr.fix(self.space(), PageNo(0))?;
        let bitmap_no = bitmap::page_for(no, mtr.page_size());
        let bitmap = mtr.fix(self.space(), bitmap_no)?;
        let op = PageOp::ClearBits { first: no.0 - bitmap::first_covered(bitmap_no), count: 1 };
        if no == bitmap_no || no.0 == 0 || !mtr.can_apply(bitmap, &op) {
            return Err(self.damaged(no, "it is given back, but was not allocated"));
        }
        Ok((bitmap, op))
    }

    fn finish_free(&self, mtr: &mut Mtr<'_>, bitmap: PageRef, no: PageNo, op: &PageOp<'_>) -> Result<()> {
        mtr.apply(bitmap, op)?;
        let (bitmap_no, bytes) = (mtr.id(bitmap).no, mtr.bytes(bitmap));
        let bit = no.0 - bitmap::first_covered(bitmap_no);
        if bitmap::word(bytes, (bit / EXTENT_PAGES) as usize) == Some(0) {
            self.freed.lock().push(FreedExtent { first: no.0 - no.0 % EXTENT_PAGES, since: None });
        }
        self.set_left(bitmap_no, None);
        self.store.metrics().add(Counter::PagesFreed, 1);
        Ok(())
    }

    fn ordinal(&self, bitmap: PageNo) -> usize {
        (bitmap::first_covered(bitmap) / bitmap::pages_covered(self.page_size())) as usize
    }

    /// How many free pages a bitmap has left, if it is known to have no free extent.
    fn singles_left(&self, bitmap: PageNo) -> Option<u32> {
        self.left.lock().get(self.ordinal(bitmap)).copied().flatten()
    }

    fn set_left(&self, bitmap: PageNo, singles: Option<u32>) {
        let (ordinal, mut left) = (self.ordinal(bitmap), self.left.lock());
        if left.len() <= ordinal {
            left.resize(ordinal + 1, None);
        }
        left[ordinal] = singles;
    }

    fn pages(&self, mtr: &Mtr<'_>, header: PageRef) -> Result<u32> {
        get_u32(mtr.bytes(header), header::OFF_PAGES).ok_or_else(|| self.damaged(PageNo(0), "no page count"))
    }

    fn plan(&self, mtr: &mut Mtr<'_>, want: Want) -> Result<Plan> {
        let header = mtr.fix(self.space(), PageNo(0))?;
        let pages = self.pages(mtr, header)?;
        let mut plan = Plan { header, pages: Vec::new(), grown: None };
        let mut near = want.near;
        while plan.pages.len() < want.count {
            let Some(no) = self.pick(mtr, pages, (near, want.last), &plan.pages)? else {
                let missing = want.count - plan.pages.len();
                let new = self.grow(mtr, pages, missing as u32, &mut plan)?;
                plan.pages.extend(new.take(missing));
                break;
            };
            plan.pages.push(no);
            near = no;
        }
        Ok(plan)
    }

    /// A free page that is not among the `taken`: in the extent of `near` or of `last`, at the start of a free one, or anywhere.
    fn pick(
        &self,
        mtr: &mut Mtr<'_>,
        pages: u32,
        (near, last): (PageNo, Option<PageNo>),
        taken: &[PageNo],
    ) -> Result<Option<PageNo>> {
        let size = mtr.page_size();
        let near = PageNo(near.0.min(pages.saturating_sub(1)));
        for start in [Some(near), last.filter(|last| last.0 < pages)].into_iter().flatten() {
            let looked = self.look(mtr, pages, bitmap::page_for(start, size), taken)?;
            let at = start.0 - looked.first;
            let extent = at - at % EXTENT_PAGES;
            let end = (extent + EXTENT_PAGES).min(looked.limit);
            if let Some(no) = looked.free_in(at, end).or_else(|| looked.free_in(extent, at)) {
                return Ok(Some(no));
            }
        }
        let home = bitmap::page_for(near, size);
        let all = || std::iter::once(home).chain(bitmaps(pages, size).filter(move |&no| no != home));
        let from = |no| if no == home { near.0 - bitmap::first_covered(no) } else { 0 };
        let mut free = 0;
        for no in all() {
            if let Some(singles) = self.singles_left(no).filter(|_| no != home) {
                free += singles;
                continue;
            }
            let looked = self.look(mtr, pages, no, taken)?;
            if let Some(no) = looked.free_extent(from(no)).or_else(|| looked.free_extent(0)) {
                return Ok(Some(no));
            }
            let singles = bitmap::count_free(looked.bytes, looked.limit);
            self.set_left(no, Some(singles));
            free += singles;
        }
        if last.is_some() && pages >= SMALL && free < pages / SPARE_DIV + EXTENT_PAGES {
            return Ok(None);
        }
        for no in all().filter(|&no| self.singles_left(no) != Some(0)) {
            let looked = self.look(mtr, pages, no, taken)?;
            if let Some(no) = looked.free_in(from(no), looked.limit).or_else(|| looked.free_in(0, from(no))) {
                return Ok(Some(no));
            }
            self.set_left(no, Some(0));
        }
        Ok(None)
    }

    /// Latches a bitmap page to look at it.
    fn look<'m>(&self, mtr: &'m mut Mtr<'_>, pages: u32, no: PageNo, taken: &'m [PageNo]) -> Result<Looked<'m>> {
        let first = bitmap::first_covered(no);
        let limit = (pages - first).min(bitmap::pages_covered(mtr.page_size()));
        let page = mtr.fix(self.space(), no)?;
        Ok(Looked { bytes: mtr.bytes(page), first, limit, taken })
    }

    /// Makes the file longer by at least `more` pages that are no bitmaps, and latches the bitmaps that come with
    /// them. Returns the new pages but the bitmaps, ascending. A file that is longer than its page count says does no harm.
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
        let target = u32::try_from(wanted.max(step(pages)))
            .ok()
            .filter(|&target| target < u32::MAX - EXTENT_PAGES)
            .ok_or_else(|| Error::LimitReached("the table's file has the largest size possible".to_string()))?;
        let target = if target <= SMALL { target } else { target.next_multiple_of(EXTENT_PAGES) };
        self.space().file().set_len(u64::from(target) * size as u64)?;
        let mut new_bitmaps = Vec::new();
        for no in bitmaps(target, size).filter(|no| no.0 >= pages) {
            new_bitmaps.push(mtr.fix_new(self.space(), no)?);
        }
        for no in bitmaps(target, size).filter(|no| no.0 < pages) {
            // The old ones get bits set in the range that is new.
            if bitmap::first_covered(no) + bitmap::pages_covered(size) > pages {
                mtr.fix(self.space(), no)?;
            }
        }
        plan.grown = Some((target, new_bitmaps));
        Ok((pages..target).map(PageNo).filter(move |&no| !bitmap::is_bitmap(no, size)))
    }

    fn carry_out(&self, mtr: &mut Mtr<'_>, plan: Plan) -> Result<()> {
        let size = mtr.page_size();
        if let Some((pages, new_bitmaps)) = plan.grown {
            let offset = header::OFF_PAGES as u16;
            mtr.apply(plan.header, &PageOp::WriteBytes { offset, bytes: &pages.to_le_bytes() })?;
            for page in new_bitmaps {
                let init = PageOp::InitPage { page_type: PageType::Allocation, index: IndexId(0) };
                mtr.apply(page, &init)?;
                mtr.apply(page, &PageOp::SetBits { first: 0, count: 1 })?;
            }
            self.left.lock().clear();
        }
        for no in plan.pages {
            let bitmap_no = bitmap::page_for(no, size);
            let page = mtr.fix(self.space(), bitmap_no)?;
            mtr.apply(page, &PageOp::SetBits { first: no.0 - bitmap::first_covered(bitmap_no), count: 1 })?;
            self.store.metrics().add(Counter::PagesAllocated, 1);
        }
        Ok(())
    }

    /// Whether a page is allocated.
    ///
    /// # Errors
    /// Those of reading the header and the bitmap.
    pub fn is_allocated(&self, no: PageNo, acc: &Access<'_>) -> Result<bool> {
        if no.0 >= self.header(acc)?.pages {
            return Ok(false);
        }
        let bitmap_no = bitmap::page_for(no, self.page_size());
        let page = self.store.pool().fix_shared(self.space(), bitmap_no, acc)?;
        Ok(bitmap::all_equal(&page, no.0 - bitmap::first_covered(bitmap_no), 1, true))
    }

    /// Size and free pages.
    ///
    /// # Errors
    /// Those of reading the header and the bitmaps.
    pub fn info(&self, acc: &Access<'_>) -> Result<SpaceInfo> {
        let pages = self.header(acc)?.pages;
        let mut free_pages = 0;
        for no in bitmaps(pages, self.page_size()) {
            let page = self.store.pool().fix_shared(self.space(), no, acc)?;
            let limit = (pages - bitmap::first_covered(no)).min(bitmap::pages_covered(self.page_size()));
            free_pages += bitmap::count_free(&page, limit);
        }
        Ok(SpaceInfo { pages, free_pages })
    }

    /// The highest allocated page: what keeps the file from being shorter.
    ///
    /// # Errors
    /// Those of reading the header and the bitmaps.
    pub fn last_allocated(&self, acc: &Access<'_>) -> Result<PageNo> {
        let head = self.store.pool().fix_shared(self.space(), PageNo(0), acc)?;
        self.last_allocated_under(&head, acc)
    }

    /// The same, for whoever holds a latch of page 0, whose bytes are `head`.
    pub(super) fn last_allocated_under(&self, head: &[u8], acc: &Access<'_>) -> Result<PageNo> {
        let pages = get_u32(head, header::OFF_PAGES).unwrap_or(0);
        let mut last = PageNo(1);
        for no in bitmaps(pages, self.page_size()) {
            let page = self.store.pool().fix_shared(self.space(), no, acc)?;
            let first = bitmap::first_covered(no);
            let words = (pages - first).min(bitmap::pages_covered(self.page_size())).div_ceil(EXTENT_PAGES);
            for w in 0..words {
                let word = bitmap::word(&page, w as usize).unwrap_or(0);
                if word != 0 && !(w == 0 && no.0 > 1 && word == 1) {
                    last = PageNo(first + w * EXTENT_PAGES + 63 - word.leading_zeros());
                }
            }
        }
        Ok(last)
    }

    /// The address of a page of this space.
    #[must_use]
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.id(), no)
    }
}

/// The bitmap pages of a file of `pages` pages.
pub(crate) fn bitmaps(pages: u32, page_size: usize) -> impl Iterator<Item = PageNo> {
    let covered = bitmap::pages_covered(page_size);
    (0..pages).step_by(covered as usize).map(|first| if first == 0 { PageNo(1) } else { PageNo(first) })
}

/// Size that a file of `pages` pages grows to if nothing more is asked for.
fn step(pages: u32) -> u64 {
    if pages < SMALL {
        return u64::from((pages * 2).min(SMALL));
    }
    let extents = (pages / EXTENT_PAGES / GROWTH_DIV).clamp(1, GROWTH_MAX_EXTENTS);
    u64::from(pages) + u64::from(extents * EXTENT_PAGES)
}
