//! Overflow chains: values too long for a leaf, in pages of their own. The value in a chain never
//! changes: an update writes a new chain, or refers to the same one if the value is the same. The
//! release of the last reference frees the chain.
//!
//! ```text
//! offset size
//!  0    64   common page header (type Overflow, index id)
//! 64     4   next page, 0: the last one
//! 68     4   bytes of the value in this page
//! 72     4   first page: references to the chain beside one
//! 76     4   reserved, zero
//! 80         bytes of the value
//! ```
//!
//! Reference and chain say the same length: where the reference says that the value ends, the chain
//! ends, and only a value of no bytes has no chain. Otherwise a wrong length that is that of some
//! pages would be a shorter value.
//!
//! Each page is written by a mini-transaction of its own, the last page of the chain first, so that
//! every page that is written leads to pages that are. A crash before the reference is stored
//! leaves the chain allocated but unreachable; verification lists it. Likewise a reference is
//! counted before it is stored, and given up after it is removed: a crash in between leaves a chain
//! that is not freed, never one that is freed too early.
//!
//! A page does not say of which chain it is. What a link leads to is freed only if it can be a page
//! of that chain: an overflow page of the index, as long as its place asks, written no later than
//! the page before, and the whole chain ends where its reference says. So all of a chain is looked
//! at before its first page is freed ([`Proof`]). What passes all the same is an older chain of the
//! index with as many bytes behind the page.

use holdfast_base::codec::{Reader, Writer, get_u32, put_u32};
use holdfast_base::page::{self, HEADER_LEN, OFF_INDEX, OFF_TYPE, PageType};
use holdfast_base::{Error, IndexId, Lsn, PageId, PageNo, Result};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, PageRead};
use holdfast_wal::SpaceClass;

use crate::finding::{PageFinding, PageSet};
use crate::mtr::{Mtr, PageRef};
use crate::op::PageOp;
use crate::space::{HEADS, SpaceFile};
use crate::store::Store;

const OFF_NEXT: usize = HEADER_LEN;
const OFF_LEN: usize = HEADER_LEN + 4;
const OFF_SHARED: usize = HEADER_LEN + 8;
const OFF_DATA: usize = HEADER_LEN + 16;
/// Pages that are allocated by one mini-transaction, or freed of a long chain, at most.
const BATCH: usize = 32;
/// No page is newer.
const NEWEST: Lsn = Lsn(u64::MAX);
const YOUNGER: &str = "a page of an overflow chain that was written after the one before it";

/// Where a long value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OverflowRef {
    /// The first page of the chain; [`PageNo::NONE`] for a value of no bytes.
    pub first: PageNo,
    /// Bytes of the value.
    pub len: u32,
}

impl OverflowRef {
    /// Bytes of an encoded reference.
    pub const LEN: usize = 8;

    /// Appends the encoded reference.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.u32(self.first.0);
        out.u32(self.len);
    }

    /// Reads an encoded reference. `None` also if it says of one of page and length that there is
    /// none, and not of the other.
    pub fn decode(from: &mut Reader<'_>) -> Option<OverflowRef> {
        let chain = OverflowRef { first: PageNo(from.u32()?), len: from.u32()? };
        ((chain.first == PageNo::NONE) == (chain.len == 0)).then_some(chain)
    }
}

/// Bytes of a value that one page takes.
#[must_use]
pub const fn data_len(page_size: usize) -> usize {
    page_size - OFF_DATA
}

/// Writes `value` to a new chain.
///
/// # Errors
/// [`Error::ValueTooLong`] beyond 4 GiB - 1; [`Error::DiskFull`] and errors of the log. The pages
/// are freed then.
pub fn write_chain(
    space: &SpaceFile,
    index: IndexId,
    value: &[u8],
    near: PageNo,
    acc: &Access<'_>,
) -> Result<OverflowRef> {
    let max = holdfast_base::limits::VALUE_LEN_MAX;
    let len = u32::try_from(value.len()).map_err(|_| Error::ValueTooLong { len: value.len() as u64, max })?;
    let count = value.len().div_ceil(data_len(space.store().page_size()));
    let mut pages = Vec::with_capacity(count);
    let written =
        allocate(space, count, near, acc, &mut pages).and_then(|()| write_pages(space, index, value, &pages, acc));
    if let Err(error) = written {
        // The caller gets the first error. Verification finds pages that cannot be freed now.
        let _ = space.free_pages(&pages, Store::class_of(acc), acc);
        return Err(error);
    }
    space.store().metrics().add(Counter::OverflowWrites, 1);
    Ok(OverflowRef { first: pages.first().copied().unwrap_or(PageNo::NONE), len })
}

fn allocate(space: &SpaceFile, count: usize, near: PageNo, acc: &Access<'_>, pages: &mut Vec<PageNo>) -> Result<()> {
    let store = space.store();
    while pages.len() < count {
        let batch = (count - pages.len()).min(BATCH);
        let near = pages.last().copied().unwrap_or(near);
        let ticket = store.reserve(256 + batch * 16, Store::class_of(acc))?;
        let _frames =
            if holdfast_base::planted!("frames-after-latch") { None } else { Some(space.reserve_alloc(near, 0, acc)?) };
        let mut mtr = store.begin(ticket, acc);
        let new = space.alloc_pages(&mut mtr, near, batch)?;
        mtr.commit()?;
        pages.extend(new);
    }
    Ok(())
}

fn write_pages(space: &SpaceFile, index: IndexId, value: &[u8], pages: &[PageNo], acc: &Access<'_>) -> Result<()> {
    let store = space.store();
    let mut next = PageNo::NONE;
    for (&no, part) in pages.iter().zip(value.chunks(data_len(store.page_size()))).rev() {
        let mut body = Vec::with_capacity(16 + part.len());
        body.resize(OFF_DATA - OFF_NEXT, 0);
        put_u32(&mut body, 0, next.0);
        put_u32(&mut body, OFF_LEN - OFF_NEXT, part.len() as u32);
        body.extend_from_slice(part);
        let ticket = store.reserve(body.len() + 64, Store::class_of(acc))?;
        let mut mtr = store.begin(ticket, acc);
        let page = mtr.fix_new(space.space(), no)?;
        mtr.apply(page, &PageOp::InitPage { page_type: PageType::Overflow, index })?;
        mtr.apply(page, &PageOp::WriteBytes { offset: OFF_NEXT as u16, bytes: &body })?;
        mtr.commit()?;
        next = no;
    }
    Ok(())
}

/// Next page and bytes of the value in an overflow page of `index`, or `None` if it is none.
fn links(page: &[u8], index: IndexId) -> Option<(PageNo, usize)> {
    let fits = page.u8(OFF_TYPE)? == PageType::Overflow as u8 && page.u32(OFF_INDEX)? == index.0;
    let len = get_u32(page, OFF_LEN)? as usize;
    (fits && len <= page.len() - OFF_DATA).then_some((PageNo(get_u32(page, OFF_NEXT)?), len))
}

/// Walks over the pages of a chain. `visit` gets each page's number and its part of the value, and
/// says whether to go on. A chain that differs from its reference, in length or content, is damage,
/// so the walk also ends if the links form a ring.
fn walk(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
    visit: &mut dyn FnMut(PageNo, &[u8]) -> bool,
) -> Result<()> {
    walk_of(space, index, chain, acc, &mut |no, _, part| visit(no, part))
}

/// As [`walk`]; `visit` gets each page's LSN besides.
fn walk_of(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
    visit: &mut dyn FnMut(PageNo, Lsn, &[u8]) -> bool,
) -> Result<()> {
    let (mut no, mut left) = (chain.first, chain.len as usize);
    let mut last = chain.first;
    while left > 0 {
        if no == PageNo::NONE {
            return Err(damaged(space, index, last, "an overflow chain that ends too early"));
        }
        let page = space.store().pool().fix_shared(space.space(), no, acc)?;
        last = no;
        let damaged = |what| self::damaged(space, index, no, what);
        let (next, len) = links(&page, index).ok_or_else(|| damaged("not a page of its overflow chains"))?;
        // All pages but the last are full, so that a ring is short.
        if len != left.min(page.len() - OFF_DATA) {
            return Err(damaged("an overflow page with a wrong length"));
        }
        if len == left && next != PageNo::NONE {
            return Err(damaged("an overflow chain that goes on behind the end of its value"));
        }
        let goes_on = visit(no, page::lsn(&page), &page[OFF_DATA..OFF_DATA + len]);
        drop(page);
        if !goes_on {
            return Ok(());
        }
        left -= len;
        no = next;
    }
    Ok(())
}

fn damaged(space: &SpaceFile, index: IndexId, no: PageNo, what: &str) -> Error {
    space.store().damaged(PageId::new(space.id(), no), format!("index {index}: {what}"))
}

/// Appends the value of a chain to `out`.
///
/// # Errors
/// Damage; the errors of reading pages.
pub fn read_chain(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    walk(space, index, chain, acc, &mut |_, part| {
        out.extend_from_slice(part);
        true
    })?;
    space.store().metrics().add(Counter::OverflowReads, 1);
    Ok(())
}

/// As [`read_chain`], for a reference in a page that was last changed at `upto`, of a file that was
/// not recovered: the chain may have been freed since, and its pages may have another use.
///
/// # Errors
/// The errors of [`read_chain`]; damage, if a page of the chain is newer than the reference. The
/// first page may be newer because a reference to it was counted, if versions of this file share
/// chains: then it passes.
pub fn read_chain_of(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    upto: Lsn,
    acc: &Access<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let shares = match space.header(acc) {
        Ok(header) => header.features.incompatible & HEADS != 0,
        // Where the header is lost, they may.
        Err(error) if error.is_damage() => true,
        Err(error) => return Err(error),
    };
    let mut newer = None;
    walk_of(space, index, chain, acc, &mut |no, lsn, part| {
        if lsn > upto && (no != chain.first || !shares) {
            newer = Some(no);
        }
        out.extend_from_slice(part);
        newer.is_none()
    })?;
    newer.map_or(Ok(()), |no| {
        let what = format!("index {index}: a page of an overflow chain that is newer than the reference to it");
        Err(Error::damaged_page(PageId::new(space.id(), no), what))
    })
}

/// True if the value of a chain is `value`. Its pages are read as far as they are the same.
///
/// # Errors
/// Damage; the errors of reading pages.
pub fn chain_is(space: &SpaceFile, index: IndexId, chain: OverflowRef, value: &[u8], acc: &Access<'_>) -> Result<bool> {
    if chain.len as usize != value.len() {
        return Ok(false);
    }
    let (mut rest, mut same) = (value, true);
    walk(space, index, chain, acc, &mut |_, part| {
        let (here, behind) = rest.split_at(part.len());
        rest = behind;
        same = here == part;
        same
    })?;
    Ok(same)
}

/// Adds `by` to the references to a chain beside one.
fn count_references(page: PageRef, by: i32, mtr: &mut Mtr<'_>) -> Result<()> {
    let damaged = || Error::damaged_page(mtr.id(page), "an overflow chain whose references cannot be counted");
    let shared = get_u32(mtr.bytes(page), OFF_SHARED).and_then(|n| n.checked_add_signed(by)).ok_or_else(damaged)?;
    mtr.apply(page, &PageOp::WriteBytes { offset: OFF_SHARED as u16, bytes: &shared.to_le_bytes() })
}

/// How many references to a chain are counted beside one, and the LSN of the page that says it: if
/// that is the same later, none has been counted or given up since.
///
/// # Errors
/// Damage; the errors of reading the page.
pub fn references(space: &SpaceFile, index: IndexId, chain: OverflowRef, acc: &Access<'_>) -> Result<(u32, Lsn)> {
    let page = space.store().pool().fix_shared(space.space(), chain.first, acc)?;
    let shared = links(&page, index).and_then(|_| get_u32(&page, OFF_SHARED));
    let shared = shared.ok_or_else(|| damaged(space, index, chain.first, "no overflow chain begins there"))?;
    Ok((shared, page::lsn(&page)))
}

/// Begins to change the number of references to a chain: its first page, latched.
fn fix_first<'a>(
    space: &'a SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &'a Access<'a>,
    class: SpaceClass,
) -> Result<(Mtr<'a>, PageRef)> {
    let damaged = || self::damaged(space, index, chain.first, "no overflow chain begins there");
    if chain.first == PageNo::NONE {
        return Err(damaged());
    }
    let store = space.store();
    let mut mtr = store.begin(store.reserve(64, class)?, acc);
    let page = mtr.fix(space.space(), chain.first)?;
    links(mtr.bytes(page), index).ok_or_else(damaged)?;
    Ok((mtr, page))
}

/// Counts one more reference to a chain, which is stored afterwards. The caller makes sure that the
/// chain is not freed meanwhile.
///
/// # Errors
/// Damage; the errors of the log and of reading pages.
pub fn share_chain(space: &SpaceFile, index: IndexId, chain: OverflowRef, acc: &Access<'_>) -> Result<()> {
    if chain.len > 0 {
        let (mut mtr, page) = fix_first(space, index, chain, acc, Store::class_of(acc))?;
        count_references(page, 1, &mut mtr)?;
        mtr.commit()?;
        space.store().metrics().add(Counter::OverflowShares, 1);
    }
    Ok(())
}

/// Gives up a reference to a chain that no page stores any more. The last one frees the pages.
/// Returns whether it was that.
///
/// # Errors
/// Damage; the errors of the log and of reading pages. A part of the pages may have been given
/// back.
pub fn release_chain(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
    class: SpaceClass,
) -> Result<bool> {
    release_rest(space, index, &mut { chain }, acc, class)
}

/// As [`release_chain`]. After an error that may pass it can be called again: `chain` has become
/// what is left of it.
///
/// # Errors
/// The errors of [`release_chain`].
pub fn release_rest(
    space: &SpaceFile,
    index: IndexId,
    chain: &mut OverflowRef,
    acc: &Access<'_>,
    class: SpaceClass,
) -> Result<bool> {
    let released = give_up(space, index, chain, acc, class);
    released.inspect_err(|error| {
        if error.is_damage() {
            space.store().metrics().add(Counter::OverflowLost, 1);
        }
    })
}

fn give_up(
    space: &SpaceFile,
    index: IndexId,
    chain: &mut OverflowRef,
    acc: &Access<'_>,
    class: SpaceClass,
) -> Result<bool> {
    if chain.len == 0 {
        return Ok(true);
    }
    let (mut mtr, page) = fix_first(space, index, *chain, acc, class)?;
    if get_u32(mtr.bytes(page), OFF_SHARED) == Some(0) {
        drop(mtr);
        return free_chain(space, index, chain, acc, class).map(|()| true);
    }
    count_references(page, -1, &mut mtr)?;
    mtr.commit().map(|_| false)
}

/// Frees the pages of a chain to which nothing refers, the first ones first: what is left is a
/// chain each time.
fn free_chain(
    space: &SpaceFile,
    index: IndexId,
    chain: &mut OverflowRef,
    acc: &Access<'_>,
    class: SpaceClass,
) -> Result<()> {
    let pages = own_pages(space, index, *chain, &mut { NEWEST }, usize::MAX, acc)?;
    let mut freed = 0;
    for batch in space.batches(&pages) {
        space.free_batch(batch, class, acc)?;
        freed += batch.len();
        *chain = behind(space, *chain, batch.len(), pages.get(freed).copied());
    }
    Ok(())
}

/// The first pages of a chain, `limit` at most, none of which was written later than the one
/// before. `newest`: LSN that the first one has at most; becomes that of the last one.
fn own_pages(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    newest: &mut Lsn,
    limit: usize,
    acc: &Access<'_>,
) -> Result<Vec<PageNo>> {
    let (mut pages, mut younger) = (Vec::new(), None);
    walk_of(space, index, chain, acc, &mut |no, lsn, _| {
        if lsn > *newest {
            younger = Some(no);
            return false;
        }
        *newest = lsn;
        pages.push(no);
        pages.len() < limit
    })?;
    younger.map_or(Ok(pages), |no| Err(damaged(space, index, no, YOUNGER)))
}

/// How much of a long chain that is to be freed in parts has been found to be that chain.
#[derive(Debug)]
pub struct Proof {
    chain: OverflowRef,
    /// What has not been looked at yet.
    left: OverflowRef,
    newest: Lsn,
}

impl Proof {
    /// Nothing of `chain` has been looked at.
    #[must_use]
    pub fn begin(chain: OverflowRef) -> Proof {
        Proof { chain, left: chain, newest: NEWEST }
    }

    /// The chain.
    #[must_use]
    pub fn chain(&self) -> OverflowRef {
        self.chain
    }

    /// True if all of it has been looked at.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.left.len == 0
    }

    /// Looks at as many pages more as are freed at once.
    ///
    /// # Errors
    /// Damage; the errors of reading pages.
    pub fn look_on(&mut self, space: &SpaceFile, index: IndexId, acc: &Access<'_>) -> Result<()> {
        let pages = own_pages(space, index, self.left, &mut self.newest, BATCH + 1, acc)?;
        self.left = behind(space, self.left, pages.len().min(BATCH), pages.get(BATCH).copied());
        Ok(())
    }

    /// What is left of a chain all of which was looked at, without its first part.
    #[must_use]
    pub fn without_first(self, rest: OverflowRef) -> Proof {
        Proof { chain: rest, ..self }
    }
}

/// True if a chain has so many pages that it is freed in parts, and no other version refers to it.
///
/// # Errors
/// The errors of reading its first page.
pub fn goes_in_parts(space: &SpaceFile, chain: OverflowRef, acc: &Access<'_>) -> Result<bool> {
    if chain.len as usize <= BATCH * data_len(space.store().page_size()) {
        return Ok(false);
    }
    // Versions whose heads differ share a chain, and for each that goes pages would be read.
    let first = space.store().pool().fix_shared(space.space(), chain.first, acc)?;
    Ok(get_u32(&first, OFF_SHARED) == Some(0))
}

/// The first pages of a chain that goes in parts, as many as one mini-transaction gives back, and
/// the chain of those behind them. The caller has looked at all of it ([`Proof`]), and gives the
/// pages back in the mini-transaction that makes what leads to the chain lead to the rest.
///
/// # Errors
/// Damage; the errors of reading pages.
pub fn first_part(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
) -> Result<(Vec<PageNo>, OverflowRef)> {
    let mut pages = own_pages(space, index, chain, &mut { NEWEST }, BATCH + 1, acc)?;
    let count = space.batches(&pages[..pages.len().min(BATCH)]).next().map_or(0, <[PageNo]>::len);
    let rest = behind(space, chain, count, pages.get(count).copied());
    pages.truncate(count);
    Ok((pages, rest))
}

/// What is left of a chain without its first `count` pages; `next`: the page behind them.
fn behind(space: &SpaceFile, chain: OverflowRef, count: usize, next: Option<PageNo>) -> OverflowRef {
    let gone = (count * data_len(space.store().page_size())) as u32;
    OverflowRef { first: next.unwrap_or(PageNo::NONE), len: chain.len.saturating_sub(gone) }
}

/// Follows a chain and adds its pages to `reached`.
pub(crate) fn verify_chain(
    space: &SpaceFile,
    index: IndexId,
    chain: OverflowRef,
    acc: &Access<'_>,
    reached: &mut PageSet,
    sink: &mut dyn FnMut(PageFinding),
) -> Result<()> {
    let (mut twice, mut younger, mut newest) = (Vec::new(), Vec::new(), NEWEST);
    let walked = walk_of(space, index, chain, acc, &mut |no, lsn, _| {
        if !reached.insert(no) {
            twice.push(no);
        }
        if lsn > newest {
            younger.push(no);
        }
        newest = lsn;
        true
    });
    let mut report =
        |no, what| sink(PageFinding::damage(PageId::new(space.id(), no), format!("index {index}: {what}")));
    twice.into_iter().for_each(|no| report(no, "is reached twice"));
    younger.into_iter().for_each(|no| report(no, YOUNGER));
    match walked {
        Err(Error::DamagedPage { page, what }) => sink(PageFinding::damage(page, what)),
        other => other?,
    }
    Ok(())
}
