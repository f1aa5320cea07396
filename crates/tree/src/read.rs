//! t
use std::cmp::Ordering;
/// Bounds-checked reading of a page, be it latched bytes (`[u8]`) or an [`OptPage`]. All methods return `None` when
/// the range does not lie within the page, which an optimistic reader answers by a restart.
pub trait PageRead {
    /// Bytes of the page.
    fn page_len(&self) -> usize;
    /// The byte at `off`.
    fn u8(&self, off: usize) -> Option<u8>;
    /// The little-endian 16-bit integer at `off`.
    fn u16(&self, off: usize) -> Option<u16>;
    /// The little-endian 32-bit integer at `off`.
    fn u32(&self, off: usize) -> Option<u32>;
    /// The little-endian 64-bit integer at `off`.
    fn u64(&self, off: usize) -> Option<u64>;
    /// Compares the `len` bytes at `off` with `key`, as byte strings; a proper prefix is less.
    fn compare(&self, off: usize, len: usize, key: &[u8]) -> Option<Ordering>;
    /// Appends the `len` bytes at `off` to `out`.
    fn copy_to(&self, off: usize, len: usize, out: &mut Vec<u8>) -> Option<()>;
    /// Copies the bytes from `off` on into all of `out`.
    fn read_into(&self, off: usize, out: &mut [u8]) -> Option<()>;
    /// Copies the whole page into `out`, which must be as long as the page.
    fn copy_page(&self, out: &mut [u8]) -> Option<()> {
        (out.len() == self.page_len()).then_some(())?;
        self.read_into(0, out)
    }
}

impl PageRead for [u8] {
    #[inline]
    fn page_len(&self) -> usize {
        self.len()
    }
    #[inline]
    fn u8(&self, off: usize) -> Option<u8> {
        self.get(off).copied()
    }
    #[inline]
    fn u16(&self, off: usize) -> Option<u16> {
        holdfast_base::codec::get_u16(self, off)
    }
    #[inline]
    fn u32(&self, off: usize) -> Option<u32> {
        holdfast_base::codec::get_u32(self, off)
    }
    #[inline]
    fn u64(&self, off: usize) -> Option<u64> {
        holdfast_base::codec::get_u64(self, off)
    }
    #[inline]
    fn compare(&self, off: usize, len: usize, key: &[u8]) -> Option<Ordering> {
        Some(self.get(off..off.checked_add(len)?)?.cmp(key))
    }
    #[inline]
    fn copy_to(&self, off: usize, len: usize, out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(self.get(off..off.checked_add(len)?)?);
        Some(())
    }
    #[inline]
    fn read_into(&self, off: usize, out: &mut [u8]) -> Option<()> {
        out.copy_from_slice(self.get(off..off.checked_add(out.len())?)?);
        Some(())
    }
}

