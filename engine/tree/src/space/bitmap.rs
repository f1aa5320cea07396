//! Allocation bitmaps: one bit per page, one 64-bit word per extent, little-endian.
//!
//! ```text
//! offset size
//!  0    64   common page header (type Allocation)
//! 64    16   reserved, zero
//! 80         words: bit b of word w is page first + 64 w + b; 1: allocated
//! ```
//!
//! A bitmap page covers `pages_covered(page size)` pages. The first one is page 1 and covers the
//! pages from 0 on; each other one is the first page of the range that it covers, so its own bit is
//! the first.

use holdfast_base::PageNo;
use holdfast_base::codec::{get_u64, put_u64};
use holdfast_base::limits::EXTENT_PAGES;
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};

/// Offset of the first word.
pub const OFF_WORDS: usize = HEADER_LEN + 16;

/// What is wrong with a bitmap if the page count of the header is too small.
pub(crate) const ALLOCATED_BEYOND: &str = "it has pages allocated beyond the end of the file";

/// Pages that one bitmap page of `page_size` bytes covers; whole extents.
#[must_use]
#[cfg_attr(not(sim), expect(clippy::missing_const_for_fn, reason = "a simulated run chooses"))]
pub fn pages_covered(page_size: usize) -> u32 {
    let extents = (page_size - OFF_WORDS) / 8;
    // A simulated file is small, and has several bitmaps all the same.
    #[cfg(sim)]
    let extents = holdfast_base::sim::bitmap_extents().unwrap_or(extents).min(extents);
    extents as u32 * EXTENT_PAGES
}

/// The bitmap page that covers page `no`.
#[must_use]
pub fn page_for(no: PageNo, page_size: usize) -> PageNo {
    let covered = pages_covered(page_size);
    if no.0 < covered { PageNo(1) } else { PageNo(no.0 - no.0 % covered) }
}

/// The first page that bitmap page `bitmap` covers.
#[must_use]
pub const fn first_covered(bitmap: PageNo) -> u32 {
    if bitmap.0 == 1 { 0 } else { bitmap.0 }
}

/// True if page `no` is a bitmap page.
#[must_use]
pub fn is_bitmap(no: PageNo, page_size: usize) -> bool {
    no.0 == 1 || no.0 != 0 && no.0.is_multiple_of(pages_covered(page_size))
}

/// The bits of extent `word`.
#[must_use]
pub fn word(page: &[u8], word: usize) -> Option<u64> {
    get_u64(page, OFF_WORDS.checked_add(word.checked_mul(8)?)?)
}

/// The bits of `first..first + count` that are in the word of `bit`, as a mask, and their number.
fn mask(bit: u32, count: u32) -> (u64, u32) {
    let from = bit % 64;
    let n = count.min(64 - from);
    let ones = if n == 64 { u64::MAX } else { (1 << n) - 1 };
    (ones << from, n)
}

/// True if the bits exist and all have that value; false for no bits.
#[must_use]
pub(crate) fn all_equal(page: &[u8], first: u32, count: u32, value: bool) -> bool {
    if count == 0 || first.checked_add(count).is_none() {
        return false;
    }
    let (mut bit, mut left) = (first, count);
    while left > 0 {
        let (ones, n) = mask(bit, left);
        let Some(word) = word(page, (bit / 64) as usize) else { return false };
        if word & ones != if value { ones } else { 0 } {
            return false;
        }
        bit += n;
        left -= n;
    }
    true
}

/// True if these are the bytes of a bitmap page.
#[must_use]
pub(crate) fn is_typed(page: &[u8]) -> bool {
    page.get(OFF_TYPE) == Some(&(PageType::Allocation as u8))
}

/// True if a bitmap page has no page allocated but itself.
#[must_use]
pub(crate) fn is_given_up(page: &[u8]) -> bool {
    let extents = page.len().saturating_sub(OFF_WORDS) / 8;
    all_equal(page, 1, (extents as u32 * EXTENT_PAGES).saturating_sub(1), false)
}

/// Sets bits that [`all_equal`] has looked at.
pub(crate) fn fill(page: &mut [u8], first: u32, count: u32, value: bool) {
    let (mut bit, mut left) = (first, count);
    while left > 0 {
        let (ones, n) = mask(bit, left);
        let at = (bit / 64) as usize;
        if let Some(old) = word(page, at) {
            put_u64(page, OFF_WORDS + at * 8, if value { old | ones } else { old & !ones });
        }
        bit += n;
        left -= n;
    }
}

/// The lowest free page at or after `from` and below `limit`, all counted from the bitmap's first
/// bit.
#[must_use]
pub(crate) fn first_free(page: &[u8], from: u32, limit: u32) -> Option<u32> {
    let mut bit = from;
    while bit < limit {
        let free = !word(page, (bit / 64) as usize)? >> (bit % 64);
        if free != 0 {
            let found = bit + free.trailing_zeros();
            return (found < limit).then_some(found);
        }
        bit = (bit / 64 + 1) * 64;
    }
    None
}

/// The first bit of the lowest wholly free extent at or after bit `from` and wholly below `limit`.
#[must_use]
pub(crate) fn first_free_extent(page: &[u8], from: u32, limit: u32) -> Option<u32> {
    (from.div_ceil(64)..limit / 64).find(|&w| word(page, w as usize) == Some(0)).map(|w| w * 64)
}

/// Free pages among the first `limit`.
#[must_use]
pub(crate) fn count_free(page: &[u8], limit: u32) -> u32 {
    let mut free = 0;
    let mut bit = 0;
    while bit < limit {
        let (ones, n) = mask(bit, limit - bit);
        free += (!word(page, (bit / 64) as usize).unwrap_or(u64::MAX) & ones).count_ones();
        bit += n;
    }
    free
}

/// The bitmap pages of a file of `pages` pages.
pub(crate) fn bitmaps(pages: u32, page_size: usize) -> impl Iterator<Item = PageNo> {
    let covered = pages_covered(page_size);
    (0..pages).step_by(covered as usize).map(|first| if first == 0 { PageNo(1) } else { PageNo(first) })
}

/// The bitmap pages of a file of `pages` pages, that of page `near` first.
pub(crate) fn from_home(near: PageNo, pages: u32, page_size: usize) -> impl Iterator<Item = PageNo> {
    let near = PageNo(near.0.min(pages.saturating_sub(1)));
    let home = page_for(near, page_size);
    std::iter::once(home).chain(bitmaps(pages, page_size).filter(move |&no| no != home))
}
