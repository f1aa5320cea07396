//! The layout of undo pages and of the directory of undo logs. Reading is bounds-checked: the bytes
//! come from a disk.
//!
//! Undo page, behind the page header:
//! ```text
//! offset size
//!  64     8   owner: the transaction whose records these are (kept when the log is freed: it is
//!             the high-water mark)
//!  72     2   number of records
//!  74     2   end of the records
//!  76     1   1 first page of a log, 2 extension
//!  77     1   first page: state of the log: 0 free, 1 active, 2 prepared, 3 committed
//!  78     2   first page: length of the xid
//!  80     8   first page: commit number
//!  88     4   first page: the last page of the log (itself, if there is no extension)
//!  92     4   extension: the page before
//!  96   140   first page: xid;  extension: records begin here
//! 236         first page: records begin here
//! ...         records, one behind the other
//! end         record offsets, two bytes each, from the end of the page downwards
//! ```
//! A roll pointer names a record by page and number, not by byte, so that whatever it hits is a
//! record. A record ends where the next one begins: one whose fields end elsewhere is damaged.
//!
//! Directory page: 64 number of entries (4), 68 next directory page (4), 72 first pages of undo
//! logs (4 each). The last entry of the page takes the place of one that is removed.

use holdfast_base::codec::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};
use holdfast_base::{CommitNo, PageNo, TxnId};

pub(crate) const OFF_OWNER: usize = HEADER_LEN;
const OFF_COUNT: usize = 72;
const OFF_END: usize = 74;
const OFF_KIND: usize = 76;
pub(crate) const OFF_STATE: usize = 77;
const OFF_XID_LEN: usize = 78;
const OFF_COMMIT_NO: usize = 80;
const OFF_LAST: usize = 88;
const OFF_PREV: usize = 92;
const OFF_XID: usize = 96;
const BODY_EXTENSION: usize = 96;
const BODY_FIRST: usize = OFF_XID + XID_MAX;

/// Longest xid, in bytes: format id, two lengths, 64 bytes each of global and branch identifier,
/// and some.
pub const XID_MAX: usize = 140;

const KIND_FIRST: u8 = 1;
const KIND_EXTENSION: u8 = 2;

/// How an undo log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LogState {
    Free = 0,
    Active = 1,
    Prepared = 2,
    Committed = 3,
}

impl LogState {
    fn from_u8(byte: u8) -> Option<LogState> {
        [LogState::Free, LogState::Active, LogState::Prepared, LogState::Committed]
            .into_iter()
            .find(|s| *s as u8 == byte)
    }
}

/// A page that is known to be an undo page.
#[derive(Clone, Copy)]
pub(crate) struct UndoPage<'a>(&'a [u8]);

impl<'a> UndoPage<'a> {
    /// `None` if the page is of another type, or if what it says of its records does not fit into
    /// it: they begin behind the header, and where there are none, that is where they end.
    pub fn new(page: &'a [u8]) -> Option<UndoPage<'a>> {
        let undo = UndoPage(page);
        let is_undo = *page.get(OFF_TYPE)? == PageType::Undo as u8 && page.len() > BODY_FIRST;
        let end = usize::from(undo.end());
        let fits = end >= BODY_EXTENSION && end + 2 * usize::from(undo.count()) <= page.len();
        let first = if undo.count() == 0 { Some(undo.end()) } else { undo.offset(0) };
        (is_undo && fits && first == Some(body(undo.is_first()))).then_some(undo)
    }

    pub fn owner(self) -> TxnId {
        TxnId(get_u64(self.0, OFF_OWNER).unwrap_or(0))
    }

    pub fn count(self) -> u16 {
        get_u16(self.0, OFF_COUNT).unwrap_or(0)
    }

    pub fn end(self) -> u16 {
        get_u16(self.0, OFF_END).unwrap_or(0)
    }

    pub fn is_first(self) -> bool {
        self.0[OFF_KIND] == KIND_FIRST
    }

    pub fn state(self) -> Option<LogState> {
        LogState::from_u8(self.0[OFF_STATE])
    }

    pub fn commit_no(self) -> CommitNo {
        CommitNo(get_u64(self.0, OFF_COMMIT_NO).unwrap_or(0))
    }

    /// First page: state, commit number and xid, if they go together. A log has a number once it is
    /// committed and an xid while it is prepared; the number of one that is active is what the log
    /// before left.
    pub fn standing(self) -> Option<(LogState, CommitNo, &'a [u8])> {
        let (state, no, xid) = (self.state()?, self.commit_no(), self.xid()?);
        let numbered = match state {
            LogState::Active => true,
            LogState::Committed => no != CommitNo(0),
            LogState::Free | LogState::Prepared => no == CommitNo(0),
        };
        (numbered && (xid.is_empty() || state == LogState::Prepared)).then_some((state, no, xid))
    }

    pub fn last(self) -> PageNo {
        PageNo(get_u32(self.0, OFF_LAST).unwrap_or(0))
    }

    pub fn prev(self) -> PageNo {
        PageNo(get_u32(self.0, OFF_PREV).unwrap_or(0))
    }

    pub fn xid(self) -> Option<&'a [u8]> {
        let len = usize::from(get_u16(self.0, OFF_XID_LEN)?);
        if len > XID_MAX { None } else { self.0.get(OFF_XID..OFF_XID + len) }
    }

    /// Where record `slot` begins.
    pub fn offset(self, slot: u16) -> Option<u16> {
        if slot >= self.count() {
            return None;
        }
        let offset = get_u16(self.0, slot_offset(self.0.len(), slot))?;
        (usize::from(offset) >= BODY_EXTENSION && offset <= self.end()).then_some(offset)
    }

    /// All records of a first page.
    pub fn records(self) -> &'a [u8] {
        self.0.get(BODY_FIRST..usize::from(self.end())).unwrap_or_default()
    }

    /// The bytes of record `slot`: up to the next record, or to the end of the records.
    pub fn record(self, slot: u16) -> Option<&'a [u8]> {
        let next = slot.checked_add(1)?;
        let end = if next < self.count() { self.offset(next)? } else { self.end() };
        self.0.get(usize::from(self.offset(slot)?)..usize::from(end))
    }
}

/// Where the offset of record `slot` is stored.
pub(crate) fn slot_offset(page_size: usize, slot: u16) -> usize {
    page_size - 2 * (usize::from(slot) + 1)
}

/// Where records begin.
pub(crate) fn body(first: bool) -> u16 {
    if first { BODY_FIRST as u16 } else { BODY_EXTENSION as u16 }
}

/// Bytes of records and offsets that an extension page has room for.
pub(crate) fn capacity(page_size: usize) -> usize {
    page_size - BODY_EXTENSION
}

/// The fields `count` and `end`, to be written at the returned offset.
pub(crate) fn counters(count: u16, end: u16) -> (u16, [u8; 4]) {
    let mut bytes = [0; 4];
    put_u16(&mut bytes, 0, count);
    put_u16(&mut bytes, 2, end);
    (OFF_COUNT as u16, bytes)
}

/// The whole header of a page, from [`OFF_OWNER`] to the field `prev`.
pub(crate) fn header(owner: TxnId, first: bool, state: LogState, last: PageNo, prev: PageNo) -> [u8; 32] {
    let mut bytes = [0; OFF_XID - OFF_OWNER];
    put_u64(&mut bytes, 0, owner.0);
    put_u16(&mut bytes, OFF_END - OFF_OWNER, body(first));
    bytes[OFF_KIND - OFF_OWNER] = if first { KIND_FIRST } else { KIND_EXTENSION };
    bytes[OFF_STATE - OFF_OWNER] = state as u8;
    put_u32(&mut bytes, OFF_LAST - OFF_OWNER, last.0);
    put_u32(&mut bytes, OFF_PREV - OFF_OWNER, prev.0);
    bytes
}

/// The header of a first page up to the commit number, for a log that begins with `count` records
/// up to `end`. The rest of the header is what the log before left: the page is the log's only one,
/// and the commit number means nothing yet.
pub(crate) fn beginning(owner: TxnId, count: u16, end: u16) -> [u8; 16] {
    let mut bytes = [0; OFF_COMMIT_NO - OFF_OWNER];
    put_u64(&mut bytes, 0, owner.0);
    put_u16(&mut bytes, OFF_COUNT - OFF_OWNER, count);
    put_u16(&mut bytes, OFF_END - OFF_OWNER, end);
    bytes[OFF_KIND - OFF_OWNER] = KIND_FIRST;
    bytes[OFF_STATE - OFF_OWNER] = LogState::Active as u8;
    bytes
}

/// State, length of the xid and commit number, to be written at [`OFF_STATE`].
pub(crate) fn state(state: LogState, xid_len: usize, no: CommitNo) -> [u8; 11] {
    let mut bytes = [0; OFF_LAST - OFF_STATE];
    bytes[0] = state as u8;
    put_u16(&mut bytes, OFF_XID_LEN - OFF_STATE, xid_len as u16);
    put_u64(&mut bytes, OFF_COMMIT_NO - OFF_STATE, no.0);
    bytes
}

/// Where the xid is written.
pub(crate) const XID_AT: u16 = OFF_XID as u16;
/// Where the number of the last page is written.
pub(crate) const LAST_AT: u16 = OFF_LAST as u16;

/// A directory page.
pub(crate) struct Directory<'a>(&'a [u8]);

const DIR_COUNT: usize = HEADER_LEN;
const DIR_NEXT: usize = HEADER_LEN + 4;
const DIR_ENTRIES: usize = HEADER_LEN + 8;

impl<'a> Directory<'a> {
    pub fn new(page: &'a [u8]) -> Option<Directory<'a>> {
        let directory = Directory(page);
        let fits = *page.get(OFF_TYPE)? == PageType::UndoDirectory as u8
            && directory.count() <= Directory::capacity(page.len());
        fits.then_some(directory)
    }

    pub fn capacity(page_size: usize) -> usize {
        (page_size - DIR_ENTRIES) / 4
    }

    pub fn count(&self) -> usize {
        get_u32(self.0, DIR_COUNT).unwrap_or(0) as usize
    }

    pub fn next(&self) -> PageNo {
        PageNo(get_u32(self.0, DIR_NEXT).unwrap_or(0))
    }

    pub fn entries(&self) -> impl Iterator<Item = PageNo> + '_ {
        (0..self.count()).filter_map(|i| get_u32(self.0, DIR_ENTRIES + 4 * i)).map(PageNo)
    }

    /// The writes that make `log` entry number `at`, of `count`: the new last one, or the last one
    /// in the place of one that is removed.
    pub fn set(at: usize, log: PageNo, count: usize) -> [(u16, [u8; 4]); 2] {
        let entry = (DIR_ENTRIES + 4 * at) as u16;
        [(entry, log.0.to_le_bytes()), (DIR_COUNT as u16, (count as u32).to_le_bytes())]
    }

    /// The write that links to `page`.
    pub fn link(page: PageNo) -> (u16, [u8; 4]) {
        (DIR_NEXT as u16, page.0.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_with(bytes: &[u8]) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[OFF_TYPE] = PageType::Undo as u8;
        page[OFF_OWNER..OFF_OWNER + bytes.len()].copy_from_slice(bytes);
        page
    }

    #[test]
    fn headers_read_as_written() {
        let mut page = page_with(&header(TxnId(9), true, LogState::Active, PageNo(7), PageNo(0)));
        let new = state(LogState::Committed, 3, CommitNo(55));
        page[OFF_STATE..OFF_STATE + new.len()].copy_from_slice(&new);
        page[OFF_XID..OFF_XID + 3].copy_from_slice(b"xid");
        let undo = UndoPage::new(&page).unwrap();
        assert_eq!((undo.owner(), undo.count(), undo.end()), (TxnId(9), 0, body(true)));
        assert_eq!((undo.state(), undo.commit_no(), undo.last()), (Some(LogState::Committed), CommitNo(55), PageNo(7)));
        assert!(undo.is_first());
        assert_eq!(undo.xid(), Some(&b"xid"[..]));
    }

    #[test]
    fn a_state_that_contradicts_the_commit_number_or_the_xid_is_none() {
        let sound = [
            (LogState::Free, "", 0),
            (LogState::Active, "", 0),
            (LogState::Active, "", 7),
            (LogState::Prepared, "", 0),
            (LogState::Prepared, "xid", 0),
            (LogState::Committed, "", 7),
        ];
        let mut page = page_with(&header(TxnId(9), true, LogState::Free, PageNo(7), PageNo(0)));
        page[OFF_XID..OFF_XID + 3].copy_from_slice(b"xid");
        for of in [LogState::Free, LogState::Active, LogState::Prepared, LogState::Committed] {
            for (xid, no) in [("", 0), ("", 7), ("xid", 0), ("xid", 7)] {
                let new = state(of, xid.len(), CommitNo(no));
                page[OFF_STATE..OFF_STATE + new.len()].copy_from_slice(&new);
                let standing = UndoPage::new(&page).unwrap().standing();
                let expected = sound.contains(&(of, xid, no)).then_some((of, CommitNo(no), xid.as_bytes()));
                assert_eq!(standing, expected, "{of:?} {xid} {no}");
            }
        }
    }

    #[test]
    fn a_log_that_begins_keeps_what_the_one_before_left_of_itself() {
        let mut page = page_with(&header(TxnId(9), true, LogState::Committed, PageNo(7), PageNo(0)));
        let new = beginning(TxnId(12), 1, 250);
        page[OFF_OWNER..OFF_OWNER + new.len()].copy_from_slice(&new);
        put_u16(&mut page, slot_offset(4096, 0), body(true));
        let undo = UndoPage::new(&page).unwrap();
        assert_eq!((undo.owner(), undo.count(), undo.end(), undo.last()), (TxnId(12), 1, 250, PageNo(7)));
        assert_eq!((undo.is_first(), undo.state(), undo.xid()), (true, Some(LogState::Active), Some(&b""[..])));
    }

    #[test]
    fn records_are_found_by_number_and_nothing_else_is() {
        let mut page = page_with(&header(TxnId(9), false, LogState::Active, PageNo(0), PageNo(3)));
        page[96..101].copy_from_slice(b"abcde");
        put_u16(&mut page, slot_offset(4096, 0), 96);
        put_u16(&mut page, slot_offset(4096, 1), 99);
        let (at, bytes) = counters(2, 101);
        page[usize::from(at)..usize::from(at) + 4].copy_from_slice(&bytes);
        let undo = UndoPage::new(&page).unwrap();
        assert_eq!(undo.record(0), Some(&b"abc"[..]));
        assert_eq!(undo.record(1), Some(&b"de"[..]));
        assert_eq!(undo.record(2), None);
        assert_eq!(undo.record(u16::MAX), None);
        put_u16(&mut page, slot_offset(4096, 1), 5000);
        let undo = UndoPage::new(&page).unwrap();
        assert_eq!((undo.record(0), undo.record(1)), (None, None));
        for begin in [5000, 99] {
            put_u16(&mut page, slot_offset(4096, 0), begin);
            assert!(UndoPage::new(&page).is_none(), "the first record begins elsewhere");
        }
        put_u16(&mut page, OFF_COUNT, 0);
        assert!(UndoPage::new(&page).is_none(), "there are records, and none is counted");
        put_u16(&mut page, OFF_END, 96);
        assert_eq!(UndoPage::new(&page).unwrap().record(0), None);
        page[OFF_TYPE] = PageType::Tree as u8;
        assert!(UndoPage::new(&page).is_none());
    }
}
