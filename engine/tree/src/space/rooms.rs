//! What the bitmaps of a space are known to hold, so that an allocation looks at few of them.
//!
//! A thread that sets or clears bits holds page 0 exclusively, and updates these numbers with the
//! bits, so they stay right. Numbers that are not known yet are read before page 0 is latched, one
//! bitmap at a time; they count only if the file has the same number of pages afterwards.
//!
//! A check of the space is told which pages were taken or given back while it looked: it reads the
//! trees and the bitmaps one after the other, so it can say nothing of these pages.
//!
//! Lock order: the mutex is a leaf, below all page latches.

use holdfast_base::PageNo;
use holdfast_base::blocking::Mutex;
use holdfast_base::limits::EXTENT_PAGES;

use super::bitmap;
use crate::finding::PageSet;

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
    pub(super) fn of(bytes: &[u8], limit: u32) -> Room {
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
    /// For each watch, by its number, the pages that were taken or given back since it began.
    watches: Vec<(u64, PageSet)>,
    /// The number of the next watch.
    next_watch: u64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<State>);

impl Rooms {
    pub(super) fn get(&self, ordinal: usize) -> Option<Room> {
        self.0.lock().of.get(ordinal).copied().flatten()
    }

    /// Pages of the file; 0 as long as nothing is known.
    pub(super) fn pages(&self) -> u32 {
        self.0.lock().pages
    }

    /// The file has `pages` pages and so many bitmaps. The caller has page 0 latched.
    pub(super) fn set_pages(&self, pages: u32, bitmaps: usize) {
        let mut state = self.0.lock();
        state.pages = pages;
        state.of.resize(bitmaps, None);
    }

    pub(super) fn set(&self, ordinal: usize, room: Room) {
        if let Some(known) = self.0.lock().of.get_mut(ordinal) {
            *known = Some(room);
        }
    }

    /// Takes over the room that was read of a bitmap while the file had `pages` pages, if it still
    /// has as many and nothing is known.
    pub(super) fn learn(&self, ordinal: usize, room: Room, pages: u32) {
        let mut state = self.0.lock();
        if state.pages == pages
            && let Some(known @ None) = state.of.get_mut(ordinal)
        {
            *known = Some(room);
        }
    }

    /// Page `no` was taken or given back: adds `by` free pages (below 0: pages were taken), and
    /// `extents` wholly free extents.
    pub(super) fn change(&self, ordinal: usize, no: PageNo, by: i32, extents: i32) {
        let mut state = self.0.lock();
        for (_, changed) in &mut state.watches {
            changed.insert(no);
        }
        if let Some(Some(known)) = state.of.get_mut(ordinal) {
            known.free = known.free.saturating_add_signed(by);
            known.extents = known.extents.saturating_add_signed(extents);
        }
    }

    /// Begins a watch.
    pub(super) fn watch(&self) -> u64 {
        let mut state = self.0.lock();
        let id = state.next_watch;
        state.next_watch += 1;
        state.watches.push((id, PageSet::new()));
        id
    }

    /// What has changed since the watch `id` began.
    pub(super) fn changed(&self, id: u64) -> PageSet {
        let state = self.0.lock();
        state.watches.iter().find(|(watch, _)| *watch == id).map_or_else(PageSet::new, |(_, changed)| changed.clone())
    }

    /// True if page `no` has changed since the watch `id` began.
    pub(super) fn has_changed(&self, id: u64, no: PageNo) -> bool {
        self.0.lock().watches.iter().any(|(watch, changed)| *watch == id && changed.contains(no))
    }

    pub(super) fn end_watch(&self, id: u64) {
        self.0.lock().watches.retain(|(watch, _)| *watch != id);
    }
}
