//! How a locking cursor reads its entries: one after the other, and after some of them by a cover.
//! It reads them as a part of its scan, if it is one: large values, too, and pages that have left
//! the pool since the batch was read.

use std::mem;

use holdfast_base::Result;
use holdfast_lock::{CoverId, LockWait};
use holdfast_pool::Access;
use holdfast_tree::Spot;

use crate::cursor::locking::Locking;
use crate::cursor::row_cursor::{RowCursor, access};
use crate::entry::locked::{
    EarlyRelease, EntryRef, LockRequest, conflict, is_locked_by_id, is_locked_by_others, lock_and_read, read_covered,
};
use crate::entry::row::VersionHeader;
use crate::entry::values::Part;
use crate::entry::visibility::{Reader, split};
use crate::system::TxnSystem;

/// After so many entries a cursor locks those that follow as one: fewer may be the head of a queue,
/// of which others wait for single ones.
const COVER_AFTER: usize = if cfg!(sim) { 5 } else { 64 };

impl RowCursor {
    /// As [`RowCursor::lock_entry`], by extending the cover, if no other lock or wait is in its
    /// way.
    pub(super) fn cover_entry(&mut self, at: usize, cover: CoverId) -> Result<bool> {
        let Some(locking) = &self.locking else { return Ok(false) };
        let (system, index) = (&self.system, &self.index);
        let taken_back = system.locks.taken_back();
        if system.locks.cover_row(&self.owner, index.id(), cover, &self.key) {
            let acc = access(system, index, self.statement, self.plan);
            let mut payload = locking.shared.lock().read.take_payload();
            let seen = self.batch.spot(at).map(|spot| (spot, self.batch.get(at).1));
            let read = read_covered(system, &self.owner, EntryRef::new(index, &self.key), seen, &acc, &mut payload);
            if let Ok(Some(spot)) = read
                && system.locks.taken_back() == taken_back
            {
                let (mut value, before) = (mem::take(&mut self.value), acc.requests());
                let exists = self.value_of_locked(spot, payload, &acc, &mut value);
                let read = acc.requests() - before;
                drop(acc);
                (self.value, self.beside) = (value, self.beside + read);
                return exists;
            }
            locking.shared.lock().read.give_buffer(payload);
            system.locks.uncover_row(index.id(), cover);
            read?;
        }
        if let Some(locking) = &mut self.locking {
            (locking.cover, locking.locked) = (None, 0);
        }
        self.lock_entry(at)
    }

    /// Locks entry `at` of the batch and reads its newest version. False if there is no such entry,
    /// or if it is skipped.
    pub(super) fn lock_entry(&mut self, at: usize) -> Result<bool> {
        if self.is_gone(at)? {
            return Ok(false);
        }
        let Some(locking) = &mut self.locking else { return Ok(false) };
        locking.early_release = match locking.keep {
            true => EarlyRelease::Nothing,
            false => EarlyRelease::DownTo(self.system.locks.row_mode(&self.owner, self.index.id(), &self.key)),
        };
        locking.is_unlocked = false;
        let acc = access(&self.system, &self.index, self.statement, self.plan);
        let (system, index, mode, wait) = (&self.system, &self.index, locking.mode, locking.wait);
        let gives_way = locking.reading.is_some() && matches!(wait, LockWait::For(_)) && !locking.committed_if_locked;
        let attempt = if gives_way || locking.committed_if_locked { LockWait::NoWait } else { wait };
        let mut payload = locking.shared.lock().read.take_payload();
        let seen = self.batch.spot(at).map(|spot| (spot, self.batch.get(at).1));
        let request = LockRequest { owner: &self.owner, mode, wait: attempt };
        match lock_and_read(system, EntryRef::new(index, &self.key), request, seen, &acc, &mut payload) {
            Ok(spot) => {
                let has_gone = self.has_gone_meanwhile(spot, &payload)?;
                let (mut value, before) = (mem::take(&mut self.value), acc.requests());
                let exists = self.value_of_locked(spot, payload, &acc, &mut value);
                let read = acc.requests() - before;
                drop(acc);
                (self.value, self.beside) = (value, self.beside + read);
                if has_gone {
                    self.read_anew();
                } else if matches!(exists, Ok(true)) {
                    self.count_locked();
                }
                exists
            }
            Err(e) if is_locked_by_others(&e) && wait == LockWait::SkipLocked => Ok(false),
            Err(e) if is_locked_by_others(&e) && gives_way => {
                drop(acc);
                self.wait_for_entry().map(|()| false)
            }
            Err(e) if is_locked_by_others(&e) && locking.committed_if_locked => {
                (locking.early_release, locking.is_unlocked) = (EarlyRelease::Nothing, true);
                let view = TxnSystem::open_view(&self.system, false);
                let reader = Reader { view: &view, me: self.owner.txn(), owner: Some(&self.owner) };
                system.read_at(index, &self.key, reader, Part::Whole, &acc, &mut self.value)
            }
            Err(e) => Err(e),
        }
    }

    /// True if entry `at` of the batch is deleted, by a transaction that has ended, and either the
    /// cursor's range keeps its place free or the batch was read since then. Then there is nothing
    /// to lock, whatever another transaction has locked at its key: whether purge has removed the
    /// entry makes no difference.
    fn is_gone(&self, at: usize) -> Result<bool> {
        let (header, _) = split(&self.index, self.batch.get(at).1)?;
        if !header.deleted || header.txn == self.owner.txn() {
            return Ok(false);
        }
        let Some(locking) = self.locking.as_ref().filter(|locking| !locking.first_updater_wins) else {
            return Ok(false);
        };
        let map = &self.system.map;
        let before = map.moment();
        let is_current = self.batch.spot(at).is_some_and(|spot| self.index.tree().is_current(&spot));
        let has_ended = !map.is_active(header.txn) && !map.is_doubtful(header.txn, before);
        Ok(is_current && has_ended && (locking.keep || !locking.batch.is_before_commit_of(header.txn, &self.system)))
    }

    /// Reads the entries ahead anew after a wait of the transaction. The transaction that was
    /// waited for may have inserted entries behind the reached place: nothing kept it from that, or
    /// nothing did so meanwhile.
    pub(super) fn notice_waits(&mut self) {
        let Some(locking) = &self.locking else { return };
        let is_narrow = match &locking.reading {
            Some(reading) if reading.is_narrow() => {
                self.system.locks.resume_reading(&self.owner, reading);
                true
            }
            _ => false,
        };
        if is_narrow || !locking.keep && locking.batch.waits != self.owner.waited() {
            self.read_anew();
        }
    }

    /// Says that the cursor has come to the entry of `self.key`, before it looks at it.
    pub(super) fn reach(&self) {
        if let Some(Locking { reading: Some(reading), .. }) = &self.locking {
            reading.reach(Some(&self.key));
        }
    }

    /// What was read stays locked from here on: all of the range, or the part up to the entry that
    /// the cursor has come to. Or nothing of it: see [`Locking::gives_up`].
    pub(super) fn end_reading(&mut self, has_read_all: bool) {
        let Some(locking) = &mut self.locking else { return };
        let Some(reading) = locking.reading.take() else { return };
        if locking.gives_up {
            self.system.locks.give_up_reading(&self.owner, &reading);
        } else {
            self.system.locks.end_reading(&self.owner, &reading, has_read_all);
        }
    }

    /// True if a cursor without a range lock finds its entry removed by a transaction that
    /// committed after the batch was read. The row may have moved to a later key.
    pub(super) fn has_gone_meanwhile(&self, spot: Spot, payload: &[u8]) -> Result<bool> {
        let Some(locking) = self.locking.as_ref().filter(|locking| !locking.keep) else { return Ok(false) };
        if !spot.exists() {
            return Ok(true);
        }
        let header = split(&self.index, payload)?.0;
        Ok(header.deleted && locking.batch.is_before_commit_of(header.txn, &self.system))
    }

    /// An entry was locked by itself: after some of them the others are locked as one.
    fn count_locked(&mut self) {
        let Some(locking) = self.locking.as_mut().filter(|locking| locking.may_cover()) else { return };
        locking.locked += 1;
        if locking.locked == COVER_AFTER {
            let (locks, mode) = (&self.system.locks, locking.mode);
            locking.cover = locks.begin_cover(&self.owner, self.index.id(), mode, &self.key);
            locking.locked = 0;
        }
    }

    /// The value of what was read under its lock; false if that is no entry.
    pub(super) fn value_of_locked(
        &self,
        spot: Spot,
        payload: Vec<u8>,
        acc: &Access<'_>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(locking) = &self.locking else { return Ok(false) };
        let (system, index) = (&self.system, &self.index);
        let header = self.header_at(spot, &payload)?;
        if let Some(h) = header
            && locking.first_updater_wins
            && h.txn != self.owner.txn()
            && locking.shared.lock().view.as_ref().is_some_and(|view| !view.sees(h.txn, &system.map))
        {
            return Err(conflict(system, &self.owner, EntryRef::new(index, &self.key)));
        }
        if header.is_none_or(|h| h.deleted) {
            self.leave_absent(header);
            return Ok(false);
        }
        system.value_of(index, &payload, Part::Whole, None, acc, value)?;
        locking.shared.lock().read.remember(index, &self.key, spot, payload);
        Ok(true)
    }

    /// The header of what was read at `spot`; none if that is no entry.
    fn header_at(&self, spot: Spot, payload: &[u8]) -> Result<Option<VersionHeader>> {
        let header = spot.exists().then(|| split(&self.index, payload)).transpose()?;
        Ok(header.map(|(header, _)| header))
    }

    /// Gives up the lock of `self.key`, where there is no entry, or a deleted one with this header.
    /// The range keeps the place free: a queue of waiters for a row that was deleted goes on at
    /// once. Those that wait for a row that the transaction itself has deleted go on when it has
    /// ended.
    fn leave_absent(&self, header: Option<VersionHeader>) {
        if header.is_some_and(|h| is_locked_by_id(h.txn, &self.owner)) {
            return;
        }
        let (locks, index) = (&self.system.locks, self.index.id());
        if self.locking.as_ref().is_some_and(|locking| locking.keep) {
            locks.leave_to_range(&self.owner, index, &self.key);
        } else {
            locks.unlock_row(&self.owner, index, &self.key);
        }
    }

    /// Waits for the lock of the entry of `self.key`, and goes back to the entry before it: the
    /// holder of the lock may insert between the two. If it has deleted the entry, the cursor does
    /// not come to that again, and does not keep its lock.
    fn wait_for_entry(&mut self) -> Result<()> {
        self.at -= 1;
        self.read_anew();
        let Some(Locking { reading, mode, wait, .. }) = &self.locking else { return Ok(()) };
        if let Some(reading) = reading {
            reading.reach(self.last.as_deref());
        }
        let (system, index) = (&self.system, &self.index);
        let acc = access(system, index, self.statement, self.plan);
        let mut payload = Vec::new();
        let request = LockRequest { owner: &self.owner, mode: *mode, wait: *wait };
        let got = lock_and_read(system, EntryRef::new(index, &self.key), request, None, &acc, &mut payload);
        let got = got.and_then(|spot| self.header_at(spot, &payload));
        drop(acc);
        match got {
            Ok(header) if header.is_none_or(|h| h.deleted) => self.leave_absent(header),
            Ok(_) => {}
            Err(error) => {
                self.reach();
                self.last = Some(self.key.clone());
                return Err(error);
            }
        }
        Ok(())
    }
}
