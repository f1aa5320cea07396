//! The background threads that write pages, and how they are woken: by work, never by a timer.
//!
//! - **cleaner**: keeps clean pages ahead of eviction, so that threads without a frame find
//!   victims. Woken by evictions. Its measure is demand: it looks as far ahead as frames are taken
//!   during twice the time of a batch. While all is clean farther than that, evictions leave it
//!   asleep until they come near the end of what it has seen, or meet a dirty page.
//! - **checkpointer**: advances the checkpoint, oldest pages first. Woken by the growth of the log,
//!   by a thread that waits for room in it, and by the end of what a checkpoint has stopped at. See
//!   [`pacing`](crate::checkpoint::pacing) for its rate.
//! - **finisher**: writes home what threads without a frame left of their batches.
//!
//! Each has its own thread, so none of the three budgets can starve another.

use std::sync::atomic::Ordering;

use holdfast_base::{Lsn, Result};
use holdfast_metrics::Counter;

use crate::checkpoint::pacing::{Ages, Pacer};
use crate::config::BATCH;
use crate::core::Core;

/// In so many rounds the checkpointer writes what it owes, as long as nothing is overdue.
const ROUNDS: usize = 32;
/// How far the cleaner looks while there is nothing for it to do: a partition's mutex is held
/// meanwhile.
const LOOKAHEAD_MAX: usize = 512;

/// How many of the `owed` pages the checkpointer writes at once. On a disk with one arm the sync of
/// a commit waits behind all that is under way. A checkpointer that is behind owes more, and writes
/// more at once.
fn at_once(owed: usize, overdue: usize) -> usize {
    if overdue > 0 { BATCH } else { owed.div_ceil(ROUNDS) }
}

/// How far the cleaner looks ahead, in candidates for eviction.
struct Outlook {
    /// The dirty ones among so many are written.
    need: usize,
    /// The last time, so many were all clean; 0 if not even those needed were.
    clear: usize,
}

/// Runs until the pool stops.
pub(crate) fn run_cleaner(core: &Core) {
    let mut outlook = Outlook { need: BATCH, clear: 0 };
    while core.signals.next_clean().is_some() {
        core.metrics.inc(Counter::CleanerWakeups);
        core.clean_ahead(&mut outlook);
    }
}

/// Runs until the pool stops. The log has grown from `begin` on, also before the thread runs.
pub(crate) fn run_checkpointer(core: &Core, begin: Lsn) {
    let mut pacer = Pacer::new(begin);
    while core.signals.next_checkpoint().is_some() {
        // A failure keeps the pages dirty; threads that wait for log space must not wait for a disk
        // that may stay broken.
        if let Err(error) = core.advance_checkpoint(&mut pacer) {
            core.wal.checkpoint_failed(error);
        }
    }
}

/// Runs until the pool stops; leaves nothing undone.
pub(crate) fn run_finisher(core: &Core) {
    while let Some(batch) = core.signals.next_batch() {
        core.finish(batch, BATCH);
    }
}

impl Core {
    /// Evictions need clean pages: wakes the cleaner if any page is dirty, unless it has seen that
    /// those to come are clean. `met_dirty`: they are not.
    pub(crate) fn signal_cleaner(&self, met_dirty: bool) {
        let due = met_dirty || self.evicted.load(Ordering::Relaxed) >= self.clean_until.load(Ordering::Relaxed);
        if due && self.config.background && self.dirty_pages() > 0 {
            self.signals.wake_cleaner();
        }
    }

    /// Writes the dirty pages among the next candidates for eviction; learns how far to look the
    /// next time, and when that is.
    fn clean_ahead(&self, outlook: &mut Outlook) {
        let before = self.evicted.load(Ordering::Relaxed);
        let need = outlook.need;
        let dirty = self.dirty_among(need);
        let (written, _) = self.write_all(&dirty, false, BATCH, Counter::FlushedLru);
        let demand = (self.evicted.load(Ordering::Relaxed) - before) as usize;
        let most = (self.active_frames() / 8).max(1);
        let least = BATCH.min(most);
        // Without a write there was no batch time to measure: keep the estimate, slowly giving it
        // up.
        let next = if written > 0 { demand * 2 } else { need - need / 8 };
        outlook.need = next.clamp(least, most);
        outlook.clear = if dirty.is_empty() { self.clear_sight(need, outlook.clear) } else { 0 };
        let spare = outlook.clear.saturating_sub(outlook.need);
        self.clean_until.store(before + spare as u64, Ordering::Relaxed);
    }

    /// How many candidates are clean, `need` of which are known to be. Looks twice as far as the
    /// last time; 0 if there is a dirty one.
    fn clear_sight(&self, need: usize, last: usize) -> usize {
        let farther = (2 * need.max(last)).min(LOOKAHEAD_MAX).min(self.active_frames() / 16);
        if farther > need && self.dirty_among(farther).is_empty() { farther } else { 0 }
    }

    /// The dirty pages among the next `n` candidates of all partitions together.
    fn dirty_among(&self, n: usize) -> Vec<u32> {
        self.cold_dirty(n.div_ceil(self.partitions.len()))
    }

    /// One step of the checkpointer.
    fn advance_checkpoint(&self, pacer: &mut Pacer) -> Result<()> {
        let (capacity, ages) = (self.wal.capacity(), self.ages());
        let now = self.wal.next_lsn();
        let oldest = self.oldest_in_memory().min(now);
        let pages = pacer.step(now, oldest, &self.dirty_ages(), ages);
        let wanted = self.wal.age_wanted();
        let must = Lsn(now.0.saturating_sub(wanted.map_or(ages.limit, |age| age.min(ages.limit))));
        let mut written = Ok(());
        if pages > 0 || oldest < must {
            let below = Lsn(now.0.saturating_sub(ages.counts_from()));
            written = self.write_oldest(pages, below, must);
        }
        // The age that the log sees falls only with a checkpoint, which costs syncs: in steps of a
        // 64th, unless a thread waits for it.
        let reach = self.oldest_in_memory().min(now).min(self.held.oldest());
        let step = reach.since(self.wal.checkpoint_lsn());
        let (age, waited_for) = (self.wal.age(), wanted.is_some_and(|wanted| self.wal.age() > wanted));
        if (waited_for && step > 0) || (age > ages.counts_from() && step > capacity / 64) {
            if waited_for {
                self.wal.watch_writers(must);
            }
            self.checkpoint()?;
        }
        if waited_for {
            self.held.check(must)?;
        }
        // A page that could not be written and is not overdue is written again at the next step.
        if self.oldest_in_memory() < must { written } else { Ok(()) }
    }

    fn ages(&self) -> Ages {
        let target = self.wal.capacity() / 100 * u64::from(self.config.checkpoint_target_pct);
        // No user is delayed while the checkpointer still takes its time.
        Ages { target, limit: self.wal.throttle_from().max(target) }
    }

    /// Writes the pages that hold the checkpoint: up to `pages` of those below `below`, all of
    /// those below `must`. Latches are waited for only for the sake of the latter, and when
    /// everything else is written: the holder of one may be preempted.
    ///
    /// # Errors
    /// What went wrong with one of them. All those below `must` have been tried.
    fn write_oldest(&self, pages: usize, below: Lsn, must: Lsn) -> Result<()> {
        let mut waiter = self.supply.waiter();
        let (mut pages, mut wait, mut failure) = (pages, false, None);
        loop {
            let mut oldest = Vec::new();
            for partition in &self.partitions {
                partition.oldest(below, pages, &mut oldest);
                partition.oldest(must, usize::MAX, &mut oldest);
            }
            oldest.sort_unstable();
            oldest.dedup();
            let overdue = oldest.partition_point(|&(lsn, _)| lsn < must.0);
            oldest.truncate(pages.max(overdue));
            let frames: Vec<u32> = oldest.into_iter().map(|(_, frame)| frame).collect();
            let at_once = at_once(frames.len(), overdue);
            let (written, error) = self.write_all(&frames, wait, at_once, Counter::FlushedCheckpoint);
            let has_failed = error.is_some();
            failure = error.or(failure);
            if wait && has_failed || self.oldest_in_memory() >= must {
                return failure.map_or(Ok(()), Err);
            }
            if wait && written == 0 && !frames.is_empty() {
                // They are being written by others; the end of a write is an event. That a page
                // has become dirty since is none.
                waiter.sleep();
            }
            (pages, wait) = (0, true);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use std::sync::Arc;

    use holdfast_base::{PageNo, SpaceId};
    use holdfast_io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
    use holdfast_metrics::Metrics;
    use holdfast_testkit::{Fault, FaultDisk, FaultOp};
    use holdfast_wal::{Wal, WalConfig};

    use super::*;
    use crate::{AccessKind, Pool, PoolConfig};

    const MIB: u64 = 1 << 20;

    /// The error ended the step before its checkpoint. The log filled up though the page that could
    /// not be written was young, and statements on all tables failed.
    #[test]
    fn a_young_page_that_cannot_be_written_holds_nothing_up() {
        let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
        let (disk, metrics): (Arc<dyn Disk>, _) = (Arc::new(faults.clone()), Metrics::new());
        let config = WalConfig { capacity_bytes: 16 * MIB, ..WalConfig::default() };
        let wal = Wal::create(disk.clone(), [7; 16], config, metrics.clone()).unwrap();
        let mut config = PoolConfig::new(disk.clone(), 16 << 10, 32 << 14);
        config.background = false;
        let pool = Pool::new(config, wal.clone(), metrics).unwrap();
        pool.set_checkpoint_payload(|_| Vec::new());
        let spaces = [16, 17].map(|no| {
            let file = disk.open(&format!("t{no}.hf"), OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
            pool.open_space(SpaceId(no), file).unwrap()
        });
        let access = pool.access(AccessKind::Point);
        let core = &pool.core;
        let mut pacer = Pacer::new(wal.next_lsn());
        let grow = |bytes: u64| {
            let begin = wal.next_lsn();
            while wal.next_lsn().since(begin) < bytes {
                wal.append(&[0; 10_000]).unwrap();
            }
        };
        let change = |space| {
            let mut page = pool.fix_new(space, PageNo(0), &access).unwrap();
            let (start, end) = wal.append(b"made").unwrap();
            page.mark_dirty(start, end);
            start
        };
        change(&spaces[0]);
        grow(8 * MIB);
        faults.schedule(Fault::nth(FaultOp::Write, 1).on("t17.hf").sticky());
        let young = change(&spaces[1]);
        grow(4 * MIB);
        core.advance_checkpoint(&mut pacer).unwrap();
        assert!(faults.fired() > 0, "the young page is written ahead");
        assert_eq!(wal.checkpoint_lsn(), young);
    }

    /// All that a step owed was written at once: on a spinning disk one commit in a hundred waited
    /// behind two dozen pages.
    #[test]
    fn pages_go_out_one_by_one_unless_the_checkpointer_is_behind() {
        assert_eq!(at_once(ROUNDS, 0), 1);
        assert_eq!(at_once(10 * ROUNDS, 0), 10);
        assert_eq!(at_once(1, 1), BATCH);
    }
}
