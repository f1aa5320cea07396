//! The background threads that write pages, and how they are woken: by watermarks, never by a timer.
//!
//! - **cleaner**: keeps clean pages ahead of the clock hand, so that threads without a frame find victims. Woken by
//!   evictions. Its measure is demand: it looks as far ahead as frames are taken during twice the time of a batch.
//! - **checkpointer**: advances the checkpoint, oldest pages first. Woken by the growth of the log. See
//!   [`Controller`] for its rate.
//! - **finisher**: writes home what threads without a frame left of their batches.
//!
//! Each has its own thread, so none of the two budgets can starve the other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_base::{Lsn, Result};
use holdfast_metrics::Counter;
use parking_lot::{Condvar, Mutex};

use crate::core::Core;
use crate::flush::{BATCH, Secured};

#[derive(Default)]
struct Work {
    clean: bool,
    checkpoint: bool,
    home: VecDeque<Secured>,
    stopped: bool,
}

/// What wakes the background threads.
#[derive(Default)]
pub(crate) struct Signals {
    work: Mutex<Work>,
    changed: Condvar,
    /// Whether `clean` is set already: spares evictions the mutex.
    clean: AtomicBool,
    checkpoint: AtomicBool,
}

impl Signals {
    /// Evictions go on while pages are dirty.
    pub(crate) fn wake_cleaner(&self) {
        if !self.clean.load(Ordering::Relaxed) && !self.clean.swap(true, Ordering::SeqCst) {
            self.work.lock().clean = true;
            self.changed.notify_all();
        }
    }

    /// The log has grown, or somebody waits for room in it.
    pub(crate) fn wake_checkpointer(&self) {
        if !self.checkpoint.load(Ordering::Relaxed) && !self.checkpoint.swap(true, Ordering::SeqCst) {
            self.work.lock().checkpoint = true;
            self.changed.notify_all();
        }
    }

    /// Gives a batch to the finisher; gives it back if that has stopped.
    pub(crate) fn hand_over(&self, batch: Secured) -> Option<Secured> {
        let mut work = self.work.lock();
        if work.stopped {
            return Some(batch);
        }
        work.home.push_back(batch);
        drop(work);
        self.changed.notify_all();
        None
    }

    /// All background threads end when they have done what they have begun.
    pub(crate) fn stop(&self) {
        self.work.lock().stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.work.lock().stopped
    }

    /// Waits for work of one kind; `None` at the end.
    fn next<T>(&self, take: impl Fn(&mut Work) -> Option<T>) -> Option<T> {
        let mut work = self.work.lock();
        loop {
            if let Some(found) = take(&mut work) {
                return Some(found);
            }
            if work.stopped {
                return None;
            }
            self.changed.wait(&mut work);
        }
    }

    fn next_clean(&self) -> Option<()> {
        self.next(|work| Self::take(&mut work.clean, &self.clean, work.stopped))
    }

    fn next_checkpoint(&self) -> Option<()> {
        self.next(|work| Self::take(&mut work.checkpoint, &self.checkpoint, work.stopped))
    }

    /// Takes a request. The flag is lowered first: whoever still found it raised is served by what follows now, and
    /// whoever raises it again will set the request again.
    fn take(request: &mut bool, flag: &AtomicBool, stopped: bool) -> Option<()> {
        flag.store(false, Ordering::SeqCst);
        (std::mem::take(request) && !stopped).then_some(())
    }
}

/// Runs until the pool stops.
pub(crate) fn run_cleaner(core: &Core) {
    let mut need = BATCH;
    while core.signals.next_clean().is_some() {
        core.metrics.inc(Counter::CleanerWakeups);
        need = core.clean_ahead(need);
    }
}

/// Runs until the pool stops.
pub(crate) fn run_checkpointer(core: &Core) {
    let mut controller = Controller::new(core.wal.next_lsn());
    while core.signals.next_checkpoint().is_some() {
        // A failure keeps the pages dirty; those who wait for log space must not wait for a disk that may stay broken.
        if let Err(error) = core.advance_checkpoint(&mut controller) {
            core.wal.checkpoint_failed(error);
        }
    }
}

/// Runs until the pool stops; leaves nothing undone.
pub(crate) fn run_finisher(core: &Core) {
    while let Some(batch) = core.signals.next(|work| work.home.pop_front()) {
        core.finish(batch);
    }
}

/// How many pages to write for the checkpoint, for a growth of the log.
///
/// Below `start` nothing is written: pages would be changed again. The average rate that is needed is "all dirty pages
/// once per `start` bytes of log". From `start` to `limit` the rate grows linearly from nothing to such a multiple of
/// that, that even if all dirty pages had their first change in one short stretch of the log, they would be written
/// evenly over the way to `limit`. So there is no cliff, and the age of an even load settles a little above `start`. Only
/// if the device cannot keep up is `limit` reached; then everything that holds the checkpoint is written at once.
pub(crate) struct Controller {
    seen: Lsn,
    owed: f64,
}

impl Controller {
    pub(crate) fn new(now: Lsn) -> Controller {
        Controller { seen: now, owed: 0.0 }
    }

    /// (pages to write, LSN below which all are to be written).
    pub(crate) fn step(&mut self, now: Lsn, oldest: Lsn, dirty: u32, start: u64, limit: u64) -> (usize, Lsn) {
        let growth = now.since(self.seen);
        self.seen = now;
        let age = now.since(oldest);
        if age <= start {
            self.owed = 0.0;
            return (0, Lsn(0));
        }
        let (start, range) = (start.max(1) as f64, limit.saturating_sub(start).max(1) as f64);
        let over = (age as f64 - start) / range;
        let average = f64::from(dirty) * growth as f64 / start;
        // On the way from `start` to `limit` this averages to start / range: all pages within the range.
        let gain = 2.0 * start / range;
        self.owed += average * gain * over.min(1.0);
        let pages = self.owed.floor();
        self.owed -= pages;
        (pages as usize, Lsn(now.0.saturating_sub(limit)))
    }
}

impl Core {
    /// Evictions need clean pages: wakes the cleaner if any page is dirty.
    pub(crate) fn signal_cleaner(&self) {
        if self.config.background && self.dirty_pages() > 0 {
            self.signals.wake_cleaner();
        }
    }

    /// Writes the dirty pages among the next candidates for eviction; returns how far to look the next time.
    fn clean_ahead(&self, need: usize) -> usize {
        let before = self.evicted.load(Ordering::Relaxed);
        let per_partition = need.div_ceil(self.partitions.len());
        let dirty = self.cold_dirty(per_partition);
        let (written, _) = self.write_all(&dirty, false, Counter::FlushedLru);
        let demand = (self.evicted.load(Ordering::Relaxed) - before) as usize;
        let most = (self.active_frames() / 8).max(1);
        let least = BATCH.min(most);
        // Without a write there was no batch time to measure: keep the estimate, slowly giving it up.
        let next = if written > 0 { demand * 2 } else { need - need / 8 };
        next.clamp(least, most)
    }

    /// One step of the checkpointer.
    fn advance_checkpoint(&self, controller: &mut Controller) -> Result<()> {
        let capacity = self.wal.capacity();
        let percent = |pct: u8| capacity / 100 * u64::from(pct);
        let start = percent(self.config.checkpoint_start_pct);
        // Users must not have to wait for log space while the checkpointer still takes its time.
        let waiting = self.wal.user_limit().max(start);
        let limit = percent(self.config.checkpoint_limit_pct).min(start + (waiting - start) / 5 * 4);
        let now = self.wal.next_lsn();
        let oldest = self.oldest_in_memory().min(now);
        let (pages, must) = controller.step(now, oldest, self.dirty_pages(), start, limit);
        if pages > 0 || oldest < must {
            let below = Lsn(now.0.saturating_sub(start));
            self.write_oldest(pages, below, must)?;
        }
        // The age that the log sees falls only with a checkpoint, which costs syncs: in steps of a 64th.
        let written_to = self.oldest_in_memory().min(now);
        if self.wal.age() > start && written_to.since(self.wal.checkpoint_lsn()) > capacity / 64 {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes the pages that hold the checkpoint: up to `pages` of those below `below`, all of those below `must`.
    fn write_oldest(&self, pages: usize, below: Lsn, must: Lsn) -> Result<()> {
        let mut waiter = self.supply.waiter();
        let mut pages = pages;
        loop {
            let mut oldest = Vec::new();
            for partition in &self.partitions {
                partition.oldest(below, pages, &mut oldest);
                partition.oldest(must, usize::MAX, &mut oldest);
            }
            oldest.sort_unstable();
            oldest.dedup();
            let keep = pages.max(oldest.partition_point(|&(lsn, _)| lsn < must.0));
            oldest.truncate(keep);
            let frames: Vec<u32> = oldest.into_iter().map(|(_, frame)| frame).collect();
            let (_, error) = self.write_all(&frames, true, Counter::FlushedCheckpoint);
            error.map_or(Ok(()), Err)?;
            if self.oldest_in_memory() >= must {
                return Ok(());
            }
            // The rest is being written by others; the end of a write is an event.
            waiter.sleep();
            pages = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn nothing_is_written_below_the_start() {
        let mut c = Controller::new(Lsn(0));
        assert_eq!(c.step(Lsn(59 * MB), Lsn(0), 1000, 60 * MB, 85 * MB).0, 0);
    }

    #[test]
    fn the_age_of_an_even_load_settles_between_start_and_limit() {
        // Every 64 KiB of log dirty one page; the controller is asked every 256 KiB.
        let (start, limit) = (60 * MB, 72 * MB);
        let mut c = Controller::new(Lsn(0));
        let mut dirty: VecDeque<u64> = VecDeque::new();
        let (mut worst, mut most) = (0, 0);
        for step in 1..4000u64 {
            let now = step * (256 << 10);
            for i in 0..4 {
                dirty.push_back(now - (256 << 10) + i * (64 << 10));
            }
            let oldest = dirty.front().copied().unwrap_or(now);
            let (pages, _) = c.step(Lsn(now), Lsn(oldest), dirty.len() as u32, start, limit);
            dirty.drain(..pages.min(dirty.len()));
            if step > 1000 {
                worst = worst.max(now - oldest);
                most = most.max(pages);
            }
        }
        assert!(worst > start && worst < start + (limit - start) / 2, "{} MB", worst / MB);
        assert!(most <= 8, "{most} pages in one step: no burst");
    }

    #[test]
    fn a_lump_of_old_pages_is_spread() {
        // All 10,000 pages change first within 10 MB, then the log grows by changes of the same pages.
        let (start, limit) = (60 * MB, 72 * MB);
        let mut c = Controller::new(Lsn(0));
        let mut dirty: VecDeque<u64> = (0..10_000).map(|i| i * 1000).collect();
        let (mut now, mut most) = (10 * MB, 0);
        while dirty.front().is_some_and(|&lsn| lsn < 10 * MB) {
            now += 256 << 10;
            let oldest = dirty.front().copied().unwrap_or(now);
            let (pages, must) = c.step(Lsn(now), Lsn(oldest), dirty.len() as u32, start, limit);
            assert!(oldest >= must.0, "the limit was reached at {} MB", now / MB);
            most = most.max(pages);
            for _ in 0..pages.min(dirty.len()) {
                dirty.pop_front();
                dirty.push_back(now);
            }
        }
        assert!(most < 300, "{most} pages in one step");
    }
}
