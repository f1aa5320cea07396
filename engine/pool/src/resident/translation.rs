//! Page number -> frame, for one space: reading takes three loads and no lock.
//!
//! ```text
//! directories[k]            k = 0..=22; directory k covers 2^k segments
//!   -> [pointer; 2^k]       allocated when a page of it is first cached
//!        -> segment         1,024 entries of 4 bytes = 4 KiB, allocated likewise
//!             entry: 0 = not cached | 1..=0xffff_fff0 = frame + 1 | CLAIMED | CLAIMED_WAITED
//! ```
//!
//! Directories grow by doubling, so that a space of a few pages costs a few words and one of 2^32
//! pages needs no reallocation under its readers. Memory: 4 bytes per page of every touched group
//! of 1,024 pages, plus 8 per group - 0.025 % of the touched part of the space at 16 KiB pages.
//! Segments live as long as the space.
//!
//! **Protocol of an entry.** A thread that wants to load a page claims it: 0 -> CLAIMED. The winner
//! finds a frame, takes its latch exclusively, writes the page id into its header and publishes
//! CLAIMED -> frame + 1; it reads the page under the latch, so every other thread waits there.
//! Losers of the claim turn it into CLAIMED_WAITED and park on the entry's address until it is
//! published or given up (-> 0). Evicting is frame + 1 -> 0 by the exclusive holder of the frame's
//! latch.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use holdfast_base::PageNo;

/// Entries of a segment.
const SEGMENT: usize = 1 << SEGMENT_BITS;
const SEGMENT_BITS: u32 = 10;
/// Segments are numbered from 1 here, so the numbers have up to 23 bits.
const DIRECTORIES: usize = 33 - SEGMENT_BITS as usize;

/// A thread is finding a frame for the page.
pub(crate) const CLAIMED: u32 = u32::MAX - 1;
/// The same, and others sleep on the entry.
pub(crate) const CLAIMED_WAITED: u32 = u32::MAX;

type Segment = [AtomicU32; SEGMENT];

/// See the module's description.
pub(crate) struct Translation {
    directories: [AtomicPtr<AtomicPtr<Segment>>; DIRECTORIES],
    bytes: AtomicU64,
}

/// Where page `no` stands: (directory, index in it, index in the segment).
#[inline]
fn place(no: u32) -> (usize, usize, usize) {
    let segment = (no >> SEGMENT_BITS) + 1;
    let directory = segment.ilog2();
    (directory as usize, (segment ^ (1 << directory)) as usize, no as usize & (SEGMENT - 1))
}

impl Translation {
    pub(crate) fn new() -> Translation {
        Translation {
            directories: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            bytes: AtomicU64::new(size_of::<Translation>() as u64),
        }
    }

    /// The entry of page `no`, if its segment exists.
    #[inline]
    pub(crate) fn entry(&self, no: PageNo) -> Option<&AtomicU32> {
        let (directory, index, slot) = place(no.0);
        let segments = self.directories[directory].load(Ordering::Acquire);
        if segments.is_null() {
            return None;
        }
        // SAFETY: a published directory `k` has `2^k` elements, `index < 2^k` by construction, and
        // it lives as long as `self`.
        let segment = unsafe { (*segments.add(index)).load(Ordering::Acquire) };
        // SAFETY: a published segment is initialised and lives as long as `self`.
        unsafe { segment.as_ref() }.map(|segment| &segment[slot])
    }

    /// The frame of page `no`, if it is published: a page that is cached or being read.
    #[inline]
    pub(crate) fn frame(&self, no: PageNo) -> Option<u32> {
        let entry = self.entry(no)?.load(Ordering::Acquire);
        // One comparison for "not 0 and not claimed".
        let frame = entry.wrapping_sub(1);
        (frame < CLAIMED - 1).then_some(frame)
    }

    /// The entry of page `no`; allocates its segment.
    pub(crate) fn entry_or_insert(&self, no: PageNo) -> &AtomicU32 {
        loop {
            if let Some(entry) = self.entry(no) {
                return entry;
            }
            let (directory, index, _) = place(no.0);
            let segments = self.directory_or_insert(directory);
            let fresh = Box::into_raw(Box::new(std::array::from_fn(|_| AtomicU32::new(0))));
            // SAFETY: as in `entry`.
            let slot = unsafe { &*segments.add(index) };
            if slot.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                self.bytes.fetch_add(size_of::<Segment>() as u64, Ordering::Relaxed);
            } else {
                // SAFETY: `fresh` was made above and not published.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    fn directory_or_insert(&self, directory: usize) -> *const AtomicPtr<Segment> {
        let slot = &self.directories[directory];
        let present = slot.load(Ordering::Acquire);
        if !present.is_null() {
            return present;
        }
        let len = 1usize << directory;
        let fresh: Box<[AtomicPtr<Segment>]> = (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let fresh = Box::into_raw(fresh).cast::<AtomicPtr<Segment>>();
        match slot.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.bytes.fetch_add((len * size_of::<AtomicPtr<Segment>>()) as u64, Ordering::Relaxed);
                fresh
            }
            Err(present) => {
                // SAFETY: `fresh` was made above with `len` elements and not published.
                drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(fresh, len)) });
                present
            }
        }
    }

    /// Calls `f` with every entry that is not 0, in the order of page numbers. Entries may change
    /// meanwhile.
    pub(crate) fn for_each(&self, mut f: impl FnMut(PageNo, u32)) {
        for (k, directory) in self.directories.iter().enumerate() {
            let segments = directory.load(Ordering::Acquire);
            if segments.is_null() {
                continue;
            }
            for index in 0..1usize << k {
                // SAFETY: as in `entry`.
                let segment = unsafe { (*segments.add(index)).load(Ordering::Acquire).as_ref() };
                let Some(segment) = segment else { continue };
                let first = (((1usize << k) + index - 1) as u32) << SEGMENT_BITS;
                for (slot, entry) in segment.iter().enumerate() {
                    let entry = entry.load(Ordering::Acquire);
                    if entry != 0 {
                        f(PageNo(first + slot as u32), entry);
                    }
                }
            }
        }
    }

    /// Memory taken, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Translation {
    fn drop(&mut self) {
        for (k, directory) in self.directories.iter().enumerate() {
            let segments = directory.load(Ordering::Acquire);
            if segments.is_null() {
                continue;
            }
            // SAFETY: a published directory `k` is a box of `2^k` elements; no other thread uses it
            // any more.
            let segments = unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(segments, 1 << k)) };
            for segment in &segments {
                let segment = segment.load(Ordering::Acquire);
                if !segment.is_null() {
                    // SAFETY: a published segment is a box; no other thread uses it any more.
                    drop(unsafe { Box::from_raw(segment) });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_number_has_its_own_entry() {
        let t = Translation::new();
        let all = [0, 1, 1023, 1024, 1025, 3071, 3072, 1 << 20, u32::MAX - 1, u32::MAX];
        // The directories of the last ones are too large for Miri's pace.
        let numbers = if cfg!(miri) { &all[..7] } else { &all[..] };
        for (i, &no) in numbers.iter().enumerate() {
            assert_eq!(t.frame(PageNo(no)), None);
            t.entry_or_insert(PageNo(no)).store(i as u32 + 1, Ordering::Release);
        }
        for (i, &no) in numbers.iter().enumerate() {
            assert_eq!(t.frame(PageNo(no)), Some(i as u32));
        }
        let mut seen = Vec::new();
        t.for_each(|no, entry| seen.push((no.0, entry)));
        assert_eq!(seen, numbers.iter().zip(1..).map(|(&no, e)| (no, e)).collect::<Vec<_>>());
    }

    #[test]
    fn a_claim_is_not_a_frame() {
        let t = Translation::new();
        for mark in [CLAIMED, CLAIMED_WAITED] {
            t.entry_or_insert(PageNo(5)).store(mark, Ordering::Release);
            assert_eq!(t.frame(PageNo(5)), None);
        }
    }

    #[test]
    fn a_small_space_costs_little() {
        let t = Translation::new();
        t.entry_or_insert(PageNo(7));
        assert!(t.bytes() < 5 << 10, "{}", t.bytes());
    }
}
