//! The 64-byte header of a frame: one cache line that a hit reads and, once the page is hot, no hit
//! writes.
//!
//! ```text
//! offset size
//!  0     8   latch word              see `latch`
//!  8     8   page id, inverted       !(space << 32 | page number); 0: the frame holds no page
//! 16     8   policy word             of the replacement policy; changed by compare-exchange only
//! 24     8   rec_lsn                 start of the first mini-transaction whose change is not on
//!                                   disk; 0: clean
//! 32     8   next_rec_lsn            the same for changes made while the page is being written;
//!                                   0: none
//! 40     4   flags                   WRITING, READ_AHEAD, EXAMINED
//! 44     4   -
//! 48     16  -
//! ```
//!
//! A header of zeros is that of a free frame, so the headers of the largest pool cost memory only
//! where they are used.
//!
//! Rules of change:
//! - page id: the exclusive holder of the latch.
//! - rec_lsn 0 -> x: the exclusive holder, under the partition's dirty mutex. x -> 0 or x -> y: the
//!   thread that completes a write, under the dirty mutex, without the latch.
//! - WRITING: set by a shared holder under the dirty mutex, so never while another thread holds the
//!   latch exclusively; cleared under the dirty mutex. An exclusive holder that finds it clear
//!   therefore knows that it stays clear and that rec_lsn stays what it is; one that finds it set
//!   must take the dirty mutex.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use holdfast_base::{PageId, PageNo, SpaceId};

use holdfast_latch::Latch;

/// A copy of the page is on its way to disk.
pub(crate) const WRITING: u32 = 1;
/// Brought in by read-ahead and not used since.
pub(crate) const READ_AHEAD: u32 = 2;
/// See [`ExclusiveGuard::is_examined`](crate::ExclusiveGuard::is_examined). Set and cleared by the
/// exclusive holder.
pub(crate) const EXAMINED: u32 = 4;

/// What the headers of a space's pages have in common, see [`FrameHeader::holds_page`].
pub(crate) fn space_key(space: SpaceId) -> u64 {
    !PageId::new(space, PageNo(0)).to_u64()
}

/// See the module's description.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct FrameHeader {
    pub(crate) latch: Latch,
    page: AtomicU64,
    pub(crate) policy: AtomicU64,
    rec_lsn: AtomicU64,
    next_rec_lsn: AtomicU64,
    flags: AtomicU32,
}

impl FrameHeader {
    /// True if the frame holds the page whose [`PageId::to_u64`] is `id`.
    #[inline]
    pub(crate) fn holds(&self, id: u64) -> bool {
        self.page.load(Ordering::Relaxed) == !id
    }

    /// The same for page `no` of the space whose [`space_key`] is `key`, in fewer steps.
    #[inline]
    pub(crate) fn holds_page(&self, key: u64, no: PageNo) -> bool {
        self.page.load(Ordering::Relaxed) ^ u64::from(no.0) == key
    }

    /// The page in the frame, if any.
    pub(crate) fn page(&self) -> Option<PageId> {
        let word = self.page.load(Ordering::Relaxed);
        (word != 0).then(|| PageId::from_u64(!word))
    }

    pub(crate) fn set_page(&self, id: PageId) {
        self.page.store(!id.to_u64(), Ordering::Relaxed);
    }

    pub(crate) fn clear_page(&self) {
        self.page.store(0, Ordering::Relaxed);
    }

    /// 0: clean.
    pub(crate) fn rec_lsn(&self) -> u64 {
        self.rec_lsn.load(Ordering::Acquire)
    }

    pub(crate) fn set_rec_lsn(&self, lsn: u64) {
        self.rec_lsn.store(lsn, Ordering::Release);
    }

    pub(crate) fn next_rec_lsn(&self) -> u64 {
        self.next_rec_lsn.load(Ordering::Relaxed)
    }

    pub(crate) fn set_next_rec_lsn(&self, lsn: u64) {
        self.next_rec_lsn.store(lsn, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flag != 0
    }

    pub(crate) fn set(&self, flag: u32) {
        self.flags.fetch_or(flag, Ordering::Relaxed);
    }

    /// Clears `flag`; whether it was set.
    pub(crate) fn clear(&self, flag: u32) -> bool {
        self.flags.fetch_and(!flag, Ordering::Release) & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_recognised_in_both_ways() {
        let header = FrameHeader::default();
        assert_eq!(header.page(), None);
        let (space, other) = (SpaceId(0xffff_0001), SpaceId(2));
        header.set_page(PageId::new(space, PageNo(0xf000_0007)));
        for (space, no) in [(space, 0xf000_0007), (space, 7), (other, 0xf000_0007)] {
            let expected = header.holds(PageId::new(space, PageNo(no)).to_u64());
            assert_eq!(expected, (space.0, no) == (0xffff_0001, 0xf000_0007));
            assert_eq!(header.holds_page(space_key(space), PageNo(no)), expected);
        }
    }

    #[test]
    fn a_header_is_one_cache_line() {
        assert_eq!(size_of::<FrameHeader>(), 64);
        assert_eq!(align_of::<FrameHeader>(), 64);
    }
}
