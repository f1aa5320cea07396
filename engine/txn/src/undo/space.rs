//! The undo space: the directory of undo logs, and the pages of those that are free.
//!
//! A log's first page is entered in the directory and reused by one transaction after the other.
//! The owner's id stays in it when the log is freed. A transaction takes the page before its id, so
//! the id on a first page only grows, and the largest id ever used is found in the directory.
//! Extension pages are allocated and given back. The free logs are known in memory only, last freed
//! first used, so that a quiet system writes to the same few pages again and again. What lies at
//! the bottom was of use to a crowd of transactions that has gone: after a while its pages are
//! given back too. The largest id that was in one of those is kept in the header of the space.
//!
//! Lock order: `removal`, `directory`, `free`; `left_out` is a leaf. Entries leave the directory
//! with `removal` held, so a thread that holds it may follow what a directory page says.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use holdfast_base::blocking::{Mutex, MutexGuard};
use holdfast_base::page::PageType;
use holdfast_base::{CommitNo, Error, IndexId, PageId, PageNo, Result, RollPtr, TxnId};
use holdfast_metrics::{Spread, thread_group};
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::op::PageOp;
use holdfast_tree::{FREE_FRAMES, Mtr, PageRef, SpaceFile, Store};
use holdfast_wal::SpaceClass;

use super::marks;
use super::page::{self, Directory, LogState, OFF_OWNER, UndoPage};
use super::record::UndoRecord;
use crate::mvcc::clock::NUMBER_LIMIT;

/// Free logs that are kept, however long no transaction needs them.
const KEPT_LOGS: usize = 64;
/// Logs given back at a time.
const REMOVED_AT_ONCE: usize = 256;
/// First pages of logs that an open reads at a time.
const TOGETHER: usize = 64;
/// Log bytes of a mini-transaction that touches a few undo pages, records not counted.
pub(crate) const SMALL_MTR: usize = 1024;

/// A directory page and its entries, in their order.
struct DirectoryPage {
    no: PageNo,
    logs: Vec<PageNo>,
}

/// The directory as it is on its pages.
struct DirectoryState {
    /// Never empty. Another page is linked to the last one when all are full.
    pages: Vec<DirectoryPage>,
    /// What [`marks::MAX_REMOVED`] says.
    max_removed: TxnId,
}

/// Logs that no transaction uses, of one group of threads, the last freed last: a log returns to
/// the group that had it, whose cores may still have its page in their caches.
type FreeLogs = Mutex<Vec<PageNo>>;

/// What is in use, by the group of threads that took it. Every transaction counts here.
#[derive(Default)]
struct InUse {
    /// Pages of logs that are not free. What one group took another one may give back.
    pages: AtomicI64,
    /// Logs that are not free.
    logs: AtomicUsize,
    /// The most logs in use since the last call that asks: all beyond them were not needed.
    peak: AtomicUsize,
}

impl InUse {
    /// How many logs more than now the group has used at a time since the last call.
    fn needed(&self) -> usize {
        let logs = self.logs.load(Ordering::Relaxed);
        self.peak.swap(logs, Ordering::Relaxed).saturating_sub(logs)
    }
}

/// The undo space of one database.
pub(crate) struct UndoSpace {
    store: Arc<Store>,
    file: Arc<SpaceFile>,
    free: Spread<FreeLogs>,
    /// Free logs whose first page could not be read when it was asked for.
    left_out: Mutex<Vec<PageNo>>,
    directory: Mutex<DirectoryState>,
    removal: Mutex<()>,
    in_use: Spread<InUse>,
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

/// A first page that no other transaction uses: [`UndoLog::new`](super::UndoLog::new) makes a log
/// of it.
#[derive(Debug)]
pub(crate) struct TakenPage {
    pub no: PageNo,
    /// The group of threads that took it, and is to have it again.
    pub group: usize,
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

impl Prior {
    /// What the record that `bytes` are says about `key`; `None` if it is none.
    pub fn of_record(bytes: &[u8], index: IndexId, key: &[u8], image: &mut Vec<u8>) -> Option<Prior> {
        let record = UndoRecord::decode(bytes)?;
        if record.index != index || record.key != key {
            return Some(Prior::Gone);
        }
        image.clear();
        let Some(prior) = record.prior else { return Some(Prior::Absent) };
        image.extend_from_slice(prior);
        Some(Prior::Image)
    }
}

impl UndoSpace {
    /// Formats an empty space. Durable once the log is flushed.
    pub fn create(store: &Arc<Store>, file: &Arc<SpaceFile>) -> Result<UndoSpace> {
        let acc = store.pool().access(AccessKind::Point);
        let ticket = store.reserve(SMALL_MTR, SpaceClass::User)?;
        let frames = file.reserve_alloc(PageNo(0), 1, &acc)?;
        let mut mtr = store.begin(ticket, &acc);
        let directory = file.alloc_new(&mut mtr, PageNo(0))?;
        let no = mtr.id(directory).no;
        mtr.apply(directory, &PageOp::InitPage { page_type: PageType::UndoDirectory, index: IndexId(0) })?;
        file.set_mark_in(&mut mtr, marks::DIRECTORY, u64::from(no.0))?;
        mtr.commit()?;
        drop(frames);
        drop(acc);
        let pages = vec![DirectoryPage { no, logs: Vec::new() }];
        Ok(UndoSpace::new(store, file, DirectoryState { pages, max_removed: TxnId::NONE }))
    }

    fn new(store: &Arc<Store>, file: &Arc<SpaceFile>, directory: DirectoryState) -> UndoSpace {
        UndoSpace {
            store: Arc::clone(store),
            file: Arc::clone(file),
            free: Spread::default(),
            left_out: Mutex::default(),
            directory: Mutex::new(directory),
            removal: Mutex::new(()),
            in_use: Spread::default(),
        }
    }

    /// Opens the space and lists the logs that are not free, and the largest transaction id in it.
    pub fn open(store: &Arc<Store>, file: &Arc<SpaceFile>) -> Result<(UndoSpace, Vec<FoundLog>, TxnId)> {
        let acc = store.pool().access(AccessKind::Point);
        let first = file.mark(marks::DIRECTORY, &acc)?;
        let mut no = PageNo(u32::try_from(first).unwrap_or(0));
        let max_removed = TxnId(file.mark(marks::MAX_REMOVED, &acc)?);
        if max_removed.0 >= NUMBER_LIMIT {
            let header = PageId::new(file.id(), PageNo(0));
            return Err(Error::damaged_page(header, format!("it names {max_removed}, which is no transaction id")));
        }
        let mut state = DirectoryState { pages: Vec::new(), max_removed };
        loop {
            let page = store.pool().fix_shared(file.space(), no, &acc)?;
            let seen = state.pages.iter().any(|page| page.no == no);
            let Some(directory) = Directory::new(&page).filter(|_| !seen) else {
                return Err(Error::damaged_page(
                    PageId::new(file.id(), no),
                    "it is no directory of undo logs, or is in it twice",
                ));
            };
            state.pages.push(DirectoryPage { no, logs: directory.entries().collect() });
            if directory.next() == PageNo::NONE {
                break;
            }
            no = directory.next();
        }
        let logs: Vec<PageNo> = state.pages.iter().flat_map(|page| &page.logs).copied().collect();
        let mut sorted = logs.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::damaged_page(PageId::new(file.id(), pair[0]), "it begins two undo logs"));
        }
        let space = UndoSpace::new(store, file, state);
        let (mut found, mut free, mut max) = (Vec::new(), Vec::new(), max_removed);
        for (n, &first) in logs.iter().enumerate() {
            if n.is_multiple_of(TOGETHER) {
                let together = &logs[n..logs.len().min(n + TOGETHER)];
                store.pool().load_together(file.space(), together, &acc)?;
            }
            let page = store.pool().fix_shared(file.space(), first, &acc)?;
            let log = UndoPage::new(&page).and_then(|page| Some((page.owner(), page.standing()?)));
            let possible = |txn: TxnId, no: CommitNo| txn.0 < NUMBER_LIMIT && no.0 < NUMBER_LIMIT;
            let Some((txn, (state, commit_no, xid))) = log.filter(|(txn, (_, no, _))| possible(*txn, *no)) else {
                return Err(space.damaged(first));
            };
            max = max.max(txn);
            if state == LogState::Free {
                free.push(first);
            } else {
                found.push(FoundLog { first, txn, state, commit_no, xid: xid.to_vec() });
            }
        }
        free.reverse();
        space.in_use.mine().logs.store(found.len(), Ordering::Relaxed);
        *space.free.mine().lock() = free;
        drop(acc);
        Ok((space, found, max))
    }

    /// The first page of the directory.
    pub fn first_directory(&self, acc: &Access<'_>) -> Result<PageNo> {
        Ok(PageNo(u32::try_from(self.file.mark(marks::DIRECTORY, acc)?).unwrap_or(0)))
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
        let pages: i64 = self.in_use.all().map(|own| own.pages.load(Ordering::Relaxed)).sum();
        pages.try_into().unwrap_or(0)
    }

    pub fn count_pages(&self, by: i64) {
        self.in_use.mine().pages.fetch_add(by, Ordering::Relaxed);
    }

    pub fn damaged(&self, no: PageNo) -> Error {
        self.file.store().damaged(PageId::new(self.file.id(), no), "it is not the undo page that it should be")
    }

    /// The first page of a log that no transaction uses, if possible one of the caller's group; a
    /// new one if all are in use.
    pub fn take_page(&self, acc: &Access<'_>) -> Result<TakenPage> {
        let group = thread_group();
        let take = |free: &FreeLogs| free.lock().pop();
        let taken = take(self.free.of(group)).or_else(|| self.free.all().find_map(take));
        let first = taken.map_or_else(|| self.add_log(acc), Ok)?;
        let in_use = self.in_use.of(group);
        let logs = in_use.logs.fetch_add(1, Ordering::Relaxed) + 1;
        if logs > in_use.peak.load(Ordering::Relaxed) {
            in_use.peak.fetch_max(logs, Ordering::Relaxed);
        }
        Ok(TakenPage { no: first, group })
    }

    /// Puts a freed log's first page back, for `group`.
    pub fn put_log(&self, group: usize, first: PageNo) {
        self.free.of(group).lock().push(first);
        self.in_use.of(group).logs.fetch_sub(1, Ordering::Relaxed);
    }

    /// Puts back the first page of a log that was taken and never begun, for `group`. One that is
    /// the reason for it is left out, and no other transaction meets it.
    pub fn put_unbegun(&self, group: usize, first: PageNo) {
        if self.can_be_begun(first, &self.store.pool().access(AccessKind::Point)) {
            self.put_log(group, first);
        } else {
            self.left_out.lock().push(first);
            self.in_use.of(group).logs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// False if the page of a free log is damaged, or the device does not return it.
    fn can_be_begun(&self, first: PageNo, acc: &Access<'_>) -> bool {
        match self.store.pool().fix_shared(self.file.space(), first, acc) {
            Ok(page) => UndoPage::new(&page).is_some(),
            Err(error) => !(error.is_damage() || error.is_unread()),
        }
    }

    /// Allocates the first page of a new log and enters it in the directory, in one
    /// mini-transaction.
    fn add_log(&self, acc: &Access<'_>) -> Result<PageNo> {
        let mut directory = self.directory.lock();
        let capacity = Directory::capacity(self.page_size());
        let last = directory.pages.len() - 1;
        let room = directory.pages.iter().position(|page| page.logs.len() < capacity);
        let near = directory.pages[room.unwrap_or(last)].no;
        let ticket = self.store.reserve(2 * SMALL_MTR, SpaceClass::User)?;
        let _frames = self.file.reserve_alloc(near, 3, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        let old = self.fix_directory(&mut mtr, near)?;
        let new = self.file.plan_new(&mut mtr, near, 1 + usize::from(room.is_none()))?;
        let (first, (at, entry_page)) = (new.page(0), room.map_or_else(|| (last + 1, new.page(1)), |at| (at, old)));
        let (first_no, entry_no) = (mtr.id(first).no, mtr.id(entry_page).no);
        self.file.take(&mut mtr, new)?;
        mtr.apply(first, &PageOp::InitPage { page_type: PageType::Undo, index: IndexId(0) })?;
        let header = page::header(TxnId::NONE, true, LogState::Free, first_no, PageNo::NONE);
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &header })?;
        if room.is_none() {
            mtr.apply(entry_page, &PageOp::InitPage { page_type: PageType::UndoDirectory, index: IndexId(0) })?;
            let (offset, bytes) = Directory::link(entry_no);
            mtr.apply(old, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        }
        let count = directory.pages.get(at).map_or(0, |page| page.logs.len());
        for (offset, bytes) in Directory::set(count, first_no, count + 1) {
            mtr.apply(entry_page, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        }
        mtr.commit()?;
        if room.is_none() {
            directory.pages.push(DirectoryPage { no: entry_no, logs: Vec::new() });
        }
        directory.pages[at].logs.push(first_no);
        Ok(first_no)
    }

    /// Frees half of the logs that no transaction has needed since the last call, but keeps a few.
    /// Returns true if there may be more. A log whose page cannot be read is left out, and does not
    /// keep the others; it is free again when a later call can read the page.
    ///
    /// # Errors
    /// The errors of the log and of reading other pages; what was not given back stays free.
    pub fn remove_idle_logs(&self, acc: &Access<'_>) -> Result<bool> {
        let Some(_removal) = self.removal.try_lock() else { return Ok(true) };
        if holdfast_base::planted!("idle-undo-stays") {
            return Ok(false);
        }
        self.try_left_out(acc);
        let needed: usize = self.in_use.all().map(InUse::needed).sum();
        let free: usize = self.free.all().map(|free| free.lock().len()).sum();
        let n = free.saturating_sub(needed + KEPT_LOGS).div_ceil(2).min(REMOVED_AT_ONCE);
        let (mut idle, mut left) = (Vec::new(), 0);
        for logs in self.free.all() {
            let mut logs = logs.lock();
            let share = (logs.len() * n).div_ceil(free.max(1)).min(n - idle.len());
            idle.extend(logs.drain(..share));
            left += logs.len();
        }
        while let Some(first) = idle.pop() {
            if !self.can_be_begun(first, acc) {
                self.left_out.lock().push(first);
                continue;
            }
            if let Err(error) = self.remove_log(first, acc) {
                idle.push(first);
                self.free.mine().lock().splice(..0, idle);
                return Err(error);
            }
        }
        Ok(left > KEPT_LOGS)
    }

    /// Makes those of the logs that were left out free whose page can be read now.
    fn try_left_out(&self, acc: &Access<'_>) {
        let tried = std::mem::take(&mut *self.left_out.lock());
        let (free, left_out): (Vec<_>, Vec<_>) = tried.into_iter().partition(|first| self.can_be_begun(*first, acc));
        self.free.mine().lock().splice(..0, free);
        self.left_out.lock().extend(left_out);
    }

    /// Takes a free log out of the directory and gives its page back, in one mini-transaction.
    fn remove_log(&self, first: PageNo, acc: &Access<'_>) -> Result<()> {
        let mut directory = self.directory.lock();
        let entry = directory
            .pages
            .iter()
            .enumerate()
            .find_map(|(page, d)| Some((page, d.logs.iter().position(|l| *l == first)?)));
        let Some((page, at)) = entry else { return Err(self.damaged(first)) };
        let (no, logs) = (directory.pages[page].no, &directory.pages[page].logs);
        let (count, moved) = (logs.len() - 1, logs[logs.len() - 1]);
        let ticket = self.store.reserve(2 * SMALL_MTR, SpaceClass::Rollback)?;
        let _frames = self.store.pool().reserve_frames(FREE_FRAMES + 2, acc)?;
        let mut mtr = self.store.begin(ticket, acc);
        let log = self.fix(&mut mtr, first)?;
        let owner = UndoPage::new(mtr.bytes(log)).map_or(TxnId::NONE, UndoPage::owner);
        let entry_page = self.fix_directory(&mut mtr, no)?;
        self.file.free_latched(&mut mtr, log)?;
        for (offset, bytes) in Directory::set(at, moved, count) {
            mtr.apply(entry_page, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        }
        if owner > directory.max_removed {
            self.file.set_mark_in(&mut mtr, marks::MAX_REMOVED, owner.0)?;
        }
        mtr.commit()?;
        directory.pages[page].logs.swap_remove(at);
        directory.max_removed = directory.max_removed.max(owner);
        Ok(())
    }

    /// Keeps logs from being removed while the caller follows the directory.
    pub fn keep_logs(&self) -> MutexGuard<'_, ()> {
        self.removal.lock()
    }

    /// Follows `roll` of a version written by `txn`. The record is believed only if the page
    /// belongs to `txn` and the record is about `key`: otherwise the log was purged, or truncated
    /// by a rollback and filled anew.
    pub fn prior(
        &self,
        txn: TxnId,
        roll: RollPtr,
        index: IndexId,
        key: &[u8],
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<Prior> {
        let prior = self.read_record(txn, roll, acc, |bytes| Prior::of_record(bytes, index, key, image))?;
        Ok(prior.unwrap_or(Prior::Gone))
    }

    /// Whether the change of `key` at `roll` put a delete mark. `None`: the record is not there any
    /// more.
    pub fn put_mark(
        &self,
        txn: TxnId,
        roll: RollPtr,
        index: IndexId,
        key: &[u8],
        acc: &Access<'_>,
    ) -> Result<Option<bool>> {
        let record = self.read_record(txn, roll, acc, |bytes| {
            let record = UndoRecord::decode(bytes)?;
            Some((record.index == index && record.key == key).then_some(record.deletes))
        })?;
        Ok(record.flatten())
    }

    /// What `read` makes of the record of `txn` at `roll`; `None` if it is not there any more.
    fn read_record<R>(
        &self,
        txn: TxnId,
        roll: RollPtr,
        acc: &Access<'_>,
        read: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Result<Option<R>> {
        let page = self.store.pool().fix_shared(self.file.space(), roll.page(), acc)?;
        let undo = UndoPage::new(&page).filter(|page| page.owner() == txn);
        let slot = u16::try_from(roll.offset()).ok();
        match undo.zip(slot).and_then(|(undo, slot)| undo.record(slot)) {
            Some(bytes) => read(bytes).map(Some).ok_or_else(|| self.damaged(roll.page())),
            None => Ok(None),
        }
    }

    /// Latches a directory page within `mtr`.
    fn fix_directory<'a>(&'a self, mtr: &mut Mtr<'a>, no: PageNo) -> Result<PageRef> {
        let page = mtr.fix(self.file.space(), no)?;
        if Directory::new(mtr.bytes(page)).is_none() {
            return Err(self.damaged(no));
        }
        Ok(page)
    }

    /// Latches an undo page within `mtr`.
    pub fn fix<'a>(&self, mtr: &mut Mtr<'a>, no: PageNo) -> Result<PageRef> {
        let page = mtr.fix(self.file.space(), no)?;
        if UndoPage::new(mtr.bytes(page)).is_none() {
            return Err(self.damaged(no));
        }
        Ok(page)
    }
}
