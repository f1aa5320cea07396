//! The log buffer: a ring of words that many threads fill at once, without a lock.
//!
//! Positions are LSNs modulo the size of the ring. A thread that owns the LSN range `[start, end)`
//!
//! 1. waits until `end <= freed + size`, so that the range it overwrites is no longer needed (the
//!    caller's duty: [`crate::Wal`] helps to write meanwhile),
//! 2. stores its words, relaxed,
//! 3. publishes the range by storing `end` into the link of `start`, with release.
//!
//! The drainer (one at a time) follows the links from its position. A link greater than the
//! position is a published range, and the acquire load of the link makes the words visible. Links
//! are never reset. What a link holds from earlier laps is never greater than the position: its
//! range began at least one ring earlier and is shorter than the ring.
//!
//! Words are atomics although, by rules 1 and 3, their accesses never overlap: the crate needs no
//! unsafe code. That costs little beside the checksum (`docs/design/log.md` has the figures).

use holdfast_base::sync::atomic::{AtomicU64, Ordering};

use crate::format::GROUP_HEADER;

const WORD: usize = size_of::<u64>();

/// The log buffer; see the module.
pub struct Ring {
    words: Box<[AtomicU64]>,
    links: Box<[AtomicU64]>,
}

impl Ring {
    /// Creates a ring of `bytes`, a power of two.
    pub fn new(bytes: usize) -> Ring {
        assert!(bytes.is_power_of_two() && bytes >= GROUP_HEADER as usize);
        let zeros = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect();
        Ring { words: zeros(bytes / WORD), links: zeros(bytes / GROUP_HEADER as usize) }
    }

    /// The bytes of the ring.
    pub fn capacity(&self) -> u64 {
        (self.words.len() * WORD) as u64
    }

    /// The memory that the ring takes, in bytes.
    pub fn memory(&self) -> u64 {
        self.capacity() + (self.links.len() * WORD) as u64
    }

    /// Stores a group: header, payload, and zeros up to the next multiple of 32 bytes. The caller
    /// owns the range.
    #[inline]
    pub fn put(&self, start: u64, header: [u64; 4], payload: &[u8]) {
        let at = self.word_of(start);
        // Groups are aligned to the header's size, so that a header never wraps.
        for (slot, word) in self.words[at..at + header.len()].iter().zip(header) {
            slot.store(word, Ordering::Relaxed);
        }
        let at = (at + header.len()) & (self.words.len() - 1);
        let words = payload.len().next_multiple_of(GROUP_HEADER as usize) / WORD;
        let until_wrap = words.min(self.words.len() - at);
        let (front, back) = payload.split_at(payload.len().min(until_wrap * WORD));
        store(&self.words[at..at + until_wrap], front);
        store(&self.words[..words - until_wrap], back);
    }

    /// Publishes `[start, end)`, which is complete.
    #[inline]
    pub fn publish(&self, start: u64, end: u64) {
        self.link_of(start).store(end, Ordering::Release);
    }

    /// Follows the links from `from`. Returns the end of the complete groups, and the number of
    /// groups passed.
    pub fn ready_from(&self, from: u64) -> (u64, u64) {
        let (mut position, mut groups) = (from, 0);
        // One lap at most: further links belong to ranges that this drainer has not freed yet.
        while position - from < self.capacity() {
            let end = self.link_of(position).load(Ordering::Acquire);
            if end <= position {
                break;
            }
            (position, groups) = (end, groups + 1);
        }
        (position, groups)
    }

    /// Copies the bytes from `from` on into `out`, whose length is a multiple of 8. The bytes must
    /// be complete and not freed.
    pub fn copy_out(&self, from: u64, out: &mut [u8]) {
        let at = self.word_of(from);
        let until_wrap = (out.len() / WORD).min(self.words.len() - at);
        let (front, back) = out.split_at_mut(until_wrap * WORD);
        load(&self.words[at..], front);
        load(&self.words, back);
    }

    fn word_of(&self, lsn: u64) -> usize {
        (lsn as usize / WORD) & (self.words.len() - 1)
    }

    fn link_of(&self, lsn: u64) -> &AtomicU64 {
        &self.links[(lsn / GROUP_HEADER) as usize & (self.links.len() - 1)]
    }
}

/// Fills `slots` with `bytes`, then zeros.
#[inline]
fn store(slots: &[AtomicU64], bytes: &[u8]) {
    let mut slots = slots.iter();
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (word, slot) in whole.iter().zip(slots.by_ref()) {
        slot.store(u64::from_le_bytes(*word), Ordering::Relaxed);
    }
    if !rest.is_empty()
        && let Some(slot) = slots.next()
    {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        slot.store(u64::from_le_bytes(last), Ordering::Relaxed);
    }
    for slot in slots {
        slot.store(0, Ordering::Relaxed);
    }
}

fn load(slots: &[AtomicU64], out: &mut [u8]) {
    for (to, slot) in out.chunks_exact_mut(WORD).zip(slots) {
        to.copy_from_slice(&slot.load(Ordering::Relaxed).to_le_bytes());
    }
}
