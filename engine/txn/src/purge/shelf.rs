//! The shelf: what older views may still need of small committed transactions, in memory.
//!
//! A committed log can be freed when no view is older than the commit. With more sessions than
//! cores there nearly always is an older view: that of a statement whose thread the kernel has
//! preempted. Each transaction that commits meanwhile would leave an undo page that waits, and many
//! such pages would cycle through the pool. If purge did not wait for such a view it would copy
//! versions for it, to a tree with pages and log of its own, and drop them a few milliseconds
//! later. So the records of a small log that only views hold back are copied to the shelf, and the
//! next transaction uses its page at once. What no view needs any more is forgotten. Nothing is
//! logged, and no page is written, for either.
//!
//! On the shelf come logs of one page of which purge wants nothing but to wait (no record put a
//! delete mark or replaced an overflow chain), never those of active or prepared transactions. A
//! crash empties the shelf, as it ends the views: the page of a log that was shelved says what that
//! of any retired log says (see [`crate::purge`]).
//!
//! # Where a reader looks
//! Undo page, shelf, version tree, in this order; what leaves one of them is in the next one
//! before, if a view needs it:
//! * The page of a shelved log is freed after the log can be found here. A reader that finds
//!   another owner on the page has taken the latch after that owner signed the page, and finds the
//!   log here.
//! * A log leaves the shelf when no view is older, or after what older views need of it is in the
//!   version tree.
//!
//! A reader that finds nothing in all three places reads the entry again: one that has not changed
//! has no version for this view.
//!
//! # Order
//! Everything goes in commit order: *the shelf is older than the queue*, and the oldest log
//! leaves first. A record that is gone means "look in the version tree", where the image that a
//! view needs must be by then, though an older log has it. So no log that a view is older than may
//! be freed before all older logs are. Therefore a batch is taken from the front of the queue and
//! placed at the end of the shelf under the mutex of the queue; and the holder of the purge mutex
//! that copies for views takes the older one of the first logs of shelf and queue. (It may be the
//! one of the queue: purge puts back what it has not finished.)
//!
//! Committers shelve without the purge mutex. A committer reads the front of the queue, copies the
//! records, and takes the logs if they are still the first ones; else another committer was
//! quicker, and it discards the copies. A committer that is preempted in the middle of this delays
//! no other thread. From the moment when a batch is taken until all its logs can be found it is not
//! *listed*; it cannot leave the shelf before, and its pages still have the records.
//!
//! # Memory
//! Up to the limit logs come here. From half of it on, purge moves what was shelved first to the
//! version tree, once for each entry that a view needs: one held snapshot costs a version per
//! changed row. What changed in between is seen by no view and is dropped. So a view costs nothing
//! there unless it is open while half the shelf is filled. From three quarters on committers help,
//! each a little; when it is full, logs wait in the queue.
//!
//! # Lock order
//! purge mutex -> page latches; mutex of the queue -> order of the shelf. Where logs are found:
//! nothing is locked under it.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use holdfast_base::HashMap;
use holdfast_base::codec::get_u16;
use holdfast_base::{CommitNo, PageNo, ShortMutex, TxnId};

use crate::undo::{UndoLog, UndoPage};

/// Parts of the table in which logs are found.
const SHARDS: usize = 16;
/// Batches that a committer forgets at a time.
const FORGOTTEN_AT_ONCE: usize = 8;
/// Entries of a part of the table whose memory is kept when the last one has gone.
const KEPT_ENTRIES: usize = 256;
/// Memory of a batch beside logs and records, about.
const PER_BATCH: usize = 160;
/// Memory of a log beside its records: its description, and where it is found, in a table that may
/// be half empty.
const PER_LOG: usize = size_of::<ShelvedLog>() + 3 * size_of::<(TxnId, Found)>();

/// One log, by where in the bytes of its batch it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShelvedLog {
    pub txn: TxnId,
    pub no: CommitNo,
    /// Its page was this one.
    pub page: PageNo,
    /// Number of records.
    pub records: u16,
    /// Two bytes for the beginning of each record, counted from behind the last of these; then the
    /// records.
    begin: u32,
    end: u32,
}

/// Logs that were one behind the other in the queue.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    logs: Vec<ShelvedLog>,
    bytes: Vec<u8>,
    listed: AtomicBool,
}

impl Batch {
    /// An empty batch for `logs` logs, which take `size` bytes in all, by [`Shelf::size_of`].
    pub fn with_capacity(logs: usize, size: usize) -> Batch {
        let bytes = Vec::with_capacity(size.saturating_sub(logs * PER_LOG));
        Batch { logs: Vec::with_capacity(logs), bytes, listed: AtomicBool::new(false) }
    }

    /// Copies the log on `page`, number `no`. Returns false, and adds nothing, if the offset of a
    /// record is out of range.
    pub fn add(&mut self, txn: TxnId, commit: CommitNo, no: PageNo, page: UndoPage<'_>) -> bool {
        let begin = self.bytes.len();
        let (first, records) = (crate::undo::page::body(true), page.count());
        for slot in 0..records {
            let Some(at) = page.offset(slot).filter(|at| (first..page.end()).contains(at)) else {
                self.bytes.truncate(begin);
                return false;
            };
            self.bytes.extend_from_slice(&(at - first).to_le_bytes());
        }
        self.bytes.extend_from_slice(page.records());
        let (begin, end) = (begin as u32, self.bytes.len() as u32);
        self.logs.push(ShelvedLog { txn, no: commit, page: no, records, begin, end });
        true
    }

    /// The logs, oldest first.
    pub fn logs(&self) -> &[ShelvedLog] {
        &self.logs
    }

    /// The bytes of record `slot` of `log`: up to the next record, or to the end of the log.
    pub fn record(&self, log: &ShelvedLog, slot: u16) -> Option<&[u8]> {
        let bytes = self.bytes.get(log.begin as usize..log.end as usize)?;
        if slot >= log.records {
            return None;
        }
        let begin = |slot: u16| {
            let at = get_u16(bytes, 2 * usize::from(slot))?;
            Some(2 * usize::from(log.records) + usize::from(at))
        };
        let end = if slot + 1 < log.records { begin(slot + 1)? } else { bytes.len() };
        bytes.get(begin(slot)?..end)
    }

    /// The number of the first commit in it.
    pub fn first(&self) -> CommitNo {
        self.logs.first().map_or(CommitNo(0), |log| log.no)
    }

    /// The number of the last commit in it.
    pub fn last(&self) -> CommitNo {
        self.logs.last().map_or(CommitNo(0), |log| log.no)
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.logs.iter().map(|log| usize::from(log.records)).sum()
    }

    /// True if all its logs can be found: before, it may not leave the shelf.
    pub fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    fn memory(&self) -> u64 {
        (PER_BATCH + self.logs.len() * PER_LOG + self.bytes.capacity()) as u64
    }
}

/// Which log of which batch.
type Found = (Arc<Batch>, u32);

/// The shelf. One per database.
pub(crate) struct Shelf {
    limit: u64,
    /// Oldest first.
    order: ShortMutex<VecDeque<Arc<Batch>>>,
    /// The last commit of the first batch; `u64::MAX` if there is none. Changed under the mutex.
    front: AtomicU64,
    bytes: AtomicU64,
    found: [CachePadded<ShortMutex<HashMap<TxnId, Found>>>; SHARDS],
}

impl Shelf {
    /// An empty shelf for `limit` bytes.
    pub fn new(limit: u64) -> Shelf {
        Shelf {
            limit,
            order: ShortMutex::default(),
            front: AtomicU64::new(u64::MAX),
            bytes: AtomicU64::new(0),
            found: std::array::from_fn(|_| CachePadded::new(ShortMutex::new(HashMap::default()))),
        }
    }

    /// Bytes of what is on it.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.front.load(Ordering::Acquire) == u64::MAX
    }

    /// Memory that the records of a log of one page take, with all that goes with them.
    pub fn size_of(log: &UndoLog) -> usize {
        PER_LOG + log.record_bytes() + 2 * log.records() as usize
    }

    /// True if it takes logs of this size at all.
    pub fn takes(&self, size: usize) -> bool {
        (PER_BATCH + size) as u64 <= self.limit / 4
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> usize {
        usize::try_from(self.limit.saturating_sub(self.bytes())).unwrap_or(usize::MAX).saturating_sub(PER_BATCH)
    }

    /// True if what came first has to move on.
    pub fn is_crowded(&self) -> bool {
        self.bytes() > self.limit / 2
    }

    /// True if committers should help.
    pub fn is_nearly_full(&self) -> bool {
        self.bytes() > self.limit / 4 * 3
    }

    /// Places a batch behind the others; [`Shelf::list`] has to follow. Called under the mutex of
    /// the queue that its logs are taken from. Returns whether purge has to be told now that it is
    /// getting crowded.
    pub fn place(&self, batch: &Arc<Batch>) -> bool {
        let (size, mark) = (batch.memory(), self.limit / 2 + self.limit / 8);
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        let mut order = self.order.lock();
        order.push_back(Arc::clone(batch));
        self.show_front(&order);
        before <= mark && before + size > mark
    }

    fn show_front(&self, order: &VecDeque<Arc<Batch>>) {
        self.front.store(order.front().map_or(u64::MAX, |batch| batch.last().0), Ordering::Release);
    }

    fn shard(&self, txn: TxnId) -> &ShortMutex<HashMap<TxnId, Found>> {
        &self.found[txn.0 as usize % SHARDS]
    }

    /// Makes the logs of a batch that was placed so be found.
    pub fn list(&self, batch: &Arc<Batch>) {
        for (log, n) in batch.logs.iter().zip(0..) {
            self.shard(log.txn).lock().insert(log.txn, (Arc::clone(batch), n));
        }
        batch.listed.store(true, Ordering::Release);
    }

    /// Shows the bytes from record `slot` of the log of `txn` on, if that log is here.
    pub fn find<R>(&self, txn: TxnId, slot: u16, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let (batch, n) = self.shard(txn).lock().get(&txn).cloned()?;
        let log = batch.logs.get(n as usize)?;
        batch.record(log, slot).map(look)
    }

    /// What came first, if there is anything.
    pub fn first(&self) -> Option<Arc<Batch>> {
        self.order.lock().front().cloned()
    }

    /// Forgets `batch`, which was first, unless another thread has.
    pub fn forget(&self, batch: &Arc<Batch>) {
        let mut order = self.order.lock();
        if order.front().is_some_and(|first| Arc::ptr_eq(first, batch)) {
            order.pop_front();
            self.show_front(&order);
            drop(order);
            self.unlist(batch);
        }
    }

    /// Forgets some of what is not newer than `oldest`, the oldest view, unless another thread is
    /// doing so. Returns true if there may be more.
    pub fn forget_unneeded(&self, oldest: CommitNo) -> bool {
        for _ in 0..FORGOTTEN_AT_ONCE {
            if self.front.load(Ordering::Acquire) > oldest.0 {
                return false;
            }
            let Some(mut order) = self.order.try_lock() else { return false };
            if !order.front().is_some_and(|first| first.last() <= oldest && first.is_listed()) {
                return false;
            }
            let batch = order.pop_front();
            self.show_front(&order);
            drop(order);
            batch.iter().for_each(|batch| self.unlist(batch));
        }
        true
    }

    fn unlist(&self, batch: &Batch) {
        for log in &batch.logs {
            let mut found = self.shard(log.txn).lock();
            found.remove(&log.txn);
            if found.is_empty() && found.capacity() > KEPT_ENTRIES {
                found.shrink_to(KEPT_ENTRIES);
            }
        }
        self.bytes.fetch_sub(batch.memory(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::LogState;
    use crate::undo::page::{OFF_OWNER, body, counters, header, slot_offset};
    use holdfast_base::page::{OFF_TYPE, PageType};

    /// A first page with these records.
    fn page(txn: TxnId, records: &[&[u8]]) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[OFF_TYPE] = PageType::Undo as u8;
        let header = header(txn, true, LogState::Committed, PageNo(7), PageNo::NONE);
        page[OFF_OWNER..OFF_OWNER + header.len()].copy_from_slice(&header);
        let mut end = usize::from(body(true));
        for (slot, record) in records.iter().enumerate() {
            let at = slot_offset(page.len(), slot as u16);
            page[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
            page[end..end + record.len()].copy_from_slice(record);
            end += record.len();
        }
        let (at, bytes) = counters(records.len() as u16, end as u16);
        page[usize::from(at)..usize::from(at) + 4].copy_from_slice(&bytes);
        page
    }

    /// A batch of logs of transactions `txns`, whose commits have the same numbers.
    fn batch(txns: std::ops::Range<u64>) -> Arc<Batch> {
        let mut batch = Batch::default();
        for n in txns {
            let page = page(TxnId(n), &[b"first", &n.to_le_bytes()]);
            assert!(batch.add(TxnId(n), CommitNo(n), PageNo(7), UndoPage::new(&page).unwrap()));
        }
        Arc::new(batch)
    }

    fn put(shelf: &Shelf, txns: std::ops::Range<u64>) -> bool {
        let batch = batch(txns);
        let crowded = shelf.place(&batch);
        shelf.list(&batch);
        crowded
    }

    fn found(shelf: &Shelf, txn: u64, slot: u16) -> Option<Vec<u8>> {
        shelf.find(TxnId(txn), slot, <[u8]>::to_vec)
    }

    #[test]
    fn records_are_found_by_owner_and_number() {
        let shelf = Shelf::new(1 << 20);
        put(&shelf, 1..5);
        put(&shelf, 5..9);
        for n in 1..9u64 {
            assert!(found(&shelf, n, 0).unwrap().starts_with(b"first"));
            assert_eq!(found(&shelf, n, 1).unwrap(), n.to_le_bytes());
            assert_eq!(found(&shelf, n, 2), None);
        }
        assert_eq!(found(&shelf, 9, 0), None);
    }

    #[test]
    fn a_page_with_a_bad_offset_is_not_shelved() {
        let mut bytes = page(TxnId(1), &[b"record", b"another"]);
        bytes[4092..4094].copy_from_slice(&3u16.to_le_bytes());
        let mut batch = Batch::default();
        assert!(!batch.add(TxnId(1), CommitNo(1), PageNo(7), UndoPage::new(&bytes).unwrap()));
        assert!(batch.logs().is_empty() && batch.bytes.is_empty());
    }

    #[test]
    fn what_no_view_needs_is_forgotten_oldest_first_and_all_memory_comes_back() {
        let shelf = Shelf::new(1 << 20);
        for n in 0..40 {
            put(&shelf, 10 * n + 1..10 * n + 11);
        }
        let full = shelf.bytes();
        assert!(!shelf.forget_unneeded(CommitNo(9)));
        assert_eq!(shelf.bytes(), full, "the tenth of the first batch is needed");
        assert!(!shelf.forget_unneeded(CommitNo(25)));
        assert_eq!((found(&shelf, 20, 0), found(&shelf, 21, 0).is_some()), (None, true));
        // A few at a time, so that no thread waits long.
        assert!(shelf.forget_unneeded(CommitNo(400)) && !shelf.is_empty());
        while shelf.forget_unneeded(CommitNo(400)) {}
        assert_eq!((shelf.is_empty(), shelf.bytes()), (true, 0));
        assert_eq!(found(&shelf, 400, 0), None);
    }

    #[test]
    fn a_batch_that_is_not_listed_stays() {
        let shelf = Shelf::new(1 << 20);
        let first = batch(1..3);
        shelf.place(&first);
        put(&shelf, 3..5);
        assert!(!shelf.forget_unneeded(CommitNo(9)));
        assert!(!shelf.first().unwrap().is_listed() && found(&shelf, 1, 0).is_none() && found(&shelf, 3, 0).is_some());
        shelf.list(&first);
        shelf.forget(&first);
        shelf.forget(&first);
        assert_eq!(shelf.first().unwrap().first(), CommitNo(3));
        assert!(!shelf.forget_unneeded(CommitNo(9)));
        assert_eq!((shelf.is_empty(), shelf.bytes()), (true, 0));
    }

    #[test]
    fn purge_is_told_once_that_it_gets_crowded() {
        let size = batch(1..3).memory();
        let shelf = Shelf::new(8 * size);
        let told: Vec<bool> = (0..8).map(|n| put(&shelf, 2 * n + 1..2 * n + 3)).collect();
        assert_eq!(told, [false, false, false, false, false, true, false, false]);
        assert!(shelf.is_crowded() && shelf.room() == 0 && shelf.takes(10) && !Shelf::new(0).takes(10));
    }
}
