//! How logs come on the shelf, and what moves on from there. The protocol is in
//! [`crate::purge::shelf`].

use holdfast_base::{CommitNo, Error, IndexId, PageNo, Result, RollPtr, TxnId};
use holdfast_metrics::Counter;
use holdfast_pool::{Access, AccessKind};
use smallvec::SmallVec;
use std::sync::Arc;

use crate::mvcc::view::View;
use crate::purge::history::{BATCH_LOGS, CommittedLog};
use crate::purge::purger::Purger;
use crate::purge::shelf::{Batch, Shelf, ShelvedLog};
use crate::undo::UndoPage;
use crate::undo::space::Prior;

/// Bytes beyond which no further log is added to a batch: that is what purge moves on at a time.
const BATCH_BYTES: usize = 16 << 10;

/// A log in the queue that may be shelved.
struct Candidate {
    txn: TxnId,
    no: CommitNo,
    page: PageNo,
    size: usize,
}

impl Purger {
    /// True if only older views keep this log from being purged, and it is small enough for the
    /// shelf.
    pub(crate) fn is_shelvable(&self, committed: &CommittedLog) -> bool {
        committed.is_retirable() && self.shelf.takes(Shelf::size_of(&committed.log))
    }

    /// Puts a batch of logs from the front of the queue on the shelf, if a view is older and there
    /// is room, and frees their pages. Returns how many; 0 also if another thread was quicker.
    ///
    /// # Errors
    /// The errors of reading the logs; they stay where they are.
    pub(crate) fn shelve(&self) -> Result<usize> {
        let candidates = self.candidates();
        if candidates.is_empty() {
            return Ok(0);
        }
        let acc = self.store.pool().access(AccessKind::Purge);
        let batch = Arc::new(self.copy_logs(&candidates, &acc)?);
        let (n, mut crowded) = (batch.logs().len(), false);
        let taken = self.history.take_run(n, batch.first(), batch.last(), || crowded = self.shelf.place(&batch));
        let Some(taken) = taken else { return Ok(0) };
        self.shelf.list(&batch);
        for mut committed in taken {
            // Nothing that can fail: there is no extension to give back.
            let _ = self.retire_quiet(&mut committed, &acc);
        }
        self.metrics.add(Counter::PurgedTransactions, n as u64);
        self.metrics.add(Counter::LogsShelved, n as u64);
        if crowded {
            self.background.wake();
        }
        Ok(n)
    }

    /// The logs at the front of the queue that are to be shelved: none if the first one waits for
    /// no view.
    fn candidates(&self) -> SmallVec<[Candidate; BATCH_LOGS]> {
        let (mut found, mut bytes, room) = (SmallVec::new(), 0, self.shelf.room());
        let oldest = self.views.oldest();
        self.history.look(|committed| {
            let size = Shelf::size_of(&committed.log);
            let fits = bytes + size <= room && (found.is_empty() || bytes + size <= BATCH_BYTES);
            if found.len() == BATCH_LOGS || !fits || committed.no <= oldest || !self.is_shelvable(committed) {
                return false;
            }
            bytes += size;
            found.push(Candidate { txn: committed.log.txn(), no: committed.no, page: committed.log.first(), size });
            true
        });
        found
    }

    /// A batch of these logs, up to one that cannot be copied.
    ///
    /// # Errors
    /// Why the first one cannot be: damage, too, if it has gone meanwhile.
    fn copy_logs(&self, candidates: &[Candidate], acc: &Access<'_>) -> Result<Batch> {
        let mut batch = Batch::with_capacity(candidates.len(), candidates.iter().map(|c| c.size).sum());
        for candidate in candidates {
            match self.copy_log(candidate, &mut batch, acc) {
                Ok(()) => {}
                Err(error) if batch.logs().is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(batch)
    }

    fn copy_log(&self, candidate: &Candidate, batch: &mut Batch, acc: &Access<'_>) -> Result<()> {
        let &Candidate { txn, no, page, .. } = candidate;
        let latched = self.store.pool().fix_shared(self.undo.file().space(), page, acc)?;
        let undo = UndoPage::new(&latched).filter(|undo| undo.owner() == txn);
        let is_copied = undo.is_some_and(|undo| batch.add(txn, no, page, undo));
        if is_copied { Ok(()) } else { Err(self.undo.damaged(page)) }
    }

    /// The number of the log that is first in the queue, and whether it can be copied. That counts
    /// only if the log is still there afterwards.
    pub(crate) fn try_to_copy_first(&self) -> Option<(CommitNo, Result<()>)> {
        let first = self.history.front(|first| {
            let log = &first.log;
            Candidate { txn: log.txn(), no: first.no, page: log.first(), size: Shelf::size_of(log) }
        })?;
        let acc = self.store.pool().access(AccessKind::Purge);
        Some((first.no, self.copy_log(&first, &mut Batch::default(), &acc)))
    }

    /// Forgets all that no view needs any more.
    pub(crate) fn tidy_shelf(&self) {
        while self.shelf.forget_unneeded(self.views.oldest()) {}
    }

    /// Follows a roll pointer to the undo page, or to the shelf.
    pub(crate) fn prior(
        &self,
        txn: TxnId,
        roll: RollPtr,
        index: IndexId,
        key: &[u8],
        acc: &Access<'_>,
        image: &mut Vec<u8>,
    ) -> Result<Prior> {
        match self.undo.prior(txn, roll, index, key, acc, image)? {
            Prior::Gone => {}
            found => return Ok(found),
        }
        let slot = u16::try_from(roll.offset()).unwrap_or(u16::MAX);
        match self.shelf.find(txn, slot, |record| Prior::of_record(record, index, key, image)) {
            Some(found) => found.ok_or_else(|| self.undo.damaged(roll.page())),
            None => Ok(Prior::Gone),
        }
    }

    /// Moves the first batch to the version tree while the shelf is crowded. The caller holds the
    /// purge mutex and no log.
    pub(crate) fn thin_shelf(&self, left: &mut usize) -> Result<()> {
        self.move_on(|_| !self.shelf.is_crowded(), left).map(drop)
    }

    /// Moves everything older than commit `no` to the version tree. Returns true if that was done.
    /// The caller holds the purge mutex and no older log.
    pub(crate) fn clear_shelf(&self, no: CommitNo, left: &mut usize) -> Result<bool> {
        self.move_on(|first| first.first() > no, left)
    }

    /// Moves batch after batch on until the first one says that it is `enough`.
    fn move_on(&self, enough: impl Fn(&Batch) -> bool, left: &mut usize) -> Result<bool> {
        while let Some(first) = self.shelf.first() {
            if enough(&first) {
                return Ok(true);
            }
            // What purge has begun with, and put back, is first in the queue, and older.
            let is_next = first.is_listed() && !self.history.front_is(|front| front.no < first.first());
            // A view that does not see the last commit may be opened until that is published.
            if *left == 0 || !is_next || first.last() > self.clock.last_commit() {
                return Ok(false);
            }
            *left = left.saturating_sub(first.records());
            self.keep_versions(&first)?;
            self.shelf.forget(&first);
        }
        Ok(true)
    }

    /// Puts what views need of a batch into the version tree. They become long, if they are not,
    /// lest they hold up ids, too.
    fn keep_versions(&self, batch: &Batch) -> Result<()> {
        if self.views.short_horizon() < batch.last() {
            self.metrics.add(Counter::ViewsMadeLong, self.views.make_long(batch.last(), &self.map));
        }
        let older = self.views.older_than(batch.last());
        let acc = self.store.pool().access(AccessKind::Purge);
        for log in batch.logs() {
            let older = &older[..older.partition_point(|view| view.commit_no() < log.no)];
            for slot in 0..if older.is_empty() { 0 } else { log.records } {
                self.keep_version(batch, log, slot, older, &acc).or_else(|error| self.pass_over(log.no, error))?;
            }
        }
        Ok(())
    }

    /// Puts what `older` views need of record `slot` of a log into the version tree.
    fn keep_version(
        &self,
        batch: &Batch,
        log: &ShelvedLog,
        slot: u16,
        older: &[Arc<View>],
        acc: &Access<'_>,
    ) -> Result<()> {
        let record = batch.record(log, slot).ok_or_else(|| self.undo.damaged(log.page))?;
        self.copy_record(log.txn, RollPtr::new(log.page, u32::from(slot)), record, older, acc)
    }

    /// Notes that a record of commit `no` is damaged, or met a page that was not returned: views
    /// that are older may miss its version, and the records behind it do not wait.
    ///
    /// # Errors
    /// `error`, if it is about something else.
    fn pass_over(&self, no: CommitNo, error: Error) -> Result<()> {
        if !self.is_about_a_page(&error) {
            return Err(error);
        }
        self.lost.note(no, &error);
        self.background.failed(error);
        Ok(())
    }
}
