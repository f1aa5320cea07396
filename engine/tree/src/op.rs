//! Page operations: the one way in which pages change, in normal operation and in redo ("redo is
//! do").
//!
//! A mini-transaction's log payload is a sequence of records:
//!
//! ```text
//! kind u8         bit 7: same page as the record before
//! space varint    } absent if bit 7 is set
//! page varint     }
//! fields of the operation
//! ```
//!
//! Operations are physiological: they name a page, and slots in it rather than bytes. Decoding is
//! total: any bytes give an operation or `None`. [`PageOp::check`] says whether an operation can be
//! applied to a page, and changes nothing. [`PageOp::apply`] checks and then changes the page; it
//! depends on nothing but the page and the operation.

use holdfast_base::codec::{Reader, Writer, put_u16, put_u32};
use holdfast_base::page::{HEADER_LEN, OFF_FLAGS, OFF_INDEX, OFF_LEVEL, OFF_PAGE_NO, OFF_SPACE, OFF_TYPE, PageType};
use holdfast_base::{Error, IndexId, PageId, PageNo, Result, SpaceId};
use holdfast_pool::ExclusiveGuard;

use crate::node::{EntryList, LEVELS_MAX, NodeMut, NodeRef};
use crate::space::bitmap;

const SAME_PAGE: u8 = 0x80;

/// One change of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOp<'a> {
    /// Makes the page, whatever it was, an empty node.
    InitNode {
        /// The tree that owns it.
        index: IndexId,
        /// 0 for a leaf.
        level: u8,
    },
    /// Makes the page, whatever it was, a page of that type with a body of zeros.
    InitPage {
        /// Any type but [`PageType::Tree`].
        page_type: PageType,
        /// The index that owns it, or 0.
        index: IndexId,
    },
    /// Marks the page as given back; its body stays as it is.
    FreePage,
    /// Node: puts an entry before a slot.
    InsertAt {
        /// The slot that it takes.
        slot: u16,
        /// The key without the node's prefix.
        suffix: &'a [u8],
        /// The payload.
        payload: &'a [u8],
    },
    /// Node: takes an entry out.
    RemoveAt {
        /// Its slot.
        slot: u16,
    },
    /// Node: gives an entry another payload.
    ReplaceAt {
        /// Its slot.
        slot: u16,
        /// The new payload.
        payload: &'a [u8],
    },
    /// Node: overwrites a part of a payload.
    Patch {
        /// The entry's slot.
        slot: u16,
        /// Offset in the payload.
        offset: u16,
        /// The new bytes.
        bytes: &'a [u8],
    },
    /// Node: keeps the slots `from..to`, changes the prefix to the first `prefix_len` bytes that
    /// all of them share, and compacts.
    Rebuild {
        /// First slot that stays.
        from: u16,
        /// First slot behind them that goes.
        to: u16,
        /// Length of the new prefix.
        prefix_len: u16,
    },
    /// Node: replaces all entries and the prefix.
    SetContent {
        /// The new prefix.
        prefix: &'a [u8],
        /// Number of entries.
        count: u16,
        /// The entries, as [`crate::node::EntryList`] encodes them.
        entries: &'a [u8],
    },
    /// Allocation bitmap: marks pages, all free so far, as allocated.
    SetBits {
        /// The first bit, counted from the page's first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Allocation bitmap: marks pages, all allocated so far, as free.
    ClearBits {
        /// The first bit, counted from the page's first.
        first: u32,
        /// How many.
        count: u32,
    },
    /// Any page but a node or an allocation bitmap: overwrites bytes of the body.
    WriteBytes {
        /// Offset in the page, at least the length of the page header.
        offset: u16,
        /// The new bytes.
        bytes: &'a [u8],
    },
}

impl EntryList {
    /// The operation that gives a node `prefix` and these entries.
    #[must_use]
    pub fn as_content<'e>(&'e self, prefix: &'e [u8]) -> PageOp<'e> {
        PageOp::SetContent { prefix, count: self.count() as u16, entries: self.bytes() }
    }
}

impl<'a> PageOp<'a> {
    fn kind(&self) -> u8 {
        match self {
            PageOp::InitNode { .. } => 1,
            PageOp::InitPage { .. } => 2,
            PageOp::FreePage => 3,
            PageOp::InsertAt { .. } => 4,
            PageOp::RemoveAt { .. } => 5,
            PageOp::ReplaceAt { .. } => 6,
            PageOp::Patch { .. } => 7,
            PageOp::Rebuild { .. } => 8,
            PageOp::SetContent { .. } => 9,
            PageOp::SetBits { .. } => 10,
            PageOp::ClearBits { .. } => 11,
            PageOp::WriteBytes { .. } => 12,
        }
    }

    /// Appends the record of this operation on `page`. `last` is the page of the record before it
    /// in the same group.
    pub fn encode(&self, page: PageId, last: Option<PageId>, out: &mut Vec<u8>) {
        if last == Some(page) {
            out.u8(self.kind() | SAME_PAGE);
        } else {
            out.u8(self.kind());
            out.varint(u64::from(page.space.0));
            out.varint(u64::from(page.no.0));
        }
        match *self {
            PageOp::InitNode { index, level } => {
                out.varint(u64::from(index.0));
                out.u8(level);
            }
            PageOp::InitPage { page_type, index } => {
                out.u8(page_type as u8);
                out.varint(u64::from(index.0));
            }
            PageOp::FreePage => {}
            PageOp::InsertAt { slot, suffix, payload } => {
                out.varint(u64::from(slot));
                out.bytes_with_len(suffix);
                out.bytes_with_len(payload);
            }
            PageOp::RemoveAt { slot } => out.varint(u64::from(slot)),
            PageOp::ReplaceAt { slot, payload } => {
                out.varint(u64::from(slot));
                out.bytes_with_len(payload);
            }
            PageOp::Patch { slot, offset, bytes } => {
                out.varint(u64::from(slot));
                out.varint(u64::from(offset));
                out.bytes_with_len(bytes);
            }
            PageOp::Rebuild { from, to, prefix_len } => {
                out.varint(u64::from(from));
                out.varint(u64::from(to));
                out.varint(u64::from(prefix_len));
            }
            PageOp::SetContent { prefix, count, entries } => {
                out.bytes_with_len(prefix);
                out.varint(u64::from(count));
                out.bytes_with_len(entries);
            }
            PageOp::SetBits { first, count } | PageOp::ClearBits { first, count } => {
                out.varint(u64::from(first));
                out.varint(u64::from(count));
            }
            PageOp::WriteBytes { offset, bytes } => {
                out.varint(u64::from(offset));
                out.bytes_with_len(bytes);
            }
        }
    }

    /// Reads the next record: the page and the operation on it. `None`: these bytes are no record.
    pub fn decode(from: &mut Reader<'a>, last: Option<PageId>) -> Option<(PageId, PageOp<'a>)> {
        let byte = from.u8()?;
        let page = if byte & SAME_PAGE != 0 {
            last?
        } else {
            let space = SpaceId(from.varint()?.try_into().ok()?);
            PageId::new(space, PageNo(from.varint()?.try_into().ok()?))
        };
        Some((page, PageOp::decode_fields(byte & !SAME_PAGE, from)?))
    }

    fn decode_fields(kind: u8, from: &mut Reader<'a>) -> Option<PageOp<'a>> {
        let short = |from: &mut Reader<'a>| -> Option<u16> { from.varint()?.try_into().ok() };
        let long = |from: &mut Reader<'a>| -> Option<u32> { from.varint()?.try_into().ok() };
        Some(match kind {
            1 => PageOp::InitNode { index: IndexId(long(from)?), level: from.u8()? },
            2 => PageOp::InitPage { page_type: PageType::from_u8(from.u8()?)?, index: IndexId(long(from)?) },
            3 => PageOp::FreePage,
            4 => {
                PageOp::InsertAt { slot: short(from)?, suffix: from.bytes_with_len()?, payload: from.bytes_with_len()? }
            }
            5 => PageOp::RemoveAt { slot: short(from)? },
            6 => PageOp::ReplaceAt { slot: short(from)?, payload: from.bytes_with_len()? },
            7 => PageOp::Patch { slot: short(from)?, offset: short(from)?, bytes: from.bytes_with_len()? },
            8 => PageOp::Rebuild { from: short(from)?, to: short(from)?, prefix_len: short(from)? },
            9 => PageOp::SetContent {
                prefix: from.bytes_with_len()?,
                count: short(from)?,
                entries: from.bytes_with_len()?,
            },
            10 => PageOp::SetBits { first: long(from)?, count: long(from)? },
            11 => PageOp::ClearBits { first: long(from)?, count: long(from)? },
            12 => PageOp::WriteBytes { offset: short(from)?, bytes: from.bytes_with_len()? },
            _ => return None,
        })
    }

    /// True if the operation gives the page a content that does not depend on what was there.
    #[must_use]
    pub fn initialises(&self) -> bool {
        matches!(self, PageOp::InitNode { .. } | PageOp::InitPage { .. })
    }

    /// True if the operation can be applied to `page`.
    #[must_use]
    pub fn check(&self, page: &[u8]) -> bool {
        self.suits(page, false)
    }

    /// True if it can be applied, and a split would not be better for a node that it would crowd.
    #[must_use]
    pub fn is_welcome(&self, page: &[u8]) -> bool {
        self.suits(page, true)
    }

    fn suits(&self, page: &[u8], spares: bool) -> bool {
        let Some(page_type) = page.get(OFF_TYPE).copied().and_then(PageType::from_u8) else {
            return self.initialises() && page.len() > HEADER_LEN;
        };
        let len = page.len();
        let is_node = page_type == PageType::Tree;
        let is_bitmap = page_type == PageType::Allocation;
        let node = NodeRef::assume(page);
        match *self {
            PageOp::InitNode { level, .. } => level < LEVELS_MAX,
            PageOp::InitPage { page_type, .. } => page_type != PageType::Tree,
            PageOp::FreePage => true,
            PageOp::InsertAt { slot, suffix, payload } => {
                is_node && node.can_insert(slot.into(), suffix.len(), payload.len(), spares)
            }
            PageOp::RemoveAt { slot } => is_node && node.can_remove(slot.into()),
            PageOp::ReplaceAt { slot, payload } => is_node && node.can_replace(slot.into(), payload.len(), spares),
            PageOp::Patch { slot, offset, bytes } => is_node && node.can_patch(slot.into(), offset.into(), bytes.len()),
            PageOp::Rebuild { from, to, prefix_len } => {
                is_node && node.can_rebuild(from.into(), to.into(), prefix_len.into())
            }
            PageOp::SetContent { prefix, count, entries } => {
                is_node && node.can_set_content(prefix.len(), count.into(), entries)
            }
            PageOp::SetBits { first, count } => is_bitmap && bitmap::all_equal(page, first, count, false),
            PageOp::ClearBits { first, count } => is_bitmap && bitmap::all_equal(page, first, count, true),
            PageOp::WriteBytes { offset, bytes } => {
                let offset = usize::from(offset);
                !is_node && !is_bitmap && offset >= HEADER_LEN && offset + bytes.len() <= len
            }
        }
    }

    /// True if the operation, which can be applied to `page`, writes into no record but its own. A
    /// page is looked through once while it is in its frame: then its records are known to lie
    /// apart. In a damaged one the operation's record is compared with all others each time.
    pub(crate) fn spares_neighbours(&self, page: &ExclusiveGuard<'_>) -> bool {
        let changed = match *self {
            PageOp::InsertAt { .. } => None,
            PageOp::RemoveAt { slot } | PageOp::ReplaceAt { slot, .. } | PageOp::Patch { slot, .. } => {
                Some(slot.into())
            }
            _ => return true,
        };
        if page.is_examined() {
            return true;
        }
        let node = NodeRef::assume(page.bytes());
        if node.records_lie_apart() {
            page.note_examined();
            return true;
        }
        node.lies_apart(changed)
    }

    /// Applies the operation to `page`, whose address is `id`. Leaves LSN and checksum of the page
    /// as they are.
    ///
    /// # Errors
    /// [`Error::DamagedPage`] if it cannot be applied; the page is then as it was.
    pub fn apply(&self, id: PageId, page: &mut [u8]) -> Result<()> {
        if !self.check(page) {
            return Err(Error::damaged_page(id, format!("cannot apply {}", self.name())));
        }
        self.apply_checked(id, page);
        Ok(())
    }

    /// As [`PageOp::apply`], for a caller that has just checked.
    pub(crate) fn apply_checked(&self, id: PageId, page: &mut [u8]) {
        match *self {
            PageOp::InitNode { index, level } => {
                init_header(id, page, PageType::Tree, index, level);
                NodeMut::assume(page).clear();
            }
            PageOp::InitPage { page_type, index } => {
                init_header(id, page, page_type, index, 0);
                page[HEADER_LEN..].fill(0);
            }
            PageOp::FreePage => init_header(id, page, PageType::Free, IndexId(0), 0),
            PageOp::InsertAt { slot, suffix, payload } => {
                NodeMut::assume(page).insert(slot.into(), suffix, payload);
            }
            PageOp::RemoveAt { slot } => NodeMut::assume(page).remove(slot.into()),
            PageOp::ReplaceAt { slot, payload } => NodeMut::assume(page).replace(slot.into(), payload),
            PageOp::Patch { slot, offset, bytes } => NodeMut::assume(page).patch(slot.into(), offset.into(), bytes),
            PageOp::Rebuild { from, to, prefix_len } => {
                NodeMut::assume(page).rebuild(from.into(), to.into(), prefix_len.into());
            }
            PageOp::SetContent { prefix, count, entries } => {
                NodeMut::assume(page).set_content(prefix, count.into(), entries);
            }
            PageOp::SetBits { first, count } => bitmap::fill(page, first, count, true),
            PageOp::ClearBits { first, count } => bitmap::fill(page, first, count, false),
            PageOp::WriteBytes { offset, bytes } => {
                let offset = usize::from(offset);
                page[offset..offset + bytes.len()].copy_from_slice(bytes);
            }
        }
    }

    /// The operation's name, for messages and log dumps.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            PageOp::InitNode { .. } => "init node",
            PageOp::InitPage { .. } => "init page",
            PageOp::FreePage => "free page",
            PageOp::InsertAt { .. } => "insert",
            PageOp::RemoveAt { .. } => "remove",
            PageOp::ReplaceAt { .. } => "replace",
            PageOp::Patch { .. } => "patch",
            PageOp::Rebuild { .. } => "rebuild",
            PageOp::SetContent { .. } => "set content",
            PageOp::SetBits { .. } => "allocate",
            PageOp::ClearBits { .. } => "free",
            PageOp::WriteBytes { .. } => "write bytes",
        }
    }
}

/// All fields of the common header but checksum and LSN.
fn init_header(id: PageId, page: &mut [u8], page_type: PageType, index: IndexId, level: u8) {
    put_u32(page, OFF_SPACE, id.space.0);
    put_u32(page, OFF_PAGE_NO, id.no.0);
    page[OFF_TYPE] = page_type as u8;
    page[OFF_LEVEL] = level;
    put_u16(page, OFF_FLAGS, 0);
    put_u32(page, OFF_INDEX, index.0);
}
