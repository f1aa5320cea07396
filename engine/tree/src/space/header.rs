//! The header page of a space, page 0.
//!
//! ```text
//! offset size
//!   0    64   common page header (type SpaceHeader)
//!  64     8   magic "HOLDFAST"
//!  72    16   UUID of the database
//!  88     4   space id
//!  92     4   page size
//!  96     4   format version
//! 100     4   compatible features: a version that does not know one may still open the file
//! 104     4   incompatible features: it may not
//! 108     4   pages of the file
//! 112    16   reserved, zero
//! 128   128   16 marks of 64 bits, for the floors above
//! 256         reserved, zero
//! ```

use holdfast_base::codec::{get_u32, get_u64, put_u32, put_u64};
use holdfast_base::{Error, Lsn, Result, SpaceId};

/// First bytes of every space file's body.
pub const MAGIC: &[u8; 8] = b"HOLDFAST";
/// The format that this version writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Numbers kept for the floors above.
pub const HEADER_MARKS: usize = 16;

/// The mark that says, while it is not 0, that the file may be removed if nothing refers to it. A
/// new file has it. Code that stores a reference to the file clears it, and sets it again before it
/// removes the reference.
pub const MAY_GO: usize = HEADER_MARKS - 1;

/// The mark that says, while it is [`FILLING`], that what is in the file is a part of something
/// that is being made, and is to be thrown away if that is cut short. A file in which it is ever
/// set names the compatible feature [`FILLINGS`].
pub const STATE: usize = HEADER_MARKS - 2;
/// A value that no flipped bit makes of another one.
pub const FILLING: u64 = u64::from_le_bytes(*b"FILLING.");

/// The marks that say, if the second is the complement of the first, up to which log position what
/// was written to the file was thrown away: nodes of that age are no part of its trees.
pub const EMPTIED: usize = HEADER_MARKS - 4;

const OFF_MAGIC: usize = 64;
const OFF_UUID: usize = 72;
const OFF_SPACE: usize = 88;
const OFF_PAGE_SIZE: usize = 92;
const OFF_VERSION: usize = 96;
pub(crate) const OFF_COMPATIBLE: usize = 100;
pub(crate) const OFF_INCOMPATIBLE: usize = 104;
pub(crate) const OFF_PAGES: usize = 108;
pub(crate) const OFF_MARKS: usize = 128;
/// Where it ends.
pub(crate) const END: usize = OFF_MARKS + HEADER_MARKS * 8;

/// Feature bits of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// May be ignored by a version that does not know them.
    pub compatible: u32,
    /// Must be known to open the file.
    pub incompatible: u32,
}

/// Compatible feature: [`STATE`] has a meaning.
pub const FILLINGS: u32 = 1;
/// Incompatible feature: a large value may have a head in its entry, and several versions may share
/// a chain.
pub const HEADS: u32 = 1;
/// Incompatible features that this version knows.
const KNOWN_INCOMPATIBLE: u32 = HEADS;

/// The decoded header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceHeader {
    /// The database that the file belongs to.
    pub uuid: [u8; 16],
    /// Its number there.
    pub id: SpaceId,
    /// Bytes of a page.
    pub page_size: u32,
    /// Format version.
    pub version: u32,
    /// Feature bits.
    pub features: Features,
    /// Pages of the file.
    pub pages: u32,
    /// Numbers kept for the floors above.
    pub marks: [u64; HEADER_MARKS],
}

impl SpaceHeader {
    /// The header of a new file.
    #[must_use]
    pub fn new(id: SpaceId, uuid: [u8; 16], page_size: usize, pages: u32) -> SpaceHeader {
        SpaceHeader {
            uuid,
            id,
            page_size: page_size as u32,
            version: FORMAT_VERSION,
            features: Features::default(),
            pages,
            marks: [0; HEADER_MARKS],
        }
    }

    /// Decodes the header in `page`; `None` if the magic is missing.
    #[must_use]
    pub fn decode(page: &[u8]) -> Option<SpaceHeader> {
        if page.get(OFF_MAGIC..OFF_MAGIC + 8)? != MAGIC {
            return None;
        }
        let mut marks = [0; HEADER_MARKS];
        for (i, mark) in marks.iter_mut().enumerate() {
            *mark = get_u64(page, OFF_MARKS + i * 8)?;
        }
        Some(SpaceHeader {
            uuid: page.get(OFF_UUID..OFF_UUID + 16)?.try_into().ok()?,
            id: SpaceId(get_u32(page, OFF_SPACE)?),
            page_size: get_u32(page, OFF_PAGE_SIZE)?,
            version: get_u32(page, OFF_VERSION)?,
            features: Features {
                compatible: get_u32(page, OFF_COMPATIBLE)?,
                incompatible: get_u32(page, OFF_INCOMPATIBLE)?,
            },
            pages: get_u32(page, OFF_PAGES)?,
            marks,
        })
    }

    /// True if what is in the file is a part of something that is being made: see [`STATE`].
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.marks[STATE] == FILLING
    }

    /// Where in the log what the file held was thrown away last: see [`EMPTIED`]. The start of the
    /// log if it never was, or that cannot be told.
    #[must_use]
    pub fn emptied(&self) -> Lsn {
        Lsn(if self.marks[EMPTIED + 1] == !self.marks[EMPTIED] { self.marks[EMPTIED] } else { 0 })
    }

    /// Writes the header into `page`, behind the common page header.
    ///
    /// # Panics
    /// If `page` is shorter than a page.
    pub fn encode(&self, page: &mut [u8]) {
        page[OFF_MAGIC..OFF_MAGIC + 8].copy_from_slice(MAGIC);
        page[OFF_UUID..OFF_UUID + 16].copy_from_slice(&self.uuid);
        put_u32(page, OFF_SPACE, self.id.0);
        put_u32(page, OFF_PAGE_SIZE, self.page_size);
        put_u32(page, OFF_VERSION, self.version);
        put_u32(page, OFF_COMPATIBLE, self.features.compatible);
        put_u32(page, OFF_INCOMPATIBLE, self.features.incompatible);
        put_u32(page, OFF_PAGES, self.pages);
        for (i, mark) in self.marks.iter().enumerate() {
            put_u64(page, OFF_MARKS + i * 8, *mark);
        }
    }

    /// Checks that file `name` with this header is space `id` of database `uuid`, and readable by
    /// this version.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, name: &str, id: SpaceId, uuid: [u8; 16], page_size: usize) -> Result<()> {
        let unknown = self.features.incompatible & !KNOWN_INCOMPATIBLE;
        if self.version > FORMAT_VERSION || unknown != 0 {
            return Err(Error::Incompatible(format!(
                "{name} was written by a newer version of Holdfast (format {}, features {unknown:#x} unknown here); \
                 open it with that version",
                self.version
            )));
        }
        if self.uuid != uuid {
            return Err(Error::damaged_file(name, "it belongs to another database (its UUID differs)"));
        }
        if self.id != id {
            return Err(Error::damaged_file(name, format!("it is space {}, not space {id}", self.id)));
        }
        if self.page_size as usize != page_size {
            let what = format!("its pages have {} bytes, those of the database {page_size}", self.page_size);
            return Err(Error::damaged_file(name, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_round_trips() {
        let mut header = SpaceHeader::new(SpaceId(16), [7; 16], 4096, 8);
        header.marks[15] = u64::MAX;
        header.features.compatible = 1;
        let mut page = vec![0; 4096];
        header.encode(&mut page);
        assert_eq!(SpaceHeader::decode(&page), Some(header.clone()));
        header.check("t16.hf", SpaceId(16), [7; 16], 4096).unwrap();
        page[OFF_MAGIC] = 0;
        assert_eq!(SpaceHeader::decode(&page), None);
    }

    #[test]
    fn each_misfit_has_its_message() {
        let header = SpaceHeader::new(SpaceId(16), [7; 16], 4096, 8);
        let message = |r: Result<()>| r.unwrap_err().to_string();
        assert!(message(header.check("t", SpaceId(16), [8; 16], 4096)).contains("another database"));
        assert!(message(header.check("t", SpaceId(17), [7; 16], 4096)).contains("not space 17"));
        assert!(message(header.check("t", SpaceId(16), [7; 16], 8192)).contains("4096 bytes"));
        let mut newer = header.clone();
        newer.features.incompatible = 4;
        assert!(message(newer.check("t", SpaceId(16), [7; 16], 4096)).contains("newer version"));
        newer = SpaceHeader { version: 2, ..header };
        assert!(matches!(newer.check("t", SpaceId(16), [7; 16], 4096), Err(Error::Incompatible(_))));
    }
}
