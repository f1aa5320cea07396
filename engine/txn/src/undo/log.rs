//! One undo log: appended to by its transaction, consumed from its end by rollback and by purge.
//!
//! # Protocol
//! A record is written in the mini-transaction of the change that it undoes, or in one of its own
//! before. A rollback applies records from the last to the first and cuts the log behind them; so
//! does purge. Records are cut *after* what they ask for was done, except that overflow chains are
//! freed after their record was cut: a crash in between loses a chain to `verify`, the other order
//! would free it twice. (Purge shortens a long chain before, and the record with it.)
//!
//! A record that turned out to be for nothing (its row had changed meanwhile) is cut at once: in a
//! committed log every record is about a change that was made.
//!
//! Most transactions are small, and what purge has to do for them is nothing, or can be done twice.
//! Then it logs nothing either: the log is *retired*, its first page is free in memory alone, and
//! what it says lasts until the next transaction takes the page over.

use holdfast_base::page::PageType;
use holdfast_base::{CommitNo, Error, IndexId, Lsn, PageId, PageNo, Result, RollPtr, TxnId};
use holdfast_metrics::thread_group;
use holdfast_pool::Access;
use holdfast_tree::op::PageOp;
use holdfast_tree::{FREE_FRAMES, Mtr, PageRef};
use holdfast_wal::SpaceClass;
use smallvec::{SmallVec, smallvec};

use super::backwards::Backwards;
use super::page::{self, LogState, OFF_OWNER, OFF_STATE, UndoPage, XID_MAX};
use super::space::{FoundLog, SMALL_MTR, TakenPage, UndoSpace};

/// One page of a log, as far as it is known in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPage {
    pub(super) no: PageNo,
    /// Number of records in the pages before.
    pub(super) before: u64,
}

/// An undo log with records, or about to have some. The pages are described in memory; the bytes
/// are in the pool.
#[derive(Debug)]
pub(crate) struct UndoLog {
    txn: TxnId,
    /// One for most: the thread that frees the log then frees no memory that another thread has
    /// allocated.
    pub(super) pages: SmallVec<[LogPage; 1]>,
    /// The group of threads that is to have the first page again.
    group: u32,
    /// Records in the last page, and where they end.
    count: u16,
    end: u16,
    /// The first page says that the log is this transaction's.
    begun: bool,
    /// The first page says that the transaction is prepared.
    prepared: bool,
    /// Which records, perhaps undone since, may ask something of purge, a bit each; the last bit
    /// stands for all others. See [`UndoLog::asks_purge`].
    asking: u64,
    /// Pages of the overflow chains that the records keep for older versions, in this run.
    chain_pages: u32,
    /// False if an extension could not be read when the log was described again: records on it, and
    /// on those before it but the first page, are not known.
    whole: bool,
}

/// The bit of record number `n` in [`UndoLog::asking`].
fn asking_bit(n: u64) -> u64 {
    1 << n.min(63)
}

impl UndoLog {
    /// A log for `txn` on a page that was taken before the id was given out. Nothing is written
    /// yet.
    pub fn new(space: &UndoSpace, txn: TxnId, page: TakenPage) -> UndoLog {
        space.count_pages(1);
        let TakenPage { no, group } = page;
        let pages = smallvec![LogPage { no, before: 0 }];
        UndoLog {
            txn,
            pages,
            group: group as u32,
            count: 0,
            end: page::body(true),
            begun: false,
            prepared: false,
            asking: 0,
            chain_pages: 0,
            whole: true,
        }
    }

    /// The log of an earlier run, described again, as far as its pages can be read.
    ///
    /// # Errors
    /// Damage of the first page; the errors of reading it.
    pub fn reopen(space: &UndoSpace, found: &FoundLog, acc: &Access<'_>) -> Result<UndoLog> {
        let pages_max = space.file().header(acc)?.pages as usize;
        let (last, first_count, first_end) = {
            let first = space.store().pool().fix_shared(space.file().space(), found.first, acc)?;
            let undo = UndoPage::new(&first).filter(|p| p.owner() == found.txn && p.is_first());
            let undo = undo.ok_or_else(|| space.damaged(found.first))?;
            (undo.last(), undo.count(), undo.end())
        };
        let (mut no, mut whole, mut tail, mut ahead) = (last, true, Vec::new(), Backwards::default());
        while no != found.first {
            let mut read =
                || ahead.bring_in(space, no, acc).and_then(|()| UndoLog::extension(space, no, found.txn, acc));
            let page = match read() {
                // The rows of what is not known stay locked until the next open.
                Err(error) if error.is_unread() => read(),
                page => page,
            };
            match page {
                Ok((count, end, prev)) if tail.len() < pages_max => {
                    tail.push((no, count, end));
                    no = prev;
                }
                Err(error) if !error.is_damage() && !error.is_unread() => return Err(error),
                _ => {
                    whole = false;
                    break;
                }
            }
        }
        let (mut before, mut pages) = (0, SmallVec::with_capacity(tail.len() + 1));
        for &(no, count, _) in std::iter::once(&(found.first, first_count, first_end)).chain(tail.iter().rev()) {
            pages.push(LogPage { no, before });
            before += u64::from(count);
        }
        space.count_pages(pages.len() as i64);
        let (count, end) = tail.first().map_or((first_count, first_end), |&(_, count, end)| (count, end));
        let (txn, group, prepared) = (found.txn, thread_group() as u32, found.state == LogState::Prepared);
        Ok(UndoLog { txn, pages, group, count, end, begun: true, prepared, asking: u64::MAX, chain_pages: 0, whole })
    }

    /// How many records an extension has, where they end, and the page before it.
    fn extension(space: &UndoSpace, no: PageNo, txn: TxnId, acc: &Access<'_>) -> Result<(u16, u16, PageNo)> {
        let page = space.store().pool().fix_shared(space.file().space(), no, acc)?;
        let undo =
            UndoPage::new(&page).filter(|p| p.owner() == txn && !p.is_first()).ok_or_else(|| space.damaged(no))?;
        Ok((undo.count(), undo.end(), undo.prev()))
    }

    /// Refuses a log some of whose records are not known: it cannot be undone, purged or freed.
    ///
    /// # Errors
    /// The damage.
    pub fn check_whole(&self, space: &UndoSpace) -> Result<()> {
        let what = "a page of the undo log that begins there cannot be read";
        let error = || space.file().store().damaged(PageId::new(space.file().id(), self.first()), what);
        if self.whole { Ok(()) } else { Err(error()) }
    }

    /// True if all records are known.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    pub fn txn(&self) -> TxnId {
        self.txn
    }

    pub fn first(&self) -> PageNo {
        self.pages[0].no
    }

    fn tail(&self) -> LogPage {
        self.pages[self.pages.len() - 1]
    }

    /// True if the log says on its first page whose it is. If not, it has never had a record.
    pub fn is_begun(&self) -> bool {
        self.begun
    }

    /// True if the log says on its first page that the transaction is prepared.
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// True if purge has to read the records even if no old view needs them: one put a delete mark,
    /// or replaced a version whose overflow chain is to be freed, or it is not known.
    pub fn asks_purge(&self) -> bool {
        self.asking != 0
    }

    /// The next record asks purge for something.
    pub fn ask_purge(&mut self) {
        self.asking |= asking_bit(self.records());
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.tail().before + u64::from(self.count)
    }

    /// Bytes of the records of a log of one page.
    pub fn record_bytes(&self) -> usize {
        usize::from(self.end.saturating_sub(page::body(true)))
    }

    /// Number of pages.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Pages of the log, and of the large values that are kept for its records.
    pub fn held_pages(&self) -> u64 {
        self.pages.len() as u64 + u64::from(self.chain_pages)
    }

    /// A record keeps a chain of so many pages for the version before.
    pub fn keep_chain(&mut self, pages: u32) {
        if !holdfast_base::planted!("large-values-not-counted") {
            self.chain_pages = self.chain_pages.saturating_add(pages);
        }
    }

    /// Takes off the pages of the chain of a record that is done.
    pub fn uncount_chain(&mut self, pages: u32) {
        self.chain_pages = self.chain_pages.saturating_sub(pages);
    }

    /// Takes off those of all chains: the version tree has the versions that are needed, with their
    /// chains.
    pub fn uncount_chains(&mut self) {
        self.chain_pages = 0;
    }

    /// Appends a record; returns where it is. `limit`: pages that the log may have.
    ///
    /// # Errors
    /// [`Error::LimitReached`]; [`Error::DiskFull`]; the errors of the pool and the log. Nothing
    /// has changed then.
    pub fn append(&mut self, space: &UndoSpace, record: &[u8], limit: u64, acc: &Access<'_>) -> Result<RollPtr> {
        let page_size = space.page_size();
        if self.has_room(page_size, record.len()) {
            let ticket = space.store().reserve(SMALL_MTR + record.len(), SpaceClass::User)?;
            let mut mtr = space.store().begin(ticket, acc);
            let tail = self.fix_tail(space, &mut mtr)?;
            let roll = self.put(&mut mtr, tail, record, page_size)?;
            mtr.commit()?;
            return Ok(roll);
        }
        if record.len() + 2 > page::capacity(page_size) {
            return Err(Error::invalid(format!("an undo record of {} bytes does not fit a page", record.len())));
        }
        if self.pages.len() as u64 >= limit {
            return Err(Error::LimitReached(format!(
                "the transaction has written {} bytes of undo, which is the limit of one; commit more often, or raise \
                 the undo limit",
                limit * page_size as u64
            )));
        }
        self.extend(space, record, acc)
    }

    /// True if the last page has room for a record of `len` bytes.
    pub fn has_room(&self, page_size: usize, len: usize) -> bool {
        let used = usize::from(self.end) + 2 * usize::from(self.count);
        len + 2 <= page_size - used && usize::from(self.end) + len < 1 << 16
    }

    /// Where the next record will be, if it finds room in the last page.
    pub fn next_roll(&self) -> RollPtr {
        RollPtr::new(self.tail().no, u32::from(self.count))
    }

    /// Latches the last page within `mtr`.
    pub fn fix_tail(&self, space: &UndoSpace, mtr: &mut Mtr<'_>) -> Result<PageRef> {
        space.fix(mtr, self.tail().no)
    }

    /// Puts a record into the last page, which has room for it and is latched as `tail`. The log is
    /// wrong in memory if `mtr` is not committed then; but the database is poisoned by that.
    pub fn put(&mut self, mtr: &mut Mtr<'_>, tail: PageRef, record: &[u8], page_size: usize) -> Result<RollPtr> {
        let roll = self.next_roll();
        let slot = page::slot_offset(page_size, self.count) as u16;
        let end = self.end + record.len() as u16;
        mtr.apply(tail, &PageOp::WriteBytes { offset: self.end, bytes: record })?;
        mtr.apply(tail, &PageOp::WriteBytes { offset: slot, bytes: &self.end.to_le_bytes() })?;
        if self.begun {
            let (offset, bytes) = page::counters(self.count + 1, end);
            mtr.apply(tail, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        } else {
            self.debug_check_id(mtr, tail);
            let bytes = page::beginning(self.txn, self.count + 1, end);
            mtr.apply(tail, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &bytes })?;
            self.begun = true;
        }
        self.count += 1;
        self.end = end;
        Ok(roll)
    }

    /// The id on a first page only grows (*owners grow*): else the id of rows on disk could be
    /// given out again after a crash.
    fn debug_check_id(&self, mtr: &Mtr<'_>, first: PageRef) {
        let before = UndoPage::new(mtr.bytes(first)).map(UndoPage::owner);
        debug_assert!(before.is_some_and(|before| before < self.txn), "{} signs a page of {before:?}", self.txn);
    }

    /// Adds a page with `record` in it, in one mini-transaction.
    fn extend(&mut self, space: &UndoSpace, record: &[u8], acc: &Access<'_>) -> Result<RollPtr> {
        let ticket = space.store().reserve(2 * SMALL_MTR + record.len(), SpaceClass::User)?;
        let prev = self.tail();
        let _frames = space.file().reserve_alloc(prev.no, 2, acc)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        let tail = space.file().alloc_new(&mut mtr, prev.no)?;
        let no = mtr.id(tail).no;
        mtr.apply(tail, &PageOp::InitPage { page_type: PageType::Undo, index: IndexId(0) })?;
        if !self.begun {
            self.debug_check_id(&mtr, first);
            let header = page::header(self.txn, true, LogState::Active, self.first(), PageNo::NONE);
            mtr.apply(first, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &header })?;
            self.begun = true;
        }
        mtr.apply(first, &PageOp::WriteBytes { offset: page::LAST_AT, bytes: &no.0.to_le_bytes() })?;
        let header = page::header(self.txn, false, LogState::Active, PageNo::NONE, prev.no);
        mtr.apply(tail, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &header })?;
        self.pages.push(LogPage { no, before: prev.before + u64::from(self.count) });
        (self.count, self.end) = (0, page::body(false));
        let roll = self.put(&mut mtr, tail, record, space.page_size())?;
        mtr.commit()?;
        space.count_pages(1);
        Ok(roll)
    }

    /// Copies the last record into `out` and says where it is; `None` if the log is empty.
    pub fn last_record(&mut self, space: &UndoSpace, acc: &Access<'_>, out: &mut Vec<u8>) -> Result<Option<RollPtr>> {
        if self.count == 0 && self.pages.len() > 1 {
            // A cut failed after the last record of a page was popped: without it the pages before
            // would be passed over.
            self.cut(space, acc)?;
        }
        if self.count == 0 {
            return Ok(None);
        }
        self.read(self.tail().no, self.count - 1, space, acc, out).map(Some)
    }

    /// Copies record number `n` into `out` and says where it is.
    pub fn record(&self, n: u64, space: &UndoSpace, acc: &Access<'_>, out: &mut Vec<u8>) -> Result<RollPtr> {
        let at = self.pages.partition_point(|p| p.before <= n) - 1;
        let LogPage { no, before } = self.pages[at];
        let slot = u16::try_from(n - before).map_err(|_| space.damaged(no))?;
        self.read(no, slot, space, acc, out)
    }

    fn read(&self, no: PageNo, slot: u16, space: &UndoSpace, acc: &Access<'_>, out: &mut Vec<u8>) -> Result<RollPtr> {
        let page = space.store().pool().fix_shared(space.file().space(), no, acc)?;
        let undo = UndoPage::new(&page).filter(|p| p.owner() == self.txn);
        let Some(bytes) = undo.and_then(|p| p.record(slot)) else { return Err(space.damaged(no)) };
        out.clear();
        out.extend_from_slice(bytes);
        Ok(RollPtr::new(no, u32::from(slot)))
    }

    /// Takes the last record for done, in memory: [`UndoLog::cut`] makes it so on the page. A page
    /// whose records are all done must be cut before the one before it is looked at; this says
    /// whether that is due.
    pub fn pop(&mut self) -> bool {
        self.count -= 1;
        self.count == 0
    }

    /// Takes [`UndoLog::pop`] back, behind which the cut has failed: the page has the record still.
    /// `pages`: how many the log had then. If the cut has given one back, the record is gone.
    pub fn unpop(&mut self, pages: usize) {
        if self.pages.len() == pages {
            self.count += 1;
        }
    }

    /// Pops the last records of a log of one page as long as they ask nothing of purge. Returns how
    /// many.
    pub fn pop_quiet(&mut self) -> u16 {
        let before = self.count;
        while self.pages.len() == 1 && self.count > 0 && self.asking & asking_bit(u64::from(self.count) - 1) == 0 {
            self.count -= 1;
        }
        before - self.count
    }

    /// Makes the pages say what [`UndoLog::pop`] did: later records are gone, also after a crash.
    pub fn cut(&mut self, space: &UndoSpace, acc: &Access<'_>) -> Result<()> {
        debug_assert!(!self.prepared, "a log that says prepared has all its records");
        let pages = self.pages.len();
        while self.count == 0 && self.pages.len() > 1 {
            self.drop_tail(space, acc)?;
        }
        // What is known of the last page now is what it says; or nothing was ever written.
        if self.pages.len() < pages || !self.begun {
            return Ok(());
        }
        let ticket = space.store().reserve(SMALL_MTR, SpaceClass::Rollback)?;
        let mut mtr = space.store().begin(ticket, acc);
        let tail = space.fix(&mut mtr, self.tail().no)?;
        let undo = UndoPage::new(mtr.bytes(tail)).ok_or_else(|| space.damaged(self.tail().no))?;
        if undo.owner() != self.txn || undo.count() <= self.count {
            self.end = undo.end();
            return Ok(()); // Nothing was popped since the last cut.
        }
        // Records lie one behind the other, so the first one that goes begins where the rest ends.
        self.end = undo.offset(self.count).ok_or_else(|| space.damaged(self.tail().no))?;
        let (offset, bytes) = page::counters(self.count, self.end);
        mtr.apply(tail, &PageOp::WriteBytes { offset, bytes: &bytes })?;
        mtr.commit()?;
        Ok(())
    }

    /// Gives the last page, an extension, back, with the records on it: they are done, or ask
    /// nothing.
    pub fn drop_tail(&mut self, space: &UndoSpace, acc: &Access<'_>) -> Result<()> {
        let ticket = space.store().reserve(2 * SMALL_MTR, SpaceClass::Rollback)?;
        let _frames = space.store().pool().reserve_frames(FREE_FRAMES + 3, acc)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        let tail = space.fix(&mut mtr, self.tail().no)?;
        let prev = self.pages[self.pages.len() - 2];
        let before = if prev.no == self.first() { first } else { space.fix(&mut mtr, prev.no)? };
        let undo = UndoPage::new(mtr.bytes(before)).ok_or_else(|| space.damaged(prev.no))?;
        let (count, end) = (undo.count(), undo.end());
        space.file().free_latched(&mut mtr, tail)?;
        mtr.apply(first, &PageOp::WriteBytes { offset: page::LAST_AT, bytes: &prev.no.0.to_le_bytes() })?;
        mtr.commit()?;
        self.pages.pop();
        (self.count, self.end) = (count, end);
        space.count_pages(-1);
        Ok(())
    }

    /// Marks the log prepared, with `xid`. Returns the log position to flush to.
    pub fn prepare(&mut self, space: &UndoSpace, xid: &[u8], acc: &Access<'_>) -> Result<Lsn> {
        if xid.len() > XID_MAX {
            return Err(Error::invalid(format!("an xid of {} bytes is longer than {XID_MAX}", xid.len())));
        }
        let ticket = space.store().reserve(SMALL_MTR, SpaceClass::User)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        let state = page::state(LogState::Prepared, xid.len(), CommitNo(0));
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_STATE as u16, bytes: &state })?;
        if !xid.is_empty() {
            mtr.apply(first, &PageOp::WriteBytes { offset: page::XID_AT, bytes: xid })?;
        }
        let lsn = mtr.commit()?;
        self.prepared = true;
        Ok(lsn)
    }

    /// Marks a log that is prepared active again, as it was before: the beginning of a rollback.
    /// Returns the log position to flush to; `None` if the log is not prepared.
    pub fn unprepare(&mut self, space: &UndoSpace, acc: &Access<'_>) -> Result<Option<Lsn>> {
        if !self.prepared {
            return Ok(None);
        }
        let ticket = space.store().reserve(SMALL_MTR, SpaceClass::Rollback)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        let state = page::state(LogState::Active, 0, CommitNo(0));
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_STATE as u16, bytes: &state })?;
        let lsn = mtr.commit()?;
        self.prepared = false;
        Ok(Some(lsn))
    }

    /// Latches the first page for [`UndoLog::mark_committed`], so that nothing is read between the
    /// commit record and the locks.
    pub fn begin_commit<'a>(&self, space: &'a UndoSpace, acc: &'a Access<'a>) -> Result<(Mtr<'a>, PageRef)> {
        let ticket = space.store().reserve(SMALL_MTR, SpaceClass::Rollback)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        Ok((mtr, first))
    }

    /// The commit record: marks the log committed, with a number as `docs/design/transactions.md`
    /// says; the log is [told](UndoLog::set_committed) afterwards.
    pub fn mark_committed(mut mtr: Mtr<'_>, first: PageRef, no: CommitNo) -> Result<Lsn> {
        let state = page::state(LogState::Committed, 0, no);
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_STATE as u16, bytes: &state })?;
        mtr.commit()
    }

    /// [`UndoLog::mark_committed`] was done for this log.
    pub fn set_committed(&mut self) {
        self.prepared = false;
    }

    /// Gives back the page of a log that was never begun.
    pub fn give_back_unbegun(&self, space: &UndoSpace) {
        debug_assert!(!self.begun && self.pages.len() == 1, "such a log has one page");
        space.put_unbegun(self.group as usize, self.first());
        space.count_pages(-1);
    }

    /// Frees the log: the end of a rollback, and of a purge that must not be repeated. All records
    /// must have been popped. After an error it may be tried again; after success the log must not
    /// be used any more.
    pub fn free(&mut self, space: &UndoSpace, acc: &Access<'_>) -> Result<()> {
        while self.pages.len() > 1 {
            self.drop_tail(space, acc)?;
        }
        if !self.begun {
            self.give_back_unbegun(space);
            return Ok(());
        }
        let ticket = space.store().reserve(SMALL_MTR, SpaceClass::Rollback)?;
        let mut mtr = space.store().begin(ticket, acc);
        let first = space.fix(&mut mtr, self.first())?;
        let header = page::header(self.txn, true, LogState::Free, self.first(), PageNo::NONE);
        mtr.apply(first, &PageOp::WriteBytes { offset: OFF_OWNER as u16, bytes: &header })?;
        mtr.commit()?;
        // Its page says that it is free: what is left is to give it back.
        self.retire(space, acc)
    }

    /// Ends the log of a committed transaction without a word in the log of the database: the first
    /// page goes on saying that it is committed, with the records that were never cut, until
    /// another transaction begins its log there. A crash before that brings it back, to be purged
    /// once more; so purging those records again must change nothing.
    ///
    /// # Errors
    /// The errors of giving extensions back. It may be tried again then.
    pub fn retire(&mut self, space: &UndoSpace, acc: &Access<'_>) -> Result<()> {
        while self.pages.len() > 1 {
            self.drop_tail(space, acc)?;
        }
        space.put_log(self.group as usize, self.first());
        space.count_pages(-1);
        Ok(())
    }
}

#[cfg(test)]
impl UndoLog {
    /// A log without records that no page knows of.
    pub fn in_memory(pages: usize) -> UndoLog {
        let pages = smallvec![LogPage { no: PageNo(7), before: 0 }; pages];
        UndoLog {
            txn: TxnId(9),
            pages,
            group: 0,
            count: 0,
            end: page::body(true),
            begun: true,
            prepared: false,
            asking: 0,
            chain_pages: 0,
            whole: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(count: u16, asking: &[u64]) -> UndoLog {
        let asking = asking.iter().fold(0, |bits, n| bits | asking_bit(*n));
        UndoLog { count, asking, ..UndoLog::in_memory(1) }
    }

    #[test]
    fn records_that_ask_nothing_are_popped_up_to_one_that_asks() {
        let mut log = log(6, &[2, 3]);
        assert_eq!((log.pop_quiet(), log.records()), (2, 4));
        assert_eq!((log.pop_quiet(), log.pop(), log.pop_quiet()), (0, false, 0));
        assert_eq!((log.pop(), log.pop_quiet(), log.records()), (false, 2, 0));
        assert_eq!(log.pop_quiet(), 0);
    }

    #[test]
    fn a_pop_that_is_taken_back_leaves_what_was_there() {
        let mut log = log(1, &[0]);
        assert!(log.pop());
        log.unpop(1);
        assert_eq!(log.records(), 1);
        // The record was on a page that has been given back.
        assert!(log.pop());
        log.unpop(2);
        assert_eq!(log.records(), 0);
    }

    #[test]
    fn of_many_records_the_later_ones_ask_as_one() {
        let mut log = log(100, &[70]);
        assert_eq!(log.pop_quiet(), 0, "one of those from 63 on needs purge, and it is not known which");
        for _ in 63..100 {
            log.pop();
        }
        assert_eq!((log.pop_quiet(), log.records()), (63, 0));
    }

    #[test]
    fn records_of_several_pages_are_all_read() {
        let mut log = log(3, &[]);
        log.pages.push(LogPage { no: PageNo(8), before: 5 });
        assert_eq!((log.pop_quiet(), log.records()), (0, 8));
    }
}
