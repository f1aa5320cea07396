//! The undo space: the directory of undo logs, and the pages of those that are free.
//!
//! A log's first page is its for good: it is entered in the directory once and reused by one transaction after the
//! other. The owner's id stays in it when the log is freed, so the largest id ever used is found in the directory.
//! Extension pages are allocated and given back. The free logs are known in memory only, last freed first used, so
//! that a quiet system writes to the same few pages again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_base::page::PageType;
use holdfast_base::{CommitNo, Error, IndexId, PageId, PageNo, Result, RollPtr, TxnId};
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::op::PageOp;
use holdfast_tree::{Mtr, PageRef, SpaceFile, Store};
use holdfast_wal::SpaceClass;
use parking_lot::Mutex;

use super::page::{self, Directory, LogState, OFF_OWNER, UndoPage};
use super::record::UndoRecord;

/// The mark in the space header that names the first directory page.
const MARK_DIRECTORY: usize = 0;
/// Log bytes of a mini-transaction that touches a few undo pages, records not counted.
pub(crate) const SMALL_MTR: usize = 1024;

struct Tail {
    page: PageNo,
    count: usize,
}

/// The undo space of one database.
pub(crate) struct UndoSpace {
    store: Arc<Store>,
    file: Arc<SpaceFile>,
    free: Mutex<Vec<PageNo>>,
    directory: Mutex<Tail>,
    pages: AtomicU64,
}

/// A log that is not free, as found at open.
#[derive(Debug)]
pub(crate) struct FoundLog {
    pub first: PageNo,
    pub txn: TxnId,
    pub state: LogState,
    pub commit_no: CommitNo,
    pub xid: Vec<u8>,
}

/// What a roll pointer led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Prior {
    /// The record says that there was no entry.
    Absent,
    /// The image was appended to the caller's buffer.
    Image,
    /// The record is not there any more: purged, or rolled back.
    Gone,
}

impl UndoSpace {
    /// Formats an empty space. Durable once the log is flushed.
    pub fn create(store: &Arc<Store>, file: &Arc<SpaceFile>) -> Result<UndoSpace> {
        let acc = store.pool().access(AccessKind::Point);
        let mut mtr = store.begin(store.reserve(SMALL_MTR, SpaceClass::User)?, &acc);
        let directory = file.alloc_new(&mut mtr, PageNo(0))?;
        let no = mtr.id(directory).no;
        mtr.apply(directory, &PageOp::InitPage { page_type: PageType::UndoDirectory, index: IndexId(0) })?;
        file.set_mark_in(&mut mtr, MARK_DIRECTORY, u64::from(no.0))?;
        mtr.commit()?;
        drop(acc);
        Ok(UndoSpace::new(store, file, Tail { page: no, count: 0 }))
    }

    fn new(store: &Arc<Store>, file: &Arc<SpaceFile>, tail: Tail) -> UndoSpace {
        UndoSpace {
            store: Arc::clone(store),
            file: Arc::clone(file),
            free: Mutex::new(Vec::new()),
            directory: Mutex::new(tail),
            pages: AtomicU64::new(0),
        }
    }

    /// Opens the space and lists the logs that are not free, and the largest transaction id in it.
    pub fn open(store: &Arc<Store>, file: &Arc<SpaceFile>) -> Result<(UndoSpace, Vec<FoundLog>, TxnId)> {
        let acc = store.pool().access(AccessKind::Point);
        let first = file.mark(MARK_DIRECTORY, &acc)?;
        let mut no = PageNo(u32::try_from(first).unwrap_or(0));
        let mut logs = Vec::new();
        let tail = loop {
            let page = store.pool().fix_shared(file.space(), no, &acc)?;
            let Some(directory) = Directory::new(&page) else {
                return Err(Error::damaged_page(PageId::new(file.id(), no), "it is no directory of undo logs"));
            };
            logs.extend(directory.entries());
            if directory.next() == PageNo::NONE {
                break Tail { page: no, count: directory.count() };
            }
            no = directory.next();
        };
        let space = UndoSpace::new(store, file, tail);
        let (mut found, mut free, mut max) = (Vec::new(), Vec::new(), TxnId::NONE);
        for first in logs {
            let page = store.pool().fix_shared(file.space(), first, &acc)?;
            let log = UndoPage::new(&page).and_then(|p| Some((p, p.state()?, p.xid()?.to_vec())));
            let Some((undo, state, xid)) = log else { return Err(space.damaged(first)) };
            max = max.max(undo.owner());
            if state == LogState::Free {
                free.push(first);
            } else {
                let (txn, commit_no) = (undo.owner(), undo.commit_no());
                found.push(FoundLog { first, txn, state, commit_no, xid });
            }
        }
        free.reverse();
        *space.free.lock() = free;
        drop(acc);
        Ok((space, found, max))
    }

    /// The first page of the directory.
    pub fn first_directory(&self, acc: &Access<'_>) -> Result<PageNo> {
        Ok(PageNo(u32::try_from(self.file.mark(MARK_DIRECTORY, acc)?).unwrap_or(0)))
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn file(&self) -> &Arc<SpaceFile> {
        &self.file
    }

    pub fn page_size(&self) -> usize {
        self.store.page_size()
    }

    /// Pages of logs that are not free.
    pub fn pages_in_use(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    pub fn count_pages(&self, by: i64) {
        if by >= 0 {
            self.pages.fetch_add(by.unsigned_abs(), Ordering::Relaxed);
        } else {
            self.pages.fetch_sub(by.unsigned_abs(), Ordering::Relaxed);
        }
    }

    pub fn damaged(&self, no: PageNo) -> Error {
        Error::damaged_page(PageId::new(self.file.id(), no), "it is not the undo page that it should be")
    }

    /// The first page of a log that nobody uses; a new one if all are in use.
    pub fn take_log(&self, acc: &Access<'_>) -> Result<PageNo> {
        if let Some(first) = self.free.lock().pop() {
            return Ok(first);
        }
        self.add_log(acc)
    }

    /// Puts a freed log's first page back.
    pub fn put_log(&self, first: PageNo) {
        self.free.lock().push(first);
    }

    /// Allocates the first page of a new log and enters it in the directory, in one mini-transaction.
    fn add_log(&self, acc: &Access<'_>) -> Result<PageNo> {
        let mut tail = self.directory.lock();
        let ticket = self.store.reserve(2 * SMALL_MTR, SpaceClass::User)?;
        self.store.pool().reserve_frames(6, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        let space = self.file.space();
        let full = tail.count == Directory::capacity(self.page_size());
        let directory = mtr.fix(space, tail.page)?;
        let first = self.file.alloc_new(&mut mtr, tail.page)?;
        let first_no = mtr.id(first).no;
        mtr.apply(first, &PageOp::InitPage { page_type: PageType::Undo, index: IndexId(0) })?;
        let header = page::header(TxnId::NONE, true, LogState::Free, first_no, PageNo::NONE);
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &header })?;
        let (mut entry_page, mut count, mut tail_no) = (directory, tail.count, tail.page);
        if full {
            entry_page = self.file.alloc_new(&mut mtr, tail.page)?;
            (count, tail_no) = (0, mtr.id(entry_page).no);
            mtr.apply(entry_page, &PageOp::InitPage { page_type: PageType::UndoDirectory, index: IndexId(0) })?;
            let (offset, bytes) = Directory::link(tail_no);
            mtr.apply(directory, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        }
        for (offset, bytes) in Directory::add(count, first_no) {
            mtr.apply(entry_page, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        }
        mtr.commit()?;
        acc.release_frames();
        *tail = Tail { page: tail_no, count: count + 1 };
        Ok(first_no)
    }

    /// Follows `roll` of a version written by `txn`. The record is believed only if the page belongs to `txn` and the
    /// record is about `key`: otherwise the log was purged, or truncated by a rollback and filled anew.
    pub fn prior(
        &self,
        txn: TxnId,
        roll: RollPtr,
        index: IndexId,
        key: &[u8],
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<Prior> {
        let page = self.store.pool().fix_shared(self.file.space(), roll.page(), acc)?;
        let Some(undo) = UndoPage::new(&page).filter(|p| p.owner() == txn) else { return Ok(Prior::Gone) };
        let Some(bytes) = u16::try_from(roll.offset()).ok().and_then(|slot| undo.record(slot)) else {
            return Ok(Prior::Gone);
        };
        let Some(record) = UndoRecord::decode(bytes) else { return Err(self.damaged(roll.page())) };
        if record.index != index || record.key != key {
            return Ok(Prior::Gone);
        }
        image.clear();
        match record.prior {
            None => Ok(Prior::Absent),
            Some(prior) => {
                image.extend_from_slice(prior);
                Ok(Prior::Image)
            }
        }
    }

    /// Latches the first page of a log within `mtr`.
    pub fn fix<'a>(&self, mtr: &mut Mtr<'a>, no: PageNo) -> Result<PageRef> {
        let page = mtr.fix(self.file.space(), no)?;
        if UndoPage::new(mtr.bytes(page)).is_none() {
            return Err(self.damaged(no));
        }
        Ok(page)
    }
}
