//! The memory of the frames: one anonymous mapping, reserved for the largest pool and never
//! unmapped while the pool lives, and the array of their headers.
//!
//! Why one mapping: an optimistic reader may look at a frame that was given to another page, or
//! shrunk away, in the meantime. It reads mapped memory, whatever it holds, and then fails
//! validation. Frames beyond the active part cost address space only; shrinking gives their memory
//! back to the system (they then read as zeros).
//!
//! Under Miri, which has no such mappings, the frames are one zeroed heap allocation.

use std::ptr::NonNull;

use holdfast_base::{Error, Result};

use crate::resident::header::FrameHeader;

/// Alignment of the first frame, so that huge pages can back them.
const ALIGN: usize = 2 << 20;
/// Bytes that are not worth a thread of their own to be populated.
const POPULATE_PART_MIN: u32 = 256 << 20;

/// See the module's description.
pub(crate) struct Frames {
    base: NonNull<u8>,
    headers: NonNull<FrameHeader>,
    max: u32,
    page_shift: u32,
    page_size: usize,
    mapping: Mapping,
    _header_mapping: Mapping,
}

// SAFETY: the mapping is plain memory owned by this object; the latches say which thread may touch
// which frame when, and every access goes through a latch protocol.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    /// Reserves `max_frames` frames of `page_size` bytes, a power of two.
    ///
    /// # Errors
    /// If the system refuses the address space.
    pub(crate) fn reserve(max_frames: u32, page_size: usize) -> Result<Frames> {
        let mapping = Mapping::new(max_frames as usize * page_size)?;
        let header_mapping = Mapping::new(max_frames as usize * size_of::<FrameHeader>())?;
        Ok(Frames {
            base: mapping.base(),
            headers: header_mapping.base().cast(),
            max: max_frames,
            page_shift: page_size.trailing_zeros(),
            page_size,
            mapping,
            _header_mapping: header_mapping,
        })
    }

    /// Number of frames reserved.
    pub(crate) fn max(&self) -> u32 {
        self.max
    }

    /// Bytes of a frame.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        self.page_size
    }

    /// The header of frame `f`.
    ///
    /// # Panics
    /// If there is no such frame.
    #[inline]
    pub(crate) fn header(&self, f: u32) -> &FrameHeader {
        assert!(f < self.max, "no such frame");
        // SAFETY: one of `max` headers in a mapping of zeros, which is a valid header; aligned as
        // the mapping is; only shared references are ever made to it.
        unsafe { self.headers.add(f as usize).as_ref() }
    }

    /// The first byte of frame `f`, which has a header.
    #[inline]
    pub(crate) fn bytes(&self, f: u32) -> NonNull<u8> {
        debug_assert!(f < self.max);
        // SAFETY: the mapping has `max` frames, and `f` is one of them (its header was found).
        unsafe { self.base.add((f as usize) << self.page_shift) }
    }

    /// The page in frame `f`.
    ///
    /// # Safety
    /// The caller holds the frame's latch shared or exclusively as long as the slice lives.
    pub(crate) unsafe fn page(&self, f: u32) -> &[u8] {
        // SAFETY: mapped and initialised memory; the latch keeps writers out.
        unsafe { std::slice::from_raw_parts(self.bytes(f).as_ptr(), self.page_size()) }
    }

    /// The page in frame `f`, to be changed.
    ///
    /// # Safety
    /// The caller holds the frame's latch exclusively as long as the slice lives, and makes no
    /// second reference.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn page_mut(&self, f: u32) -> &mut [u8] {
        // SAFETY: mapped and initialised memory; the latch excludes all but optimistic readers,
        // which go through `access` alone and discard what they read.
        unsafe { std::slice::from_raw_parts_mut(self.bytes(f).as_ptr(), self.page_size()) }
    }

    /// Tells the system that frames `from..to` are going to be used.
    pub(crate) fn advise_used(&self, from: u32, to: u32) {
        self.mapping.advise_used((from as usize) << self.page_shift, (to as usize) << self.page_shift);
    }

    /// Takes the memory of frames `from..to` from the system now, if it is not so much that the
    /// machine may lack it. Several threads do it at once: most of the time goes into zeroing.
    pub(crate) fn populate(&self, from: u32, to: u32) {
        if u64::from(to - from) << self.page_shift > machine_bytes() / 4 * 3 {
            return;
        }
        // A simulated run has no threads beside its scheduler's.
        if cfg!(sim) {
            return;
        }
        let threads = holdfast_base::thread::cores() as u32;
        let part = (to - from).div_ceil(threads).max(POPULATE_PART_MIN >> self.page_shift);
        std::thread::scope(|scope| {
            for start in (from..to).step_by(part as usize) {
                let populate = move || self.populate_part(start, to.min(start.saturating_add(part)));
                // Without a thread the part comes when it is used.
                let _ = std::thread::Builder::new().spawn_scoped(scope, populate);
            }
        });
    }

    fn populate_part(&self, from: u32, to: u32) {
        self.mapping.populate((from as usize) << self.page_shift, (to as usize) << self.page_shift);
    }

    /// Returns the memory of frames `from..to` to the system; no thread may hold their latches.
    pub(crate) fn give_back(&self, from: u32, to: u32) {
        self.mapping.give_back((from as usize) << self.page_shift, (to as usize) << self.page_shift);
    }
}

/// The memory of the machine, in bytes; no bound where that is not known.
fn machine_bytes() -> u64 {
    machine_and_swap_bytes().0
}

/// The memory of the machine with its swap space, in bytes: the system cannot give more to all
/// processes together. No bound where that is not known.
#[must_use]
pub fn memory_with_swap_bytes() -> u64 {
    let (memory, swap) = machine_and_swap_bytes();
    memory.saturating_add(swap)
}

fn machine_and_swap_bytes() -> (u64, u64) {
    #[cfg(all(not(miri), target_os = "linux"))]
    {
        let system = rustix::system::sysinfo();
        let unit = u64::from(system.mem_unit);
        (system.totalram as u64 * unit, system.totalswap as u64 * unit)
    }
    #[cfg(any(miri, not(target_os = "linux")))]
    (u64::MAX, 0)
}

#[cfg(not(miri))]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

#[cfg(not(miri))]
impl Mapping {
    fn new(bytes: usize) -> Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let len = bytes.max(1) + ALIGN;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping, placed where the system likes.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let start = start.map_err(|e| {
            let what = format!("{bytes} bytes of address space, for a cache of as much as cache_size_max_bytes");
            Error::io("reserve", what, e.into())
        })?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| Error::invalid("the pool cannot be mapped"))?;
        Ok(Mapping { start, len })
    }

    fn base(&self) -> NonNull<u8> {
        let skip = self.start.as_ptr().align_offset(ALIGN);
        // SAFETY: the mapping is longer than the frames by `ALIGN`.
        unsafe { self.start.add(skip) }
    }

    fn advise(&self, from: usize, to: usize, advice: rustix::mm::Advice) {
        if from < to {
            // SAFETY: a part of the own mapping, from frame to frame; the advice changes contents
            // only of frames that the caller declared unused. A refusal costs speed or memory,
            // nothing else.
            let _ = unsafe { rustix::mm::madvise(self.base().add(from).as_ptr().cast(), to - from, advice) };
        }
    }

    fn advise_used(&self, from: usize, to: usize) {
        #[cfg(target_os = "linux")]
        self.advise(from, to, rustix::mm::Advice::LinuxHugepage);
        let _ = (from, to);
    }

    fn populate(&self, from: usize, to: usize) {
        #[cfg(target_os = "linux")]
        self.advise(from, to, rustix::mm::Advice::LinuxPopulateWrite);
        let _ = (from, to);
    }

    fn give_back(&self, from: usize, to: usize) {
        #[cfg(target_os = "linux")]
        self.advise(from, to, rustix::mm::Advice::LinuxDontNeed);
        let _ = (from, to);
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the own mapping; the pool is gone, and with it all guards.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(miri)]
struct Mapping {
    start: NonNull<u8>,
    layout: std::alloc::Layout,
}

#[cfg(miri)]
impl Mapping {
    fn new(bytes: usize) -> Result<Mapping> {
        let layout = std::alloc::Layout::from_size_align(bytes.max(1), 4096)
            .map_err(|_| Error::invalid("the pool is too large"))?;
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| Error::invalid("no memory for the pool"))?;
        Ok(Mapping { start, layout })
    }

    fn base(&self) -> NonNull<u8> {
        let _ = ALIGN;
        self.start
    }

    fn advise_used(&self, _from: usize, _to: usize) {}

    fn populate(&self, _from: usize, _to: usize) {}

    fn give_back(&self, _from: usize, _to: usize) {}
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `new`.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that switches huge pages off once its engines have started leaves us only those
    /// that we have by then.
    #[cfg(all(not(miri), target_os = "linux"))]
    #[test]
    fn populated_frames_are_resident() {
        let frames = Frames::reserve(8, 4096).unwrap();
        frames.advise_used(0, 8);
        let resident = || {
            let page = rustix::param::page_size();
            let mut state = vec![0u8; (8 * 4096_usize).div_ceil(page)];
            // SAFETY: the mapping of the frames, and room for a byte for each page of it.
            assert_eq!(unsafe { libc::mincore(frames.bytes(0).as_ptr().cast(), 8 * 4096, state.as_mut_ptr()) }, 0);
            state.iter().all(|state| state & 1 == 1)
        };
        assert!(!resident());
        frames.populate(0, 8);
        assert!(resident());
    }

    #[test]
    fn frames_are_separate_zeroed_and_given_back() {
        let frames = Frames::reserve(4, 4096).unwrap();
        frames.advise_used(0, 4);
        for f in 0..4 {
            // SAFETY: no other thread knows the frames.
            let page = unsafe { frames.page_mut(f) };
            assert_eq!(page.len(), 4096);
            assert!(page.iter().all(|&b| b == 0));
            page.fill(f as u8 + 1);
        }
        // SAFETY: as above.
        assert!(unsafe { frames.page(2) }.iter().all(|&b| b == 3));
        frames.give_back(2, 4);
        if cfg!(not(miri)) && cfg!(target_os = "linux") {
            // SAFETY: as above.
            assert!(unsafe { frames.page(2) }.iter().all(|&b| b == 0));
        }
    }
}
