//! Frames set aside for changes of several pages before they latch anything, so that no thread
//! waits for a frame under a latch.
//!
//! First come, first served: a request waits until it is its turn and all reservations together,
//! with it, are at most a quarter of the pool. That is its *promise*. Then it collects real frames,
//! as any miss does. A thread that ends a reservation hands what that makes free to the first in
//! line, as far as it goes, and wakes just those: hundreds may wait when many find one leaf full.
//!
//! A miss uses a reserved frame up. Between two mini-transactions, with nothing latched,
//! [`Reserved::refill`] collects frames up to the promise again. That waits for frames, but not in
//! line: so it may be done under a mutex that comes after the reservation in the lock order.
//!
//! A thread has one reservation at a time: with two, each could be half of what two threads wait
//! for.
//!
//! The line is in `reservations`.

use holdfast_base::{Error, Result, latches};

use crate::config::SHARE;
use crate::core::Core;
use crate::read::request::Access;
use crate::supply::reservations::Reservation;

impl Core {
    /// Frames that all reservations together may take.
    fn reservable(&self) -> u32 {
        self.supply.active() / SHARE
    }

    /// Gives `acc` `n` frames of its own; see
    /// [`Pool::reserve_frames`](crate::Pool::reserve_frames).
    pub(crate) fn reserve<'r>(&self, n: usize, acc: &'r Access<'r>) -> Result<Reserved<'r>> {
        latches::none_while_waiting_for("a reservation of frames");
        let limit = self.reservable() as usize;
        if n > limit {
            return Err(Error::LimitReached(format!(
                "a structure change needs {n} frames, and the pool can set {limit} aside; make the pool larger"
            )));
        }
        acc.release_frames();
        alone::begin();
        self.reservations.admit(n as u32, || self.reservable(), &self.metrics);
        acc.reservation.borrow_mut().promised = n as u32;
        let reserved = Reserved(acc);
        self.collect(acc)?;
        Ok(reserved)
    }

    /// Collects frames up to the promise.
    fn collect(&self, acc: &Access<'_>) -> Result<()> {
        {
            let mut own = acc.reservation.borrow_mut();
            let missing = own.missing();
            if missing == 0 {
                return Ok(());
            }
            self.supply.take_some(missing, &mut own.frames);
        }
        while acc.reservation.borrow().missing() > 0 {
            let frame = self.wait_for_frame(acc)?;
            acc.reservation.borrow_mut().frames.push(frame);
        }
        Ok(())
    }

    pub(crate) fn end_reservation(&self, reservation: Reservation) {
        self.supply.give(&reservation.frames);
        if reservation.promised > 0 {
            alone::end();
            self.reservations.end(reservation.promised, || self.reservable());
        }
    }
}

/// Frames set aside for the misses and new pages of one access. What is not used goes back on drop:
/// after the latches that it was taken for, so it is made before the mini-transaction.
#[must_use = "the frames go back when this is dropped"]
#[derive(Debug)]
pub struct Reserved<'r>(&'r Access<'r>);

impl Reserved<'_> {
    /// Makes the frames as many again as were asked for: to be called with nothing latched, before
    /// each mini-transaction but the first, and after misses that were none of one.
    ///
    /// # Errors
    /// The errors of the writes that failed, if no frame can be had.
    pub fn refill(&self) -> Result<()> {
        latches::none_while_waiting_for("a reserved frame");
        self.0.core.collect(self.0)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.release_frames();
    }
}

/// Checks, in debug builds, that a thread has one reservation at a time.
mod alone {
    #[cfg(debug_assertions)]
    use std::cell::Cell;

    #[cfg(debug_assertions)]
    thread_local!(static HAS_ONE: Cell<bool> = const { Cell::new(false) });

    pub(super) fn begin() {
        #[cfg(debug_assertions)]
        debug_assert!(!HAS_ONE.replace(true), "a thread has one reservation of frames at a time");
    }

    pub(super) fn end() {
        #[cfg(debug_assertions)]
        HAS_ONE.set(false);
    }
}
