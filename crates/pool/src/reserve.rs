//! Frames set aside for structure changes before they latch anything, so that nobody waits for a frame under a latch.
//!
//! First come, first served: a request waits until it is its turn and all reservations together, with it, are at most
//! a quarter of the pool. Then it collects real frames, as any miss does.

use holdfast_base::{Error, Result};
use holdfast_metrics::{Counter, WaitClass};
use parking_lot::{Condvar, Mutex};

use crate::core::Core;
use crate::request::{Access, Reservation};

/// All reservations together: at most one frame in so many.
const SHARE: u32 = 4;

#[derive(Default)]
struct State {
    promised: u32,
    next_ticket: u64,
    serving: u64,
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Reservations {
    state: Mutex<State>,
    changed: Condvar,
}

impl Reservations {
    fn admit(&self, n: u32, core: &Core) {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let limit = || core.supply.active() / SHARE;
        // A pool that was shrunk below a reservation in waiting serves it when it is alone.
        let fits = |s: &State| s.serving == ticket && (s.promised + n <= limit() || s.promised == 0);
        if !fits(&state) {
            core.metrics.inc(Counter::ReservationWaits);
            let _wait = core.metrics.wait(WaitClass::Reservation);
            while !fits(&state) {
                self.changed.wait(&mut state);
            }
        }
        state.promised += n;
        state.serving += 1;
        self.changed.notify_all();
    }

    fn end(&self, n: u32) {
        self.state.lock().promised -= n;
        self.changed.notify_all();
    }
}

impl Core {
    /// Gives `acc` `n` frames of its own; see [`Pool::reserve_frames`](crate::Pool::reserve_frames).
    pub(crate) fn reserve(&self, n: usize, acc: &Access<'_>) -> Result<()> {
        let limit = (self.supply.active() / SHARE) as usize;
        if n > limit {
            return Err(Error::LimitReached(format!(
                "a structure change needs {n} frames, and the pool can set {limit} aside; make the pool larger"
            )));
        }
        acc.release_frames();
        self.reservations.admit(n as u32, self);
        acc.reservation.borrow_mut().promised = n as u32;
        for _ in 0..n {
            match self.wait_for_frame(acc) {
                Ok(frame) => acc.reservation.borrow_mut().frames.push(frame),
                Err(e) => {
                    acc.release_frames();
                    return Err(e);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn end_reservation(&self, reservation: Reservation) {
        self.supply.give(&reservation.frames);
        if reservation.promised > 0 {
            self.reservations.end(reservation.promised);
        }
    }
}
