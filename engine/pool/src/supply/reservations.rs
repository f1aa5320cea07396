//! The line of the reservations of frames: first come, first served. See `reserve`.
//!
//! Lock order: the mutex is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;

use holdfast_base::blocking::Mutex;
use holdfast_base::{Waiter, Wake};
use holdfast_metrics::{Counter, Metrics, WaitClass};

/// The frames set aside for a structure change, and the share of the bound that they take.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    pub(crate) frames: Vec<u32>,
    pub(crate) promised: u32,
}

impl Reservation {
    /// Frames that are promised and not there.
    pub(crate) fn missing(&self) -> usize {
        (self.promised as usize).saturating_sub(self.frames.len())
    }
}

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

    /// Takes the requests for which there are frames from the front of the queue, with their frames
    /// promised to them.
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

/// All reservations of a pool; see the module's description.
#[derive(Default)]
pub(crate) struct Reservations(Mutex<State>);

impl Reservations {
    /// Returns when `frames` are promised to the caller. `limit`: what all together may have now.
    pub(crate) fn admit(&self, frames: u32, limit: impl Fn() -> u32, metrics: &Metrics) {
        let mut state = self.0.lock();
        if state.line.is_empty() && state.fits(frames, limit()) {
            state.promised += frames;
            return;
        }
        let waiter = Waiter::new(frames);
        state.line.push_back(waiter.clone());
        drop(state);
        metrics.inc(Counter::ReservationWaits);
        let _wait = metrics.wait(WaitClass::Reservation);
        waiter.sleep();
    }

    /// Takes back what was promised to a reservation that ends. `limit` as in
    /// [`Reservations::admit`].
    pub(crate) fn end(&self, frames: u32, limit: impl Fn() -> u32) {
        let mut state = self.0.lock();
        state.promised -= frames;
        let served = state.serve(limit());
        drop(state);
        served.iter().for_each(|waiter| waiter.wake(Wake::Served));
    }
}
