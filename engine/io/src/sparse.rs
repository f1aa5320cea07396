//! The bytes of a file in memory: chunks allocated as they are written, zeros elsewhere. A clone
//! shares the chunks until one of the two writes to them.
//!
//! Invariant: bytes at or past `len` in the last chunk are zero, so that growing exposes zeros.

use std::sync::Arc;

const CHUNK: usize = 64 << 10;

/// A sparse array of bytes.
#[derive(Clone, Debug, Default)]
pub struct SparseBytes {
    chunks: Vec<Option<Arc<Vec<u8>>>>,
    len: u64,
}

/// The pieces of `offset..offset + len`: (chunk, first byte in the chunk, range in the buffer).
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < len).then(|| {
            let at = offset + done as u64;
            let (chunk, within) = ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize);
            let n = (CHUNK - within).min(len - done);
            done += n;
            (chunk, within, done - n..done)
        })
    })
}

impl SparseBytes {
    /// Bytes, those never written among them.
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Fills `buf` from `offset` on; false if the bytes end before.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> bool {
        if offset.saturating_add(buf.len() as u64) > self.len {
            return false;
        }
        for (chunk, within, range) in pieces(offset, buf.len()) {
            let n = range.len();
            match self.chunks.get(chunk).and_then(Option::as_ref) {
                Some(bytes) => buf[range].copy_from_slice(&bytes[within..within + n]),
                None => buf[range].fill(0),
            }
        }
        true
    }

    /// Writes `buf` at `offset`, growing as needed.
    pub fn write(&mut self, offset: u64, buf: &[u8]) {
        for (chunk, within, range) in pieces(offset, buf.len()) {
            if self.chunks.len() <= chunk {
                self.chunks.resize(chunk + 1, None);
            }
            let bytes = self.chunks[chunk].get_or_insert_with(|| Arc::new(vec![0; CHUNK]));
            Arc::make_mut(bytes)[within..within + range.len()].copy_from_slice(&buf[range]);
        }
        if !buf.is_empty() {
            self.len = self.len.max(offset + buf.len() as u64);
        }
    }

    /// Zeros `offset..offset + len`, as far as that is within the length; whole chunks are given
    /// back.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len);
        if offset >= end {
            return;
        }
        let Ok(len) = usize::try_from(end - offset) else { return };
        for (chunk, within, range) in pieces(offset, len) {
            let Some(slot) = self.chunks.get_mut(chunk) else { return };
            if range.len() == CHUNK {
                *slot = None;
            } else if let Some(bytes) = slot {
                Arc::make_mut(bytes)[within..within + range.len()].fill(0);
            }
        }
    }

    /// Makes it shorter, or longer by zeros.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len - len);
            self.chunks.truncate(usize::try_from(len.div_ceil(CHUNK as u64)).unwrap_or(usize::MAX));
        }
        self.len = len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_across_chunks_are_read_back() {
        let mut bytes = SparseBytes::default();
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        bytes.write(CHUNK as u64 - 3, &data);
        let mut back = vec![0; data.len()];
        assert!(bytes.read(CHUNK as u64 - 3, &mut back));
        assert_eq!(back, data);
        assert!(!bytes.read(CHUNK as u64, &mut back), "past the end");
        let mut start = vec![1; CHUNK - 3];
        assert!(bytes.read(0, &mut start));
        assert!(start.iter().all(|&b| b == 0), "never written");
    }

    #[test]
    fn a_clone_shares_what_neither_changes() {
        let mut bytes = SparseBytes::default();
        bytes.write(0, &vec![7; 2 * CHUNK]);
        let mut copy = bytes.clone();
        copy.write(1, &[8]);
        bytes.zero(2, 1);
        let start = |bytes: &SparseBytes| {
            let mut start = [0; 4];
            assert!(bytes.read(0, &mut start));
            start
        };
        assert_eq!((start(&bytes), start(&copy)), ([7, 7, 0, 7], [7, 8, 7, 7]));
        let is_shared = |n: usize| match (&bytes.chunks[n], &copy.chunks[n]) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        assert!(!is_shared(0) && is_shared(1));
    }

    #[test]
    fn shrinking_and_growing_exposes_zeros() {
        let mut bytes = SparseBytes::default();
        bytes.write(0, &[9; 1000]);
        bytes.set_len(10);
        bytes.set_len(1000);
        let mut back = [1; 1000];
        assert!(bytes.read(0, &mut back));
        assert_eq!((back[9], back[10], back[999]), (9, 0, 0));
    }
}
