//! Which pages are allocated: questions of callers, and what the allocator knows of the bitmaps.

use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::page::PageHeader;
use holdfast_base::{Lsn, PageNo, Result};
use holdfast_pool::{Access, SharedGuard};

use super::bitmap::{bitmaps, from_home};
use super::rooms::Room;
use super::{SpaceFile, SpaceInfo, bitmap};
use crate::finding::PageSet;

/// Notes, as long as it lives, which pages of a space are allocated and freed. Made by
/// [`SpaceFile::watch`].
#[derive(Debug)]
pub struct AllocationWatch<'s> {
    space: &'s SpaceFile,
    id: u64,
}

impl AllocationWatch<'_> {
    /// The pages that were allocated or freed since it was made. Another page has been one of the
    /// same tree, chain or log all the time, or free.
    #[must_use]
    pub fn changed(&self) -> PageSet {
        self.space.rooms.changed(self.id)
    }

    /// True if a page was allocated or freed since it was made.
    #[must_use]
    pub fn has_changed(&self, no: PageNo) -> bool {
        self.space.rooms.has_changed(self.id, no)
    }
}

impl Drop for AllocationWatch<'_> {
    fn drop(&mut self) {
        self.space.rooms.end_watch(self.id);
    }
}

/// True if a page is allocated according to bitmap page `bitmap_no`, whose bytes these are.
fn is_set(bytes: &[u8], bitmap_no: PageNo, no: PageNo) -> bool {
    bitmap::all_equal(bytes, no.0 - bitmap::first_covered(bitmap_no), 1, true)
}

impl SpaceFile {
    fn ordinal(&self, bitmap: PageNo) -> usize {
        (bitmap::first_covered(bitmap) / bitmap::pages_covered(self.page_size())) as usize
    }

    fn limit(&self, bitmap: PageNo, pages: u32) -> u32 {
        pages.saturating_sub(bitmap::first_covered(bitmap)).min(bitmap::pages_covered(self.page_size()))
    }

    /// What bitmap page `no` holds, if that is known.
    pub(super) fn room(&self, no: PageNo) -> Option<Room> {
        self.rooms.get(self.ordinal(no))
    }

    /// The file has so many pages. The caller has page 0 latched.
    pub(super) fn note_pages(&self, pages: u32) {
        self.rooms.set_pages(pages, bitmaps(pages, self.page_size()).count());
    }

    /// What bitmap page `no`, whose bytes these are, holds. The caller has page 0 latched.
    pub(super) fn note_room(&self, no: PageNo, bytes: &[u8], pages: u32) {
        self.rooms.set(self.ordinal(no), Room::of(bytes, self.limit(no, pages)));
    }

    /// Notes that the bit of page `no` was set (`taken`) or cleared. `word`: the bits of its extent
    /// now. The caller has page 0 latched.
    pub(super) fn note_change(&self, no: PageNo, taken: bool, word: u64) {
        let ordinal = self.ordinal(bitmap::page_for(no, self.page_size()));
        let bit = 1 << (no.0 % EXTENT_PAGES);
        let alone = word & !bit == 0;
        let by = if taken { -1 } else { 1 };
        self.rooms.change(ordinal, no, by, if alone { by } else { 0 });
    }

    /// Begins to note which pages are allocated and freed.
    #[must_use]
    pub fn watch(&self) -> AllocationWatch<'_> {
        AllocationWatch { space: self, id: self.rooms.watch() }
    }

    /// Reads bitmaps, that of `near` first, until `enough` holds for one, or all are known. No
    /// latch is held before or after.
    pub(super) fn look_around(&self, near: PageNo, enough: impl Fn(Room) -> bool, acc: &Access<'_>) -> Result<()> {
        let size = self.page_size();
        if self.room(bitmap::page_for(near, size)).is_some_and(&enough) {
            return Ok(());
        }
        let pages = {
            let head = self.store.pool().fix_shared(self.space(), PageNo(0), acc)?;
            let pages = self.pages_of(&head)?;
            if self.rooms.pages() != pages {
                self.note_pages(pages);
            }
            pages
        };
        for no in from_home(near, pages, size) {
            if self.room(no).is_none()
                && let Some(page) = self.bitmap(no, acc)?
            {
                self.rooms.learn(self.ordinal(no), Room::of(&page, self.limit(no, pages)), pages);
            }
            if self.room(no).is_some_and(&enough) {
                break;
            }
        }
        Ok(())
    }

    /// True if a page is allocated.
    ///
    /// # Errors
    /// The errors of reading the header and the bitmap.
    pub fn is_allocated(&self, no: PageNo, acc: &Access<'_>) -> Result<bool> {
        if no.0 >= self.header(acc)?.pages {
            return Ok(false);
        }
        let bitmap_no = bitmap::page_for(no, self.page_size());
        Ok(self.bitmap(bitmap_no, acc)?.is_some_and(|page| is_set(&page, bitmap_no, no)))
    }

    /// Latches bitmap page `no`, which was in the file when the header was read. `None` if a
    /// compaction has cut it off since.
    pub(super) fn bitmap(&self, no: PageNo, acc: &Access<'_>) -> Result<Option<SharedGuard<'_>>> {
        match self.store.pool().fix_shared(self.space(), no, acc) {
            Err(error) if error.is_damage() && no.0 >= self.header(acc)?.pages => Ok(None),
            fixed => fixed.map(Some),
        }
    }

    /// True if the bitmap says that a page is allocated, whatever the header counts: for a salvage,
    /// since the header may be damaged.
    ///
    /// # Errors
    /// The errors of reading the bitmap.
    pub fn is_marked(&self, no: PageNo, acc: &Access<'_>) -> Result<bool> {
        let bitmap_no = bitmap::page_for(no, self.page_size());
        let page = self.store.pool().fix_shared(self.space(), bitmap_no, acc)?;
        Ok(is_set(&page, bitmap_no, no))
    }

    /// True if a page that was last changed at `lsn` has been freed since: its content is in
    /// another place.
    ///
    /// # Errors
    /// The errors of reading the bitmap.
    pub fn is_freed_since(&self, no: PageNo, lsn: Lsn, acc: &Access<'_>) -> Result<bool> {
        let bitmap_no = bitmap::page_for(no, self.page_size());
        let page = self.store.pool().fix_shared(self.space(), bitmap_no, acc)?;
        let is_newer = PageHeader::decode(&page).is_some_and(|header| header.lsn > lsn);
        Ok(is_newer && !is_set(&page, bitmap_no, no))
    }

    /// Size, free pages, and pages that manage the file. It reads every bitmap.
    ///
    /// # Errors
    /// The errors of reading the header and the bitmaps.
    pub fn info(&self, acc: &Access<'_>) -> Result<SpaceInfo> {
        'again: loop {
            let pages = self.header(acc)?.pages;
            let (mut free_pages, mut own_pages) = (0, 1);
            for no in bitmaps(pages, self.page_size()) {
                own_pages += 1;
                let Some(page) = self.bitmap(no, acc)? else { continue 'again };
                let limit = (pages - bitmap::first_covered(no)).min(bitmap::pages_covered(self.page_size()));
                free_pages += bitmap::count_free(&page, limit);
            }
            return Ok(SpaceInfo { pages, free_pages, own_pages });
        }
    }

    /// The highest allocated page: what keeps the file from being shorter.
    ///
    /// # Errors
    /// The errors of reading the header and the bitmaps.
    pub fn last_allocated(&self, acc: &Access<'_>) -> Result<PageNo> {
        let pages = self.header(acc)?.pages;
        let all: Vec<PageNo> = bitmaps(pages, self.page_size()).collect();
        for no in all.into_iter().rev() {
            let page = self.store.pool().fix_shared(self.space(), no, acc)?;
            if let Some(last) = self.last_in(no, &page, pages) {
                return Ok(last);
            }
        }
        Ok(PageNo(1))
    }

    /// The highest page that is allocated according to bitmap page `no`, whose bytes these are,
    /// except for that page itself. The file has `pages` pages.
    pub(super) fn last_in(&self, no: PageNo, bytes: &[u8], pages: u32) -> Option<PageNo> {
        let first = bitmap::first_covered(no);
        let words = pages.saturating_sub(first).min(bitmap::pages_covered(self.page_size())).div_ceil(EXTENT_PAGES);
        (0..words).rev().find_map(|w| {
            let word = bitmap::word(bytes, w as usize).unwrap_or(0);
            let own = w == 0 && no.0 > 1 && word == 1;
            (word != 0 && !own).then(|| PageNo(first + w * EXTENT_PAGES + 63 - word.leading_zeros()))
        })
    }
}
