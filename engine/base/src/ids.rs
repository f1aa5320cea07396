//! Types for identifiers, so that a page number is never taken for a frame number.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A space: one file of pages. 32 bits, never reused within a database.
    SpaceId(u32), "space "
}
id! {
    /// A page's position in its space, in pages. Page 0 is the space header.
    PageNo(u32), "page "
}
id! {
    /// A slot of the buffer pool.
    FrameId(u32), "frame "
}
id! {
    /// An index (a B+tree), unique within a database, never reused.
    IndexId(u32), "index "
}
id! {
    /// Log sequence number: a byte offset in the endless log stream. Never reset.
    Lsn(u64), "lsn "
}
id! {
    /// A write transaction. Grows monotonically over the life of a database; 0 means "before all
    /// transactions".
    TxnId(u64), "txn "
}
id! {
    /// The position of a commit in the order of commits. A read view is one such number.
    CommitNo(u64), "commit "
}

impl SpaceId {
    /// Returns the name of a space's file in the database directory: catalog and version tree, undo
    /// logs, a table.
    #[must_use]
    pub fn file_name(self) -> String {
        match self.0 {
            0 => "system.hf".into(),
            1 => "undo.hf".into(),
            table => format!("t{table}.hf"),
        }
    }
}

impl Lsn {
    /// Greater than every LSN that can occur.
    pub const MAX: Lsn = Lsn(u64::MAX);

    /// This LSN moved forward by `bytes`.
    #[must_use]
    pub fn advance(self, bytes: u64) -> Lsn {
        Lsn(self.0 + bytes)
    }

    /// Bytes from `earlier` to `self`; 0 if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl PageNo {
    /// No page: the value of a link that leads nowhere. (Page 0 is a space header, so no link leads
    /// to it.)
    pub const NONE: PageNo = PageNo(0);
}

impl TxnId {
    /// The owner of rows that every reader may see.
    pub const NONE: TxnId = TxnId(0);
}

/// A page of a space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PageId {
    /// The file.
    pub space: SpaceId,
    /// The position in it.
    pub no: PageNo,
}

impl PageId {
    /// Page `no` of `space`.
    #[must_use]
    pub fn new(space: SpaceId, no: PageNo) -> PageId {
        PageId { space, no }
    }

    /// Both halves in one word, space in the upper one.
    #[must_use]
    pub fn to_u64(self) -> u64 {
        u64::from(self.space.0) << 32 | u64::from(self.no.0)
    }

    /// The inverse of [`PageId::to_u64`].
    #[must_use]
    pub fn from_u64(word: u64) -> PageId {
        PageId { space: SpaceId((word >> 32) as u32), no: PageNo(word as u32) }
    }
}

impl fmt::Debug for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}:{}", self.space.0, self.no.0)
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.space.0, self.no.0)
    }
}

/// The position of an undo record: a page of the undo space and the record's byte offset in it, in
/// one word.
///
/// Stored in every row beside its [`TxnId`]. A reader must compare the page's owner with that
/// transaction before it uses the record: purge frees undo pages without visiting the rows that
/// point to them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct RollPtr(pub u64);

impl RollPtr {
    /// The row has no earlier version.
    pub const NONE: RollPtr = RollPtr(0);

    /// Points to `offset` (below 2^32) in page `no` of the undo space.
    #[must_use]
    pub fn new(no: PageNo, offset: u32) -> RollPtr {
        RollPtr(u64::from(no.0) << 32 | u64::from(offset))
    }

    /// The undo page.
    #[must_use]
    pub fn page(self) -> PageNo {
        PageNo((self.0 >> 32) as u32)
    }

    /// The byte offset in the undo page.
    #[must_use]
    pub fn offset(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }

    /// True if there is no earlier version.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for RollPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() { write!(f, "no undo") } else { write!(f, "undo {}+{}", self.page().0, self.offset()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let id = PageId::new(SpaceId(7), PageNo(u32::MAX));
        assert_eq!(PageId::from_u64(id.to_u64()), id);
        let ptr = RollPtr::new(PageNo(u32::MAX), 65_535);
        assert_eq!((ptr.page(), ptr.offset()), (PageNo(u32::MAX), 65_535));
    }
}
