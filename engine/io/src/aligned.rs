//! Byte buffers aligned to 4 KiB, as reads and writes past the page cache require.
//!
//! Invariant: every byte of the allocated blocks is initialised (zero until written), and `len` is
//! at most their number of bytes. One of the few modules with `unsafe`.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Alignment of a buffer's first byte.
pub const ALIGNMENT: usize = 4096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Block([u8; ALIGNMENT]);

/// A growable byte buffer whose first byte is aligned to [`ALIGNMENT`].
#[derive(Clone, Default)]
pub struct AlignedBuf {
    blocks: Vec<Block>,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer without memory.
    #[must_use]
    pub fn new() -> AlignedBuf {
        AlignedBuf::default()
    }

    /// `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::new();
        buf.resize(len);
        buf
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Bytes that fit without moving the buffer.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.blocks.capacity() * ALIGNMENT
    }

    /// Makes the buffer shorter, or longer by zeros.
    pub fn resize(&mut self, len: usize) {
        let old = self.len;
        self.set_len(len);
        if len > old {
            self[old..].fill(0);
        }
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let old = self.len;
        self.set_len(old + bytes.len());
        self[old..].copy_from_slice(bytes);
    }

    /// Sets the length. If it grows, the new bytes are those that the memory held before.
    fn set_len(&mut self, len: usize) {
        let blocks = len.div_ceil(ALIGNMENT);
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, Block([0; ALIGNMENT]));
        }
        self.len = len;
    }

    /// Makes the buffer empty; its memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `blocks` holds at least `len` initialised bytes in one allocation (a `Block` is
        // all bytes, without padding), which live and stay unchanged as long as `self` is borrowed.
        // With no blocks the pointer is dangling but aligned and `len` is 0.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast::<u8>(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast::<u8>(), self.len) }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_zeroed_however_it_grows() {
        let mut buf = AlignedBuf::new();
        assert!(buf.is_empty());
        for len in [1, 4096, 5000, 100_000, 300, 20_000] {
            buf.resize(len);
            assert_eq!(buf.len(), len);
            assert_eq!(buf.as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buf[len - 1], if len == 300 { 7 } else { 0 }, "at {len}");
            buf.fill(7);
        }
        buf.clear();
        buf.resize(10);
        assert_eq!(&buf[..], &[0; 10], "bytes from before a resize are not seen again");
    }

    #[test]
    fn it_holds_what_was_appended() {
        let mut buf = AlignedBuf::from_slice(b"hold");
        buf.extend_from_slice(b"fast");
        assert_eq!(&buf[..], b"holdfast");
        assert_eq!(&buf.clone()[..], b"holdfast");
        assert!(buf.capacity() >= 8);
    }
}
