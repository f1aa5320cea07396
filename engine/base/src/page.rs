//! The header that every page on disk starts with.
//!
//! ```text
//! offset size
//!  0     4   checksum: CRC-32C of bytes 4..page_size
//!  4     4   space id        } the page's own address, by which a reader notices
//!  8     4   page number     } a write that went astray
//! 12     1   page type
//! 13     1   level (B+tree: 0 is a leaf)
//! 14     2   flags
//! 16     8   page LSN: end of the last mini-transaction that changed the page
//! 24     4   index id (B+tree, overflow) or 0
//! 28     4   key version  }
//! 32    16   IV           } reserved for encryption, zero today
//! 48    16   tag          }
//! 64         body
//! ```
//!
//! A page of zeros is a page that was never written: valid, of type [`PageType::Free`], at LSN 0. A
//! page of type [`TYPE_FORSAKEN`] lacks changes that the log no longer contains: recovery found
//! that they do not fit the page. Every reader gets an error for it.

use crate::codec::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::{Error, IndexId, Lsn, PageId, PageNo, Result, SpaceId, checksum};

/// Bytes of the header; the body starts here.
pub const HEADER_LEN: usize = 64;

/// Offset of the checksum.
pub const OFF_CHECKSUM: usize = 0;
/// Offset of the space id.
pub const OFF_SPACE: usize = 4;
/// Offset of the page number.
pub const OFF_PAGE_NO: usize = 8;
/// Offset of the page type.
pub const OFF_TYPE: usize = 12;
/// Offset of the level.
pub const OFF_LEVEL: usize = 13;
/// Offset of the flags.
pub const OFF_FLAGS: usize = 14;
/// Offset of the page LSN.
pub const OFF_LSN: usize = 16;
/// Offset of the index id.
pub const OFF_INDEX: usize = 24;

/// The value in place of a page type for a page to which recovery could not apply the log. Its
/// other bytes stay as they were. It is no [`PageType`], so the page counts as damaged until it is
/// initialised again.
pub const TYPE_FORSAKEN: u8 = 0xff;

/// The use of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageType {
    /// Never written, or freed.
    Free = 0,
    /// Page 0 of a space: magic, database UUID, feature bits.
    SpaceHeader = 1,
    /// Allocation bitmap.
    Allocation = 2,
    /// A node of a B+tree (level 0: leaf).
    Tree = 3,
    /// A part of a large value.
    Overflow = 4,
    /// A page of an undo log.
    Undo = 5,
    /// The directory of undo logs.
    UndoDirectory = 6,
}

impl PageType {
    /// All types, for listings by page kind.
    pub const ALL: [PageType; 7] = [
        PageType::Free,
        PageType::SpaceHeader,
        PageType::Allocation,
        PageType::Tree,
        PageType::Overflow,
        PageType::Undo,
        PageType::UndoDirectory,
    ];

    /// The type stored as `byte`, or `None`.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<PageType> {
        PageType::ALL.get(usize::from(byte)).copied()
    }

    /// Lower-case name for listings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PageType::Free => "free",
            PageType::SpaceHeader => "space header",
            PageType::Allocation => "allocation",
            PageType::Tree => "tree",
            PageType::Overflow => "overflow",
            PageType::Undo => "undo",
            PageType::UndoDirectory => "undo directory",
        }
    }
}

/// The decoded header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The page's own address.
    pub id: PageId,
    /// The use of the page.
    pub page_type: PageType,
    /// 0 for a leaf.
    pub level: u8,
    /// Bits whose meaning depends on the type.
    pub flags: u16,
    /// End of the last mini-transaction that changed the page.
    pub lsn: Lsn,
    /// The index that owns it, or 0.
    pub index: IndexId,
}

impl PageHeader {
    /// Decodes the header of `page`, or `None` if the type is unknown or the slice too short.
    #[must_use]
    pub fn decode(page: &[u8]) -> Option<PageHeader> {
        Some(PageHeader {
            id: PageId::new(SpaceId(get_u32(page, OFF_SPACE)?), PageNo(get_u32(page, OFF_PAGE_NO)?)),
            page_type: PageType::from_u8(*page.get(OFF_TYPE)?)?,
            level: *page.get(OFF_LEVEL)?,
            flags: get_u16(page, OFF_FLAGS)?,
            lsn: Lsn(get_u64(page, OFF_LSN)?),
            index: IndexId(get_u32(page, OFF_INDEX)?),
        })
    }

    /// Writes all fields but the checksum into `page`.
    ///
    /// # Panics
    /// If `page` is shorter than [`HEADER_LEN`].
    pub fn encode(&self, page: &mut [u8]) {
        put_u32(page, OFF_SPACE, self.id.space.0);
        put_u32(page, OFF_PAGE_NO, self.id.no.0);
        page[OFF_TYPE] = self.page_type as u8;
        page[OFF_LEVEL] = self.level;
        put_u16(page, OFF_FLAGS, self.flags);
        put_u64(page, OFF_LSN, self.lsn.0);
        put_u32(page, OFF_INDEX, self.index.0);
    }
}

/// The page LSN of `page`, a whole page.
///
/// # Panics
/// If `page` is shorter than [`HEADER_LEN`].
#[must_use]
pub fn lsn(page: &[u8]) -> Lsn {
    Lsn(get_u64(page, OFF_LSN).expect("a page has a header"))
}

/// Sets the page LSN.
///
/// # Panics
/// If `page` is shorter than [`HEADER_LEN`].
pub fn set_lsn(page: &mut [u8], lsn: Lsn) {
    put_u64(page, OFF_LSN, lsn.0);
}

/// Computes and stores the checksum. The last change of a page image before it is written.
///
/// # Panics
/// If `page` is shorter than [`HEADER_LEN`].
pub fn seal(page: &mut [u8]) {
    let crc = checksum(&page[4..]);
    put_u32(page, OFF_CHECKSUM, crc);
}

/// True if `page` consists of zeros: never written.
#[must_use]
pub fn is_blank(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0) && rest.iter().all(|&b| b == 0)
}

/// Checks that `page`, as read from disk at `id`, is what was written there: checksum, address,
/// known type. Returns its header; a blank page is fine and has type [`PageType::Free`].
///
/// # Errors
/// [`Error::DamagedPage`] with what does not fit.
pub fn check(page: &[u8], id: PageId) -> Result<PageHeader> {
    let stored = get_u32(page, OFF_CHECKSUM).unwrap_or(0);
    let computed = checksum(page.get(4..).unwrap_or(&[]));
    if stored != computed {
        if is_blank(page) {
            let (page_type, level, flags, lsn, index) = (PageType::Free, 0, 0, Lsn(0), IndexId(0));
            return Ok(PageHeader { id, page_type, level, flags, lsn, index });
        }
        if !crate::planted!("checksum-not-compared") {
            return Err(Error::damaged_page(id, format!("checksum {computed:08x}, but {stored:08x} was stored")));
        }
    }
    let header = PageHeader::decode(page).ok_or_else(|| {
        let forsaken = page.get(OFF_TYPE) == Some(&TYPE_FORSAKEN);
        Error::damaged_page(
            id,
            if forsaken { "it did not fit the log when that was applied" } else { "unknown page type" },
        )
    })?;
    if header.id != id {
        return Err(Error::damaged_page(id, format!("it holds the bytes of page {}", header.id)));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(id: PageId) -> Vec<u8> {
        let mut page = vec![0; 4096];
        let header = PageHeader { id, page_type: PageType::Tree, level: 2, flags: 9, lsn: Lsn(77), index: IndexId(5) };
        header.encode(&mut page);
        page[4000] = 1;
        seal(&mut page);
        assert_eq!(check(&page, id).unwrap(), header);
        page
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let id = PageId::new(SpaceId(3), PageNo(4));
        let good = page(id);
        for byte in (0..4096).step_by(13).chain(0..HEADER_LEN) {
            let mut bad = good.clone();
            bad[byte] ^= 1 << (byte % 8);
            assert!(check(&bad, id).is_err(), "bit {} of byte {byte}", byte % 8);
        }
    }

    #[test]
    fn a_page_in_the_wrong_place_is_noticed() {
        let id = PageId::new(SpaceId(3), PageNo(4));
        let elsewhere = PageId::new(SpaceId(3), PageNo(5));
        let err = check(&page(id), elsewhere).unwrap_err();
        assert!(err.to_string().contains("it holds the bytes of page 3:4"), "{err}");
    }

    #[test]
    fn a_page_that_did_not_fit_the_log_stays_damaged() {
        let id = PageId::new(SpaceId(3), PageNo(4));
        let mut page = page(id);
        page[OFF_TYPE] = TYPE_FORSAKEN;
        seal(&mut page);
        let err = check(&page, id).unwrap_err();
        assert!(err.is_damage() && err.to_string().contains("did not fit the log"), "{err}");
    }

    #[test]
    fn a_blank_page_is_free() {
        let id = PageId::new(SpaceId(3), PageNo(4));
        assert_eq!(check(&[0; 4096], id).unwrap().page_type, PageType::Free);
    }
}
