//! Reading a page that another thread may be writing: the one module where bytes are read without a
//! latch.
//!
//! An optimistic reader's loads race with the exclusive holder's stores. Such a race is undefined
//! for ordinary loads in Rust's model, so nothing here forms a reference into the frame:
//! [`OptPage`] holds a raw pointer, checks every offset against the page's length, and reads by
//! volatile loads or by the C library's `memcmp` and `memcpy`, which the compiler neither splits,
//! repeats nor moves. A torn value is any value: callers must treat it as untrusted bytes and act
//! on it only after the guard's validation; every length read from a page is checked here before it
//! is used.
//!
//! Under Miri optimistic guards hold the shared latch (see `guard`), so these reads do not race and
//! the same code is checked for everything else: bounds, provenance, initialisation.

use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Bounds-checked reading of a page, be it latched bytes (`[u8]`) or an [`OptPage`]. All methods
/// return `None` when the range does not lie within the page, which an optimistic reader answers by
/// a restart.
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
    /// Of `count` pairs of 32-bit little-endian integers that lie behind each other from `off` on,
    /// how many from the start have a second integer below `bound`, if these ascend; any number up
    /// to `count` if they do not. The inner loop of every search in a node: a fixed number of
    /// steps, without a branch that could be mispredicted.
    fn count_below(&self, off: usize, count: usize, bound: u32) -> Option<usize> {
        let end = off.checked_add(count.checked_mul(8)?)?;
        (end <= self.page_len()).then_some(())?;
        let (mut low, mut len) = (0, count);
        while len > 0 {
            let half = len - len / 2;
            let below = self.u32(off + (low + half - 1) * 8 + 4)? < bound;
            low += if below { half } else { 0 };
            len -= half;
        }
        Some(low)
    }
    /// The `len` bytes at `off` are going to be read soon: the processor may begin to fetch them.
    /// It reads nothing, so it does not matter what is there.
    fn expect(&self, _off: usize, _len: usize) {}
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

/// A page that may be changed, or be given away, while it is read. Obtained from an optimistic
/// guard; what it returns counts only if the guard validates afterwards.
#[derive(Clone, Copy, Debug)]
pub struct OptPage<'a> {
    start: NonNull<u8>,
    len: usize,
    _frame: PhantomData<&'a u8>,
}

/// A plain integer at any address: one load instruction, and volatile, so exactly one.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

impl<'a> OptPage<'a> {
    /// # Safety
    /// `start..start + len` is initialised memory that stays mapped for `'a`.
    #[inline]
    pub(crate) unsafe fn new(start: NonNull<u8>, len: usize) -> OptPage<'a> {
        OptPage { start, len, _frame: PhantomData }
    }

    /// A pointer to the `len` bytes at `off`, if they lie within the page.
    #[inline]
    fn range(&self, off: usize, len: usize) -> Option<*const u8> {
        if off > self.len || len > self.len - off {
            return None;
        }
        // SAFETY: within the page, by the check above.
        Some(unsafe { self.start.as_ptr().add(off) })
    }

    #[inline]
    fn load<T: Copy>(&self, off: usize) -> Option<T> {
        let at = self.range(off, size_of::<T>())?;
        // SAFETY: in bounds, mapped and initialised; `Unaligned` has alignment 1; `T` is an
        // integer, for which every bit pattern is valid. Racing stores make the value arbitrary, no
        // more (see the module's description).
        Some(unsafe { at.cast::<Unaligned<T>>().read_volatile() }.0)
    }
}

impl PageRead for OptPage<'_> {
    #[inline]
    fn page_len(&self) -> usize {
        self.len
    }
    #[inline]
    fn u8(&self, off: usize) -> Option<u8> {
        self.load::<u8>(off)
    }
    #[inline]
    fn u16(&self, off: usize) -> Option<u16> {
        self.load::<u16>(off).map(u16::from_le)
    }
    #[inline]
    fn u32(&self, off: usize) -> Option<u32> {
        self.load::<u32>(off).map(u32::from_le)
    }
    #[inline]
    fn u64(&self, off: usize) -> Option<u64> {
        self.load::<u64>(off).map(u64::from_le)
    }

    #[inline]
    fn expect(&self, off: usize, len: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            const LINE: usize = 64;
            let Some(at) = self.range(off, len.min(self.len.saturating_sub(off))) else { return };
            for line in (0..len).step_by(LINE) {
                // SAFETY: a hint, which is no access: it is allowed to name any address. This one
                // is not formed by going beyond the page, for `wrapping_add` goes anywhere.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(line).cast()) };
            }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (off, len);
    }

    #[inline]
    fn count_below(&self, off: usize, count: usize, bound: u32) -> Option<usize> {
        let at = self.range(off, count.checked_mul(8)?)?;
        let (mut low, mut len) = (0, count);
        while len > 0 {
            let half = len - len / 2;
            // SAFETY: `low + half <= low + len <= count`, so the integer lies within the range
            // checked above, and it may be read as `load` reads one.
            let second = unsafe { at.add((low + half) * 8 - 4).cast::<Unaligned<u32>>().read_volatile() }.0;
            low += if u32::from_le(second) < bound { half } else { 0 };
            len -= half;
        }
        Some(low)
    }

    #[inline]
    fn compare(&self, off: usize, len: usize, key: &[u8]) -> Option<Ordering> {
        let at = self.range(off, len)?;
        let common = len.min(key.len());
        // SAFETY: `common` bytes are in bounds on both sides; the function only reads.
        let head = unsafe { libc::memcmp(at.cast(), key.as_ptr().cast(), common) };
        Some(head.cmp(&0).then(len.cmp(&key.len())))
    }

    #[inline]
    fn copy_to(&self, off: usize, len: usize, out: &mut Vec<u8>) -> Option<()> {
        let at = self.range(off, len)?;
        out.reserve(len);
        // SAFETY: `len` bytes are in bounds of the page, and `out` has room for them behind its
        // length; a frame and a vector never overlap. The bytes are initialised by the copy.
        unsafe {
            libc::memcpy(out.as_mut_ptr().add(out.len()).cast(), at.cast(), len);
            out.set_len(out.len() + len);
        }
        Some(())
    }

    #[inline]
    fn read_into(&self, off: usize, out: &mut [u8]) -> Option<()> {
        let at = self.range(off, out.len())?;
        // SAFETY: in bounds on both sides; a frame and the caller's exclusive slice never overlap.
        unsafe { libc::memcpy(out.as_mut_ptr().cast(), at.cast(), out.len()) };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(bytes: &mut [u8], check: impl Fn(&dyn PageRead)) {
        check(&PagePtr(bytes));
        let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
        // SAFETY: `bytes` outlives the call.
        check(&unsafe { OptPage::new(start, bytes.len()) });
    }

    /// `[u8]` is unsized; this makes an object of it.
    struct PagePtr<'a>(&'a [u8]);

    impl PageRead for PagePtr<'_> {
        fn page_len(&self) -> usize {
            self.0.page_len()
        }
        fn u8(&self, off: usize) -> Option<u8> {
            self.0.u8(off)
        }
        fn u16(&self, off: usize) -> Option<u16> {
            self.0.u16(off)
        }
        fn u32(&self, off: usize) -> Option<u32> {
            self.0.u32(off)
        }
        fn u64(&self, off: usize) -> Option<u64> {
            self.0.u64(off)
        }
        fn compare(&self, off: usize, len: usize, key: &[u8]) -> Option<Ordering> {
            self.0.compare(off, len, key)
        }
        fn copy_to(&self, off: usize, len: usize, out: &mut Vec<u8>) -> Option<()> {
            self.0.copy_to(off, len, out)
        }
        fn read_into(&self, off: usize, out: &mut [u8]) -> Option<()> {
            self.0.read_into(off, out)
        }
    }

    #[test]
    fn latched_and_optimistic_reading_agree() {
        let mut bytes: Vec<u8> = (0..64).collect();
        both(&mut bytes, |p| {
            assert_eq!(p.page_len(), 64);
            assert_eq!(p.u8(63), Some(63));
            assert_eq!(p.u16(1), Some(0x0201));
            assert_eq!(p.u32(3), Some(0x0605_0403));
            assert_eq!(p.u64(56), Some(0x3f3e_3d3c_3b3a_3938));
            assert_eq!(p.compare(4, 3, &[4, 5, 6]), Some(Ordering::Equal));
            assert_eq!(p.compare(4, 2, &[4, 5, 6]), Some(Ordering::Less));
            assert_eq!(p.compare(4, 3, &[4, 5]), Some(Ordering::Greater));
            assert_eq!(p.compare(4, 3, &[9]), Some(Ordering::Less));
            let mut out = vec![9];
            p.copy_to(62, 2, &mut out).unwrap();
            assert_eq!(out, [9, 62, 63]);
            let mut page = [0; 64];
            p.copy_page(&mut page).unwrap();
            assert_eq!(page[17], 17);
        });
    }

    #[test]
    fn counting_agrees_with_looking_at_each() {
        for count in 0..8 {
            let mut bytes = [0; 64];
            for i in 0..count {
                bytes[i * 8 + 4..i * 8 + 8].copy_from_slice(&(10 * i as u32 / 2).to_le_bytes());
            }
            both(&mut bytes, |p| {
                for bound in 0..50 {
                    let expected = (0..count).filter(|&i| 10 * i as u32 / 2 < bound).count();
                    assert_eq!(p.count_below(0, count, bound), Some(expected));
                }
            });
        }
    }

    #[test]
    fn nothing_is_read_past_the_end() {
        let mut bytes = [0; 64];
        both(&mut bytes, |p| {
            assert_eq!(p.u8(64), None);
            assert_eq!(p.u16(63), None);
            assert_eq!(p.u32(61), None);
            assert_eq!(p.u64(57), None);
            assert_eq!(p.u64(usize::MAX), None);
            assert_eq!(p.compare(60, 5, b"x"), None);
            assert_eq!(p.compare(usize::MAX, 2, b"x"), None);
            assert_eq!(p.count_below(0, 9, u32::MAX), None);
            assert_eq!(p.count_below(8, usize::MAX / 4, 1), None);
            assert_eq!(p.copy_to(64, 1, &mut Vec::new()), None);
            assert_eq!(p.copy_to(1, usize::MAX, &mut Vec::new()), None);
            assert_eq!(p.copy_page(&mut [0; 63]), None);
        });
    }
}
