//! Slotted B+tree nodes.
//!
//! ```text
//! offset size
//!  0    64   common page header (type Tree, level, index id)
//! 64     2   slots
//! 66     2   bytes of the common prefix; the prefix lies at the very end of the page
//! 68     4   heap start: offset of the lowest record byte
//! 72     4   garbage: dead bytes between the heap start and the prefix
//! 76     2   slot of the last insert, 0xffff: none     } hints that choose
//! 78     2   run: inserts in a row at ascending (> 0)  } the split point
//!            or descending (< 0) positions             }
//! 80    8n   slots { record offset u16, suffix bytes u16, head u32 }, ascending by key
//!            free space
//!            records { payload bytes u16, suffix, payload }, in any order
//!            prefix
//! ```
//!
//! A key is prefix ++ suffix. The head is the suffix's first four bytes as a big-endian number,
//! padded with zeros: most comparisons of a search need no more. An inner node's payload is a child
//! page number (u32). Its slot 0 is minus infinity and has no key: its suffix is empty and the
//! prefix does not apply to it.
//!
//! Invariants:
//! * *Fences.* The stored prefix is a prefix of every key that the node may ever hold: an operation
//!   that widens a node's key range rewrites the node. So an insert never has to shorten a prefix,
//!   and the sizes that a split computes hold. An insert of another key finds damage: stored, it
//!   would be another key.
//! * *Free space.* contiguous free bytes + garbage = body - slots - live records - prefix, whatever
//!   the layout of the heap. An operation that fits by this sum may compact the node; redo does the
//!   same.
//! * *Records apart.* No record lies over another one, or below the heap start. An operation on one
//!   record relies on that, since it writes into the bytes of the record, or below the heap.
//!
//! Readers are generic over [`PageRead`]: a page in an optimistic read may be torn. Every accessor
//! checks its bounds and returns `None` for bytes that no node can hold. The caller then validates
//! its latch version and either restarts or reports a damaged page.

mod edit;
mod split;

use std::cmp::Ordering;

use holdfast_base::page::{HEADER_LEN, OFF_INDEX, OFF_LEVEL, OFF_TYPE, PageType};
use holdfast_base::{IndexId, PageNo};
use holdfast_pool::PageRead;

pub use edit::{EntryList, NodeMut};
pub use split::{SplitPlan, merged_size, plan_inner_split, plan_leaf_split, separator};
pub(crate) use split::{common_prefix_len, fence_prefix_len};

/// Offset of the first slot.
pub const OFF_SLOTS: usize = HEADER_LEN + 16;
pub(crate) const OFF_COUNT: usize = HEADER_LEN;
pub(crate) const OFF_PREFIX_LEN: usize = HEADER_LEN + 2;
pub(crate) const OFF_HEAP: usize = HEADER_LEN + 4;
pub(crate) const OFF_GARBAGE: usize = HEADER_LEN + 8;
pub(crate) const OFF_LAST_INSERT: usize = HEADER_LEN + 12;
pub(crate) const OFF_RUN: usize = HEADER_LEN + 14;
/// Bytes of a slot.
pub const SLOT_LEN: usize = 8;
/// Bytes of a record beside suffix and payload.
pub const RECORD_HEADER: usize = 2;
/// "No last insert" in the header's hint.
pub(crate) const NO_SLOT: u16 = u16::MAX;

/// Levels that a tree can have at most: with a fan-out of two or more, 2^32 pages do not fill more.
pub const LEVELS_MAX: u8 = 40;

/// Bytes of a page of `page_size` bytes that slots, records and the prefix share.
#[must_use]
pub const fn body_len(page_size: usize) -> usize {
    page_size - OFF_SLOTS
}

/// The most bytes that one leaf record (slot, header, key, payload) may take. Any two records fit
/// into one leaf, so every leaf can be split.
#[must_use]
pub const fn record_len_max(page_size: usize) -> usize {
    body_len(page_size) / 2
}

/// Longest payload that a leaf record with a key of `key_len` bytes may have, in bytes.
#[must_use]
pub const fn payload_len_max(page_size: usize, key_len: usize) -> usize {
    record_len_max(page_size) - SLOT_LEN - RECORD_HEADER - key_len
}

/// The first four bytes of a suffix as a big-endian number, padded with zeros.
#[inline]
pub(crate) fn head(suffix: &[u8]) -> u32 {
    match suffix.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..suffix.len()].copy_from_slice(suffix);
            u32::from_be_bytes(bytes)
        }
    }
}

/// A decoded slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub offset: usize,
    pub suffix_len: usize,
    pub head: u32,
}

impl Slot {
    #[inline]
    pub(crate) fn from_word(word: u64) -> Slot {
        Slot { offset: (word & 0xffff) as usize, suffix_len: (word >> 16 & 0xffff) as usize, head: (word >> 32) as u32 }
    }

    pub(crate) fn to_word(self) -> u64 {
        self.offset as u64 | (self.suffix_len as u64) << 16 | u64::from(self.head) << 32
    }
}

/// Where a record's parts lie in the page; within its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub suffix_at: usize,
    pub suffix_len: usize,
    pub payload_len: usize,
}

impl Record {
    pub(crate) fn payload_at(&self) -> usize {
        self.suffix_at + self.suffix_len
    }

    /// Offset of its first byte.
    pub(crate) fn begin(&self) -> usize {
        self.suffix_at - RECORD_HEADER
    }

    /// Offset of the byte behind it.
    pub(crate) fn end(&self) -> usize {
        self.payload_at() + self.payload_len
    }

    /// Bytes in the heap.
    pub(crate) fn len(&self) -> usize {
        RECORD_HEADER + self.suffix_len + self.payload_len
    }
}

/// Where a key is, or where it would be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// First slot whose key is not less than the key sought.
    pub slot: usize,
    /// True if that slot's key equals it.
    pub exact: bool,
}

/// Read access to a node. All methods answer `None` for bytes that no node can hold.
#[derive(Debug)]
pub struct NodeRef<'p, P: PageRead + ?Sized> {
    page: &'p P,
}

impl<P: PageRead + ?Sized> Clone for NodeRef<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: PageRead + ?Sized> Copy for NodeRef<'_, P> {}

impl<'p, P: PageRead + ?Sized> NodeRef<'p, P> {
    /// `page` as a node of `index`; `None` if its header says something else.
    #[inline]
    pub fn new(page: &'p P, index: IndexId) -> Option<NodeRef<'p, P>> {
        (page.u8(OFF_TYPE)? == PageType::Tree as u8 && page.u32(OFF_INDEX)? == index.0).then_some(NodeRef { page })
    }

    /// `page` as a node, whatever its header says.
    #[inline]
    pub fn assume(page: &'p P) -> NodeRef<'p, P> {
        NodeRef { page }
    }

    /// 0 for a leaf.
    #[inline]
    pub fn level(&self) -> Option<u8> {
        self.page.u8(OFF_LEVEL).filter(|&level| level < LEVELS_MAX)
    }

    /// True if this is a leaf.
    #[inline]
    pub fn is_leaf(&self) -> Option<bool> {
        Some(self.level()? == 0)
    }

    /// Number of slots; they all lie within the page.
    #[inline]
    pub fn count(&self) -> Option<usize> {
        let count = usize::from(self.page.u16(OFF_COUNT)?);
        (OFF_SLOTS + count * SLOT_LEN <= self.page.page_len()).then_some(count)
    }

    /// Bytes of the prefix; it lies within the page.
    #[inline]
    pub fn prefix_len(&self) -> Option<usize> {
        let len = usize::from(self.page.u16(OFF_PREFIX_LEN)?);
        (OFF_SLOTS + len <= self.page.page_len()).then_some(len)
    }

    /// Offset of the prefix.
    #[inline]
    pub(crate) fn prefix_at(&self) -> Option<usize> {
        Some(self.page.page_len() - self.prefix_len()?)
    }

    /// Offset of the lowest record byte.
    pub(crate) fn heap(&self) -> Option<usize> {
        let heap = self.page.u32(OFF_HEAP)? as usize;
        (heap >= OFF_SLOTS + self.count()? * SLOT_LEN && heap <= self.prefix_at()?).then_some(heap)
    }

    /// Bytes that slots, records and the prefix share.
    pub(crate) fn body_len(&self) -> usize {
        body_len(self.page.page_len())
    }

    /// Bytes that inserts can take, a compaction included.
    pub fn free_space(&self) -> Option<usize> {
        let garbage = self.page.u32(OFF_GARBAGE)? as usize;
        let heap = self.heap()?;
        (garbage <= self.prefix_at()? - heap).then_some(heap - OFF_SLOTS - self.count()? * SLOT_LEN + garbage)
    }

    /// Bytes that slots, live records and the prefix take.
    pub fn used_space(&self) -> Option<usize> {
        self.body_len().checked_sub(self.free_space()?)
    }

    /// Bytes that slots, live records and the prefix take, added up.
    pub(crate) fn live_space(&self) -> Option<usize> {
        (0..self.count()?).try_fold(self.prefix_len()?, |sum, i| Some(sum + self.entry_len(i)?))
    }

    #[inline]
    pub(crate) fn slot(&self, i: usize) -> Option<Slot> {
        self.page.u64(OFF_SLOTS + i * SLOT_LEN).map(Slot::from_word)
    }

    #[inline]
    pub(crate) fn record(&self, i: usize) -> Option<Record> {
        let slot = self.slot(i)?;
        let payload_len = usize::from(self.page.u16(slot.offset)?);
        let suffix_at = slot.offset + RECORD_HEADER;
        let end = suffix_at + slot.suffix_len + payload_len;
        (slot.offset >= OFF_SLOTS && end <= self.page.page_len()).then_some(Record {
            suffix_at,
            suffix_len: slot.suffix_len,
            payload_len,
        })
    }

    /// The first slot whose key is not less than `key`. For leaves.
    #[inline]
    pub fn search(&self, key: &[u8]) -> Option<Found> {
        self.search_from(0, key)
    }

    fn search_from(&self, first: usize, key: &[u8]) -> Option<Found> {
        let count = self.count()?;
        let prefix_len = self.prefix_len()?;
        let mut rest = key;
        if prefix_len > 0 {
            let (front, back) = key.split_at(prefix_len.min(key.len()));
            match self.page.compare(self.page.page_len() - prefix_len, prefix_len, front)? {
                Ordering::Less => return Some(Found { slot: count.max(first), exact: false }),
                Ordering::Greater => return Some(Found { slot: first, exact: false }),
                Ordering::Equal => rest = back,
            }
        }
        let wanted = head(rest);
        // First by heads alone. Only slots with the head of the key need a comparison of suffixes:
        // in most nodes that is one slot at most.
        let (at, len) = (OFF_SLOTS + first * SLOT_LEN, count.saturating_sub(first));
        let mut low = first + self.page.count_below(at, len, wanted)?;
        if low >= count {
            return Some(Found { slot: low, exact: false });
        }
        let slot = self.slot(low)?;
        if slot.head != wanted {
            return Some(Found { slot: low, exact: false });
        }
        match self.compare_tail(&slot, rest)? {
            Ordering::Less => low += 1,
            order => return Some(Found { slot: low, exact: order == Ordering::Equal }),
        }
        let mut high = match wanted.checked_add(1) {
            Some(next) => first + self.page.count_below(at, len, next)?,
            None => count,
        };
        while low < high {
            let mid = (low + high) / 2;
            match self.compare_tail(&self.slot(mid)?, rest)? {
                Ordering::Less => low = mid + 1,
                Ordering::Greater => high = mid,
                Ordering::Equal => return Some(Found { slot: mid, exact: true }),
            }
        }
        Some(Found { slot: low, exact: false })
    }

    /// Compares a suffix whose head equals that of `rest`.
    #[inline]
    fn compare_tail(&self, slot: &Slot, rest: &[u8]) -> Option<Ordering> {
        const HEAD: usize = 4;
        let Some(rest) = rest.get(HEAD..).filter(|_| slot.suffix_len > HEAD) else {
            // Padded heads are equal: the padding of the shorter one equals zeros of the other, so
            // lengths decide.
            return Some(slot.suffix_len.cmp(&rest.len()));
        };
        if slot.offset < OFF_SLOTS {
            return None;
        }
        self.page.compare(slot.offset + RECORD_HEADER + HEAD, slot.suffix_len - HEAD, rest)
    }

    /// The slot of the child whose range holds `key`. For inner nodes.
    #[inline]
    pub fn child_slot(&self, key: &[u8]) -> Option<usize> {
        if self.count()? == 0 {
            return None;
        }
        let found = self.search_from(1, key)?;
        Some(if found.exact { found.slot } else { found.slot - 1 })
    }

    /// The slot of the child with the greatest key less than `key`, if the tree has one. For inner
    /// nodes.
    pub fn child_slot_before(&self, key: &[u8]) -> Option<usize> {
        if self.count()? == 0 {
            return None;
        }
        Some(self.search_from(1, key)?.slot - 1)
    }

    /// The child page in slot `i` of an inner node.
    #[inline]
    pub fn child(&self, i: usize) -> Option<PageNo> {
        let record = self.record(i)?;
        let no = self.page.u32(record.payload_at())?;
        (record.payload_len == 4 && no != 0).then_some(PageNo(no))
    }

    /// True if slot `i` has a key: all but slot 0 of an inner node.
    fn has_key(&self, i: usize) -> Option<bool> {
        Some(i > 0 || self.is_leaf()?)
    }

    /// Replaces `out` by the key of slot `i` (empty for slot 0 of an inner node).
    pub fn key_to(&self, i: usize, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        if !self.has_key(i)? {
            return Some(());
        }
        let prefix_len = self.prefix_len()?;
        if prefix_len > 0 {
            self.page.copy_to(self.page.page_len() - prefix_len, prefix_len, out)?;
        }
        let record = self.record(i)?;
        self.page.copy_to(record.suffix_at, record.suffix_len, out)
    }

    /// Appends key and payload of slot `i` of a leaf to `out`. Returns the offset of the payload in
    /// it.
    #[inline]
    pub(crate) fn entry_to(&self, i: usize, out: &mut Vec<u8>) -> Option<usize> {
        let prefix_len = self.prefix_len()?;
        if prefix_len > 0 {
            self.page.copy_to(self.page.page_len() - prefix_len, prefix_len, out)?;
        }
        // Suffix and payload lie one behind the other.
        let record = self.record(i)?;
        self.page.copy_to(record.suffix_at, record.suffix_len + record.payload_len, out)?;
        Some(out.len() - record.payload_len)
    }

    /// The entry in slot `i`, of about `len` bytes, is going to be read soon.
    #[inline]
    pub(crate) fn expect_entry(&self, i: usize, len: usize) {
        if let Some(slot) = self.slot(i) {
            self.page.expect(slot.offset, len);
        }
    }

    /// Replaces `out` by the payload of slot `i`.
    #[inline]
    pub fn payload_to(&self, i: usize, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let record = self.record(i)?;
        self.page.copy_to(record.payload_at(), record.payload_len, out)
    }

    /// True if slot `i` is there and has this key.
    pub(crate) fn is_key(&self, i: usize, key: &[u8]) -> Option<bool> {
        if i >= self.count()? {
            return Some(false);
        }
        let (prefix_len, record) = (self.prefix_len()?, self.record(i)?);
        let Some((front, back)) = key.split_at_checked(prefix_len) else { return Some(false) };
        Some(
            self.page.compare(self.page.page_len() - prefix_len, prefix_len, front)? == Ordering::Equal
                && self.page.compare(record.suffix_at, record.suffix_len, back)? == Ordering::Equal,
        )
    }

    /// Bytes that slot `i` and its record take.
    pub fn entry_len(&self, i: usize) -> Option<usize> {
        Some(SLOT_LEN + self.record(i)?.len())
    }

    /// Hints about the recent inserts: (slot of the last one, run length; negative: descending).
    pub(crate) fn insert_hints(&self) -> Option<(u16, i16)> {
        Some((self.page.u16(OFF_LAST_INSERT)?, self.page.u16(OFF_RUN)? as i16))
    }
}

impl<'p> NodeRef<'p, [u8]> {
    /// The prefix.
    pub fn prefix(&self) -> Option<&'p [u8]> {
        self.page.get(self.prefix_at()?..)
    }

    /// The suffix in slot `i`.
    pub fn suffix(&self, i: usize) -> Option<&'p [u8]> {
        let record = self.record(i)?;
        self.page.get(record.suffix_at..record.suffix_at + record.suffix_len)
    }

    /// The payload in slot `i`.
    pub fn payload(&self, i: usize) -> Option<&'p [u8]> {
        let record = self.record(i)?;
        self.page.get(record.payload_at()..record.payload_at() + record.payload_len)
    }

    /// The key of slot `i`.
    pub fn key(&self, i: usize) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        self.key_to(i, &mut key)?;
        Some(key)
    }

    /// Checks every part of the node: header, bounds of slots, strictly ascending keys, heads, free
    /// space, and that no record lies over another one. Returns what is wrong.
    ///
    /// # Errors
    /// A message for people.
    pub fn check(&self) -> Result<(), String> {
        let bad = |what: &str| what.to_string();
        let count = self.count().ok_or_else(|| bad("more slots than the page holds"))?;
        let leaf = self.is_leaf().ok_or_else(|| bad("level out of range"))?;
        let prefix_at = self.prefix_at().ok_or_else(|| bad("prefix longer than the page"))?;
        let heap = self.heap().ok_or_else(|| bad("heap start out of range"))?;
        let free = self.free_space().ok_or_else(|| bad("more garbage than heap"))?;
        if !leaf && count == 0 {
            return Err(bad("an inner node without children"));
        }
        let (mut live, mut extents) = (0, Vec::with_capacity(count));
        let mut last: Option<&[u8]> = None;
        for i in 0..count {
            let record = self.record(i).ok_or_else(|| format!("slot {i} points outside the page"))?;
            let (begin, end) = (record.begin(), record.end());
            if begin < heap || end > prefix_at {
                return Err(format!("the record of slot {i} lies outside the heap"));
            }
            extents.push((begin, end, i));
            live += SLOT_LEN + record.len();
            let suffix = self.suffix(i).ok_or_else(|| format!("slot {i} points outside the page"))?;
            if self.slot(i).map(|s| s.head) != Some(head(suffix)) {
                return Err(format!("the head of slot {i} differs from its key"));
            }
            if !leaf && self.child(i).is_none() {
                return Err(format!("slot {i} of an inner node has no child"));
            }
            if !leaf && i == 0 {
                if !suffix.is_empty() {
                    return Err(bad("slot 0 of an inner node has a key"));
                }
                continue;
            }
            if last.is_some_and(|last| last >= suffix) {
                return Err(format!("the key of slot {i} is not greater than the one before"));
            }
            last = Some(suffix);
        }
        if live + (self.page.page_len() - prefix_at) + free != self.body_len() {
            return Err(format!("{live} live bytes and {free} free ones do not add up to the page"));
        }
        if let Some((one, other)) = overlap(extents) {
            return Err(format!("the records of the slots {one} and {other} lie over each other"));
        }
        Ok(())
    }

    /// True if all records lie in the heap, and none over another one.
    pub(crate) fn records_lie_apart(&self) -> bool {
        let (Some(heap), Some(prefix_at), Some(count)) = (self.heap(), self.prefix_at(), self.count()) else {
            return false;
        };
        let extent = |i| self.record(i).map(|r| (r.begin(), r.end(), i)).filter(|r| r.0 >= heap && r.1 <= prefix_at);
        (0..count).map(extent).collect::<Option<Vec<_>>>().is_some_and(|extents| overlap(extents).is_none())
    }

    /// True if no record reaches below the heap, and that of slot `changed`, if one is named, lies
    /// apart from all others.
    pub(crate) fn lies_apart(&self, changed: Option<usize>) -> bool {
        let (Some(heap), Some(prefix_at), Some(count)) = (self.heap(), self.prefix_at(), self.count()) else {
            return false;
        };
        let own = changed.and_then(|slot| self.record(slot));
        let is_clear = |record: &Record| {
            own.is_none_or(|own| own.end() <= prefix_at && (record.end() <= own.begin() || record.begin() >= own.end()))
        };
        own.is_some() == changed.is_some()
            && (0..count)
                .all(|i| self.record(i).is_some_and(|r| r.begin() >= heap && (Some(i) == changed || is_clear(&r))))
    }
}

/// Two slots whose records, given as (begin, end, slot), lie over each other.
fn overlap(mut extents: Vec<(usize, usize, usize)>) -> Option<(usize, usize)> {
    extents.sort_unstable_by_key(|extent| extent.0);
    extents.windows(2).find(|pair| pair[0].1 > pair[1].0).map(|pair| (pair[0].2, pair[1].2))
}
