//! Frames set aside for structure changes before they latch anything, so that nobody waits for a frame under a latch.
//!
//! First come, first served: a request waits until it is its turn and all reservations together, with it, are at most
//! a quarter of the pool. Then it collects real frames, as any miss does. Whoever ends a reservation hands what that makes
//! free to the first in line, as far as it goes, and wakes just those: hundreds may wait when many find one leaf full.
//!
//! Lock order: the mutex is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Error, Result, Waiter, Wake};
use holdfast_metrics::{Counter, WaitClass};

use crate::core::Core;
use crate::request::{Access, Reservation};

/// All reservations together: at most one frame in so many.
const SHARE: u32 = 4;

#[derive(Default)]
struct State {
    promised: u32,
    /// Each wants so many frames.
    line: VecDeque<Arc<Waiter<u32>>>,
}

impl State {
    fn fits(&self, frames: u32, limit: u32) -> bool {
        // A pool that was shrunk below a reservation in waiting serves it when it is alone.
        self.promised + frames <= limit || self.promised == 0
    }

    /// Takes those for whom there are frames out of the line, from its front, with what they asked for promised to them.
    fn serve(&mut self, limit: u32) -> Vec<Arc<Waiter<u32>>> {
        let mut served = Vec::new();
        while self.line.front().is_some_and(|first| self.fits(first.wants, limit))
            && let Some(waiter) = self.line.pop_front()
        {
            self.promised += waiter.wants;
            served.push(waiter);
        }
        served
    }
}

/// See the module's description.
#[derive(Default)]
pub(crate) struct Reservations(Mutex<State>);

impl Reservations {
    /// Returns when `frames` are promised to the caller.
    fn admit(&self, frames: u32, core: &Core) {
        let mut state = self.0.lock();
        if state.line.is_empty() && state.fits(frames, core.reservable()) {
            state.promised += frames;
            return;
        }
        let waiter = Waiter::new(frames);
        state.line.push_back(waiter.clone());
        drop(state);
        core.metrics.inc(Counter::ReservationWaits);
        let _wait = core.metrics.wait(WaitClass::Reservation);
        waiter.sleep();
    }

    fn end(&self, frames: u32, core: &Core) {
        let mut state = self.0.lock();
        state.promised -= frames;
        let served = state.serve(core.reservable());
        drop(state);
        served.iter().for_each(|waiter| waiter.wake(Wake::Served));
    }
}

impl Core {
    /// Frames that all reservations together may take.
    fn reservable(&self) -> u32 {
        self.supply.active() / SHARE
    }

    /// Gives `acc` `n` frames of its own; see [`Pool::reserve_frames`](crate::Pool::reserve_frames).
    pub(crate) fn reserve(&self, n: usize, acc: &Access<'_>) -> Result<()> {
        let limit = self.reservable() as usize;
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
            self.reservations.end(reservation.promised, self);
        }
    }
}
