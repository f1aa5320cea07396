//! What the bitmaps of a space are known to hold, so that an allocation looks at few of them.
//!
//! A thread that sets or clears bits holds page 0 exclusively, and changes what is known with them: so that stays right. What is not
//! known yet is read before page 0 is latched, one bitmap at a time; it counts only if the file has the same number of pages afterwards.
//!
//! Lock order: the mutex is a leaf, below all page latches.

use holdfast_base::blocking::Mutex;
use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::{PageNo, Result};
use holdfast_pool::Access;

use super::alloc::bitmaps;
use super::{SpaceFile, bitmap};

/// What one bitmap holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Free pages.
    pub(super) free: u32,
    /// Wholly free extents.
    pub(super) extents: u32,
}

impl Room {
    /// Of a bitmap whose first `limit` bits stand for pages of the file.
    fn of(bytes: &[u8], limit: u32) -> Room {
        let whole = limit / EXTENT_PAGES;
        let extents = (0..whole).filter(|&word| bitmap::word(bytes, word as usize) == Some(0)).count();
        Room { free: bitmap::count_free(bytes, limit), extents: extents as u32 }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Pages of the file; 0 as long as nothing is known.
    pages: u32,
    /// One for each bitmap, in order.
    of: Vec<Option<Room>>,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<State>);

impl Rooms {
    fn get(&self, ordinal: usize) -> Option<Room> {
        self.0.lock().of.get(ordinal).copied().flatten()
    }

    /// The file has `pages` pages and so many bitmaps. The caller has page 0 latched.
    fn set_pages(&self, pages: u32, bitmaps: usize) {
        let mut state = self.0.lock();
        state.pages = pages;
        state.of.resize(bitmaps, None);
    }

    fn set(&self, ordinal: usize, room: Room) {
        if let Some(known) = self.0.lock().of.get_mut(ordinal) {
            *known = Some(room);
        }
    }

    /// What was read of a bitmap while the file had `pages` pages, if that is still so and nothing is known.
    fn learn(&self, ordinal: usize, room: Room, pages: u32) {
        let mut state = self.0.lock();
        if state.pages == pages
            && let Some(known @ None) = state.of.get_mut(ordinal)
        {
            *known = Some(room);
        }
    }

    /// Pages that were taken of a bitmap (`by` below 0) or given back, and extents that are no more, or again, wholly free.
    fn change(&self, ordinal: usize, by: i32, extents: i32) {
        if let Some(Some(known)) = self.0.lock().of.get_mut(ordinal) {
            known.free = known.free.saturating_add_signed(by);
            known.extents = known.extents.saturating_add_signed(extents);
        }
    }
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

    /// The bit of page `no` was set (`taken`) or cleared; `word`: the bits of its extent now. The caller has page 0 latched.
    pub(super) fn note_change(&self, no: PageNo, taken: bool, word: u64) {
        let ordinal = self.ordinal(bitmap::page_for(no, self.page_size()));
        let bit = 1 << (no.0 % EXTENT_PAGES);
        let alone = word & !bit == 0;
        let by = if taken { -1 } else { 1 };
        self.rooms.change(ordinal, by, if alone { by } else { 0 });
    }

    /// Looks at bitmaps, that of `near` first, until one is known for which `enough` holds, or all are known. Nothing is latched.
    pub(super) fn look_around(&self, near: PageNo, enough: impl Fn(Room) -> bool, acc: &Access<'_>) -> Result<()> {
        let size = self.page_size();
        if self.room(bitmap::page_for(near, size)).is_some_and(&enough) {
            return Ok(());
        }
        let pages = {
            let head = self.store.pool().fix_shared(self.space(), PageNo(0), acc)?;
            let pages = self.pages_of(&head)?;
            if self.rooms.0.lock().pages != pages {
                self.note_pages(pages);
            }
            pages
        };
        for no in from_home(near, pages, size) {
            if self.room(no).is_none() {
                let page = self.store.pool().fix_shared(self.space(), no, acc)?;
                self.rooms.learn(self.ordinal(no), Room::of(&page, self.limit(no, pages)), pages);
            }
            if self.room(no).is_some_and(&enough) {
                break;
            }
        }
        Ok(())
    }
}

/// The bitmap pages of a file of `pages` pages, that of page `near` first.
pub(super) fn from_home(near: PageNo, pages: u32, page_size: usize) -> impl Iterator<Item = PageNo> {
    let near = PageNo(near.0.min(pages.saturating_sub(1)));
    let home = bitmap::page_for(near, page_size);
    std::iter::once(home).chain(bitmaps(pages, page_size).filter(move |&no| no != home))
}
