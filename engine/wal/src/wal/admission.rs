//! Admission to the log's space, and the hooks that are called when the log grows.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::sync::atomic::Ordering;
use holdfast_base::{Error, Result, latches};
use holdfast_metrics::{Counter, WaitClass};

use super::growth::Growth;
use crate::space::{Log, Position, Refusal, SpaceGate};
use crate::{SpaceClass, SpaceTicket, Wal};

impl Wal {
    /// Waits until `bytes` of log can be promised to `class`, prepares the segments for them, and
    /// promises them.
    ///
    /// To be called before anything is latched. Ask for at least [`Wal::group_bytes`] for each
    /// group that will be appended. Users queue; a waiter wakes the checkpointer (the hooks of
    /// [`Wal::on_growth`]). [`SpaceClass::Checkpoint`] never waits.
    ///
    /// # Errors
    /// [`Error::LimitReached`] for more than the class can ever get, [`Error::DiskFull`] if no
    /// segment can be prepared, and a checkpoint would let none be recycled (the call can be
    /// repeated), [`Error::Closed`], [`Error::Poisoned`], any error of the disk, and the reason why
    /// the checkpoint cannot move ([`Wal::checkpoint_failed`]) if there is no room without that.
    pub fn reserve(&self, bytes: u64, class: SpaceClass) -> Result<SpaceTicket<'_>> {
        latches::none_while_waiting_for("room in the log");
        if let Some(ticket) = self.try_reserve(bytes, class)? {
            return Ok(ticket);
        }
        self.metrics.inc(Counter::LogSpaceWaits);
        let _timer = self.metrics.wait(WaitClass::LogSpace);
        let ticket = self.gate.wait(bytes, class, self)?;
        self.check_open().map(|()| ticket)
    }

    /// As [`Wal::reserve`], but `None` instead of waiting.
    ///
    /// # Errors
    /// The errors of [`Wal::reserve`].
    pub fn try_reserve(&self, bytes: u64, class: SpaceClass) -> Result<Option<SpaceTicket<'_>>> {
        self.check_open()?;
        // The phase is asked for again once the bytes are counted: see `wait_for_tickets`.
        if let Some(ticket) = self.gate.try_take_of_plenty(bytes, class, self) {
            return self.check_open().map(|()| Some(ticket));
        }
        self.check(bytes, class)?;
        loop {
            match self.gate.try_take(bytes, class, self) {
                Ok(ticket) => return self.check_open().map(|()| Some(ticket)),
                Err(Refusal::Wait) => return Ok(None),
                Err(Refusal::Prepare(lsn)) => {
                    let first = self.first_end();
                    match self.segments.prepare_to(lsn) {
                        Err(error) if SpaceGate::may_recycle(&error, first, class, self) => return Ok(None),
                        prepared => prepared?,
                    }
                }
            }
        }
    }

    /// Fails the waiters for log space with `error`: the checkpoint could not be moved. The next
    /// thread that has to wait wakes the checkpointer again.
    pub fn checkpoint_failed(&self, error: Error) {
        self.gate.fail(error);
    }

    /// The age to which the log has to shrink for the first waiters for space; `None` if none
    /// waits.
    #[must_use]
    pub fn age_wanted(&self) -> Option<u64> {
        self.gate.age_wanted()
    }

    /// The delay that the caller should sleep before a row change, so that the log does not fill
    /// up. It is zero up to an age above that which the checkpointer keeps under a steady load,
    /// then grows steeply towards the age at which users wait. Not to be slept under a latch or
    /// with a ticket.
    #[must_use]
    pub fn throttle_delay(&self) -> Duration {
        let geometry = self.sizes.get();
        // The end of the log is read only where it can matter.
        if self.gate.horizon().saturating_sub(self.checkpoint_lsn().0) <= geometry.throttle_from {
            return Duration::ZERO;
        }
        let Some(over) = self.age().checked_sub(geometry.throttle_from + 1) else { return Duration::ZERO };
        let range = (geometry.user_limit - geometry.throttle_from) as f64;
        self.config.throttle_max.mul_f64(((over + 1) as f64 / range).min(1.0).powi(8))
    }

    /// Calls `callback` each time the log has grown by about `step(capacity)` bytes, each time
    /// before a waiter for space sleeps, and when a writer leaves that is
    /// [watched](Wal::watch_writers). It runs on that thread, or on an appending thread under its
    /// latches, so it may only wake another thread.
    pub fn on_growth(&self, step: fn(u64) -> u64, callback: impl Fn() + Send + Sync + 'static) {
        let mut hooks = self.growth.lock();
        let due = self.next_lsn().0 + step(self.capacity());
        hooks.push(Growth { step, due, callback: Arc::new(callback) });
        self.growth_due.fetch_min(due, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn call_growth_hooks(&self, end: u64) {
        let mut hooks = self.growth.lock();
        let (capacity, mut calls) = (self.capacity(), Vec::new());
        for hook in hooks.iter_mut().filter(|h| h.due <= end) {
            hook.due = end + (hook.step)(capacity);
            calls.push(hook.callback.clone());
        }
        self.growth_is_due(&hooks);
        drop(hooks);
        calls.iter().for_each(|call| call());
    }

    /// After a change of the capacity: no hook is due later than a step of now ahead.
    pub(super) fn bring_growth_forward(&self) {
        let mut hooks = self.growth.lock();
        let (capacity, next) = (self.capacity(), self.next_lsn().0);
        hooks.iter_mut().for_each(|hook| hook.due = hook.due.min(next + (hook.step)(capacity)));
        self.growth_is_due(&hooks);
    }

    fn growth_is_due(&self, hooks: &[Growth]) {
        let due = hooks.iter().map(|h| h.due).min().unwrap_or(u64::MAX);
        self.growth_due.store(due, Ordering::Relaxed);
    }

    pub(super) fn call_all_growth_hooks(&self) {
        let calls: Vec<_> = self.growth.lock().iter().map(|h| h.callback.clone()).collect();
        calls.iter().for_each(|call| call());
    }
}

impl Log for Wal {
    fn position(&self) -> Position {
        Position {
            next: self.next_lsn().0,
            checkpoint: self.checkpoint_lsn.load(Ordering::Acquire),
            prepared: self.segments.prepared_end(),
        }
    }

    fn prepare(&self, lsn: u64) -> Result<()> {
        self.segments.prepare_to(lsn)
    }

    fn first_end(&self) -> Option<u64> {
        self.segments.first_end()
    }

    fn check(&self, bytes: u64, class: SpaceClass) -> Result<()> {
        self.check_open()?;
        let max = self.gate.limit(class);
        if bytes > max {
            let what = format!("{bytes} bytes of log at once exceed the {max} bytes possible; raise the log capacity");
            return Err(Error::LimitReached(what));
        }
        Ok(())
    }

    fn wake_checkpointer(&self) {
        self.call_all_growth_hooks();
    }
}
