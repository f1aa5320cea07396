//! Changing the number of frames, and the policy, while the pool is in use.
//!
//! Growing hands the free list more frames of the reserved mapping. Shrinking takes the frames from
//! the top: free ones at once, those with a page after writing and evicting it, those that belong
//! to a thread for the moment when they come back; their memory then goes back to the system. If a
//! page cannot be written the pool keeps its size.
//!
//! A page that is changed more often than it can be written is dirty after each write. So a page
//! that is dirty again moves, as it is, to one of the frames that stay.

use std::sync::atomic::Ordering;

use holdfast_base::{Error, PageId, Result, latches};
use holdfast_metrics::{Counter, Gauge};
use holdfast_policy::{Policy, PolicyKind, Touch};

use crate::config::BATCH;
use crate::core::Core;
use crate::read::miss::Lease;
use crate::resident::header::{READ_AHEAD, WRITING};
use crate::resident::partition::HeaderWords;

impl Core {
    /// See [`Pool::resize`](crate::Pool::resize).
    pub(crate) fn resize(&self, bytes: u64) -> Result<()> {
        let mut config = self.config.clone();
        config.bytes = bytes;
        config.max_bytes = bytes;
        let (to, _) = config.frames()?;
        if to > self.frames.max() {
            let max = u64::from(self.frames.max()) * self.frames.page_size() as u64;
            return Err(Error::invalid(format!("the pool can grow to {max} bytes without a restart")));
        }
        latches::none_while_waiting_for("frames that are given up");
        let _one = self.resizing.lock();
        let from = self.supply.active();
        if to > from {
            self.frames.advise_used(from, to);
            self.set_capacity(to);
            self.supply.grow(to);
        } else if to < from {
            self.set_capacity(to);
            if let Err(e) = self.shrink(from, to) {
                self.supply.abort_shrink(from);
                self.set_capacity(from);
                return Err(e);
            }
            self.frames.give_back(to, from);
        }
        self.metrics.set(Gauge::PagesTotal, u64::from(to));
        Ok(())
    }

    fn set_capacity(&self, frames: u32) {
        let share = (frames as usize).div_ceil(self.partitions.len());
        for partition in &self.partitions {
            partition.with_policy(|policy| policy.set_capacity(share, &HeaderWords(&self.frames)));
        }
    }

    fn shrink(&self, from: u32, to: u32) -> Result<()> {
        self.supply.begin_shrink(to);
        let mut waiter = self.supply.waiter();
        loop {
            let dirty: Vec<u32> = (to..from).filter(|&f| self.frames.header(f).rec_lsn() != 0).collect();
            if let (_, Some(e)) = self.write_all(&dirty, true, BATCH, Counter::FlushedShutdown) {
                return Err(e);
            }
            let mut busy = false;
            for frame in to..from {
                busy |= !self.evict_from_top(frame);
            }
            if self.supply.finish_shrink(from - to) {
                return Ok(());
            }
            if !busy {
                // The rest belongs to threads that will fill the frames or give them back: either
                // is an event.
                waiter.sleep();
            }
        }
    }

    /// Evicts the page of a frame, if it has one and is not being written: the end of a write is an
    /// event. False if it has to be tried again.
    fn evict_from_top(&self, frame: u32) -> bool {
        let header = self.frames.header(frame);
        // A spare frame that this thread gives back is an event, too. So none is taken for a page
        // that cannot move now: the waiter would never sleep.
        if header.page().is_none() || header.has(WRITING) {
            return true;
        }
        let spare = if header.rec_lsn() == 0 { None } else { self.find_clean_frame() };
        let mut spare = Lease::new(self, spare);
        self.latch_exclusive(header);
        let Some(id) = header.page() else {
            header.latch.release_exclusive(false);
            return true;
        };
        if header.has(WRITING) {
            header.latch.release_exclusive(false);
            return true;
        }
        if header.rec_lsn() == 0 {
            self.metrics.inc(Counter::PagesEvictedResize);
            self.forget_page(frame, id);
            return true;
        }
        let spare = spare.take_below(self.supply.active());
        match spare {
            Some(to) => self.move_page(frame, to, id),
            None => header.latch.release_exclusive(false),
        }
        spare.is_some()
    }

    /// Moves page `id`, which is dirty and not being written, from frame `from`, whose latch the
    /// caller holds exclusively and loses, to the unused frame `to`. Threads that wait for the
    /// latch find that the page has left, and look for it again.
    fn move_page(&self, from: u32, to: u32, id: PageId) {
        self.occupy(to, id, |value| {
            if let Some(entry) = self.spaces().get(&id.space).and_then(|space| space.translation.entry(id.no)) {
                entry.store(value, Ordering::SeqCst);
            }
        });
        self.copy(from, to);
        self.partition(id).move_page(from, to, id.to_u64(), &Touch::new(0, self.tick()), &self.frames);
        self.frames.header(to).latch.release_exclusive(true);
        let header = self.frames.header(from);
        header.clear_page();
        header.clear(READ_AHEAD);
        header.latch.release_exclusive(true);
        self.supply.give(&[from]);
    }

    /// See [`Pool::set_policy`](crate::Pool::set_policy).
    pub(crate) fn set_policy(&self, kind: PolicyKind) {
        let touch = Touch::new(0, self.tick());
        let key_of = |slot| self.frames.header(slot).page().map_or(0, |id| id.to_u64());
        self.count_policy(|| {
            for partition in &self.partitions {
                partition.with_new_kind(|policy| policy.change_kind(kind, &key_of, &touch, &HeaderWords(&self.frames)));
            }
        });
    }
}
