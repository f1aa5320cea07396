//! Admission to the log's space: tickets, taken before anything is latched.
//!
//! A ticket promises that a number of bytes can be appended: the log will not outgrow its capacity, and the segments
//! that will hold the bytes exist. Classes have different limits on the age of the log (`user < rollback <
//! checkpoint`), and the same distances are kept free in the segments prepared ahead: when users wait, or the disk
//! is full, rollback and purge still have room, and when these wait, the checkpoint has. The checkpoint never waits.
//!
//! Accounting: `outstanding` is the sum of all tickets. A ticket is given back *after* its group was appended, so a group
//! in flight is counted twice for a moment, never not at all.
//!
//! Taking one promises the bytes first, and gives them back like any ticket if there turns out to be no room for them. The end of the log
//! stands beside the sum: both are changed by every change of a page, and a thread that has to fetch them from another core, or to make
//! the other core give up its copy, does that once.
//!
//! Waiting: who has to wait stands in line, first come first served; users in one line, rollback and purge in another.
//! Only the first of a line looks whether there is room. When there is, it takes its ticket, hands tickets to those behind
//! it for whom there is room too, and wakes just them: with hundreds in line, waking everybody whenever one may go on
//! would be all that the processors do. New users stand in line as long as anybody waits; the others only if there is no
//! room. Whoever makes room (the checkpoint, a dropped ticket) calls the first of each line; nothing polls. No call is
//! lost: a waiter makes its last attempt under the mutex after registering in `waiting`. The checkpoint calls under the
//! mutex, always. A dropped ticket looks at `waiting` after its read-modify-write of `outstanding`, and the attempt begins with
//! one: either the attempt's came later and saw the room, or the drop's acquired the waiter's registration. That goes for the ticket of one
//! who found no room, too: he whom it was in the way of is called. Those in line promise nothing that they may have to take back.
//!
//! Failure: when the checkpoint could not be moved, those who wait for it fail with that error ([`SpaceGate::fail`])
//! instead of waiting for a disk that may stay broken; the next who has to wait makes it try again. A waiter takes
//! the number of failures *before* it wakes the checkpointer, so the failure of that attempt is never missed.
//!
//! Lock order: the mutex is a leaf; it is not held while segments are prepared. `tests/loom_space.rs` explores the lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::{Mutex, MutexGuard};
use holdfast_base::{Error, Result, Waiter, Wake};

use crate::config::{Geometry, Sizes};

/// On whose behalf log space is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// A statement.
    User,
    /// Rollback or purge: they make progress while users wait.
    Rollback,
    /// What advances the checkpoint: it never waits.
    Checkpoint,
}

/// Why a ticket is not granted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The checkpoint has to advance, or others to give tickets back, or it is not the caller's turn.
    Wait,
    /// Segments up to this LSN have to be prepared.
    Prepare(u64),
}

/// How far the log has got, as seen by one attempt.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The LSN that the next group gets.
    pub next: u64,
    /// The LSN of the last checkpoint.
    pub checkpoint: u64,
    /// Up to this LSN the segments are prepared.
    pub prepared: u64,
}

fn limit_of(geometry: &Geometry, class: SpaceClass) -> u64 {
    match class {
        SpaceClass::User => geometry.user_limit,
        SpaceClass::Rollback => geometry.system_limit,
        SpaceClass::Checkpoint => geometry.hard_limit,
    }
}

/// What every change of a page changes.
struct End {
    /// Where the next group starts.
    next: AtomicU64,
    /// Bytes promised and not yet given back.
    outstanding: AtomicU64,
}

/// See the module.
pub struct SpaceGate {
    end: CachePadded<End>,
    waiting: AtomicU64,
    sizes: Arc<Sizes>,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// Each wants so many bytes.
    users: VecDeque<Arc<Waiter<u64>>>,
    /// Rollback and purge.
    system: VecDeque<Arc<Waiter<u64>>>,
    /// Attempts to move the checkpoint that failed, and why the last one did.
    failures: u64,
    failure: Option<Error>,
}

impl Lines {
    fn of(&mut self, class: SpaceClass) -> &mut VecDeque<Arc<Waiter<u64>>> {
        if class == SpaceClass::User { &mut self.users } else { &mut self.system }
    }

    fn call_first(&self) {
        for line in [&self.system, &self.users] {
            line.front().inspect(|first| first.wake(Wake::Called));
        }
    }

    fn call_all(&self) {
        self.system.iter().chain(&self.users).for_each(|waiter| waiter.wake(Wake::Called));
    }
}

impl SpaceGate {
    /// Nothing is promised yet; the log ends at `next`.
    pub fn new(sizes: Arc<Sizes>, next: u64) -> SpaceGate {
        SpaceGate {
            end: CachePadded::new(End { next: AtomicU64::new(next), outstanding: AtomicU64::new(0) }),
            waiting: AtomicU64::new(0),
            sizes,
            lines: Mutex::default(),
        }
    }

    /// Where the next group of the log starts: whoever appends moves it on.
    #[inline]
    pub fn next(&self) -> &AtomicU64 {
        &self.end.next
    }

    /// Bytes promised and not yet given back.
    pub fn outstanding(&self) -> u64 {
        self.end.outstanding.load(Ordering::Acquire)
    }

    /// The age that a class may reach.
    pub fn limit(&self, class: SpaceClass) -> u64 {
        limit_of(&self.sizes.get(), class)
    }

    /// Takes a ticket if the class's limit allows it now, and nobody waits in front.
    #[inline]
    pub fn try_take(
        &self,
        bytes: u64,
        class: SpaceClass,
        position: impl Fn() -> Position,
    ) -> Result<SpaceTicket<'_>, Refusal> {
        if class == SpaceClass::User && self.waiting.load(Ordering::Relaxed) > 0 {
            return Err(Refusal::Wait);
        }
        let others = self.end.outstanding.fetch_add(bytes, Ordering::AcqRel);
        // Given back, with all that belongs to that, where there is no room.
        let ticket = self.ticket(bytes);
        // Read after `outstanding`: what a ticket gave back there is in `next` by now.
        self.room_for(others + bytes, class, &position()).map(|()| ticket)
    }

    /// What was promised.
    fn ticket(&self, bytes: u64) -> SpaceTicket<'_> {
        SpaceTicket { gate: self, bytes }
    }

    /// Whether there is room for all that is `promised`, the last of it to `class`.
    #[inline]
    fn room_for(&self, promised: u64, class: SpaceClass, at: &Position) -> Result<(), Refusal> {
        let geometry = self.sizes.get();
        let limit = limit_of(&geometry, class);
        let kept = geometry.hard_limit - limit;
        let end = at.next + promised;
        if class != SpaceClass::Checkpoint && end.saturating_sub(at.checkpoint) > limit {
            return Err(Refusal::Wait);
        }
        if end + kept > at.prepared { Err(Refusal::Prepare(end + kept)) } else { Ok(()) }
    }

    /// Promises `bytes` if there is room.
    fn promise(&self, bytes: u64, class: SpaceClass, position: &impl Fn() -> Position) -> Result<(), Refusal> {
        let mut outstanding = self.outstanding();
        loop {
            self.room_for(outstanding + bytes, class, &position())?;
            let taken = outstanding + bytes;
            match self.end.outstanding.compare_exchange_weak(outstanding, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => outstanding = now,
            }
        }
    }

    /// How often the checkpoint could not be moved.
    pub fn failures(&self) -> u64 {
        self.lines.lock().failures
    }

    /// The checkpoint could not be moved: whoever waits for it fails.
    pub fn fail(&self, error: Error) {
        let mut lines = self.lines.lock();
        lines.failures += 1;
        lines.failure = Some(error);
        lines.call_all();
    }

    /// Waits for a ticket. `failures`: what [`SpaceGate::failures`] said before the checkpointer was woken. `prepare(lsn)`
    /// prepares segments up to `lsn`; the caller keeps his place meanwhile. `stop` fails when waiting has become useless;
    /// it is asked whenever the caller is called.
    ///
    /// # Errors
    /// Of `prepare` and `stop`; that of [`SpaceGate::fail`] if there is no room.
    pub fn wait(
        &self,
        bytes: u64,
        class: SpaceClass,
        failures: u64,
        position: impl Fn() -> Position,
        prepare: impl Fn(u64) -> Result<()>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<SpaceTicket<'_>> {
        let waiter = Waiter::new(bytes);
        let mut lines = self.lines.lock();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        lines.of(class).push_back(waiter.clone());
        loop {
            if let Err(e) = stop() {
                return self.leave(lines, &waiter, class, e);
            }
            if lines.of(class).front().is_some_and(|first| Arc::ptr_eq(first, &waiter)) {
                let (served, refusal) = self.serve(lines.of(class), class, &position);
                if !served.is_empty() {
                    if matches!(refusal, Some(Refusal::Prepare(_))) {
                        lines.call_first();
                    }
                    drop(lines);
                    // This one among them.
                    served.iter().for_each(|waiter| waiter.wake(Wake::Served));
                    return Ok(self.ticket(bytes));
                }
                if let Some(Refusal::Prepare(lsn)) = refusal {
                    drop(lines);
                    let prepared = prepare(lsn);
                    lines = self.lines.lock();
                    match prepared {
                        Ok(()) => continue,
                        Err(e) => return self.leave(lines, &waiter, class, e),
                    }
                }
            }
            if lines.failures > failures
                && let Some(error) = lines.failure.clone()
            {
                return self.leave(lines, &waiter, class, error);
            }
            drop(lines);
            if waiter.sleep() == Wake::Served {
                return Ok(self.ticket(bytes));
            }
            lines = self.lines.lock();
        }
    }

    /// Takes those for whom there is room out of the line, from its front, with what they asked for promised to them. Returns what
    /// keeps the next one, if there is one.
    fn serve(
        &self,
        line: &mut VecDeque<Arc<Waiter<u64>>>,
        class: SpaceClass,
        position: &impl Fn() -> Position,
    ) -> (Vec<Arc<Waiter<u64>>>, Option<Refusal>) {
        // Not a load: see the module.
        self.end.outstanding.fetch_add(0, Ordering::AcqRel);
        let (mut served, mut refusal) = (Vec::new(), None);
        while let (Some(first), None) = (line.front(), refusal) {
            match self.promise(first.wants, class, position) {
                Ok(()) => served.extend(line.pop_front()),
                Err(why) => refusal = Some(why),
            }
        }
        self.waiting.fetch_sub(served.len() as u64, Ordering::AcqRel);
        (served, refusal)
    }

    /// Steps out of line because of an error; with a ticket all the same, if it was served just now.
    fn leave(
        &self,
        mut lines: MutexGuard<'_, Lines>,
        waiter: &Arc<Waiter<u64>>,
        class: SpaceClass,
        error: Error,
    ) -> Result<SpaceTicket<'_>> {
        let line = lines.of(class);
        let Some(place) = line.iter().position(|w| Arc::ptr_eq(w, waiter)) else {
            return Ok(self.ticket(waiter.wants));
        };
        line.remove(place);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        // It may have been first, and called.
        lines.call_first();
        Err(error)
    }

    /// To be called after room was made by other means than a ticket.
    pub fn call_first(&self) {
        self.lines.lock().call_first();
    }

    /// To be called when waiting became useless.
    pub fn call_all(&self) {
        self.lines.lock().call_all();
    }
}

/// A promise of log space, which is given back on drop: to be dropped once the groups that it was taken for have been appended, or will not be.
///
/// Take it before latching anything, and hold one at a time: a thread that holds a ticket while it waits for a
/// second one may wait for itself.
pub struct SpaceTicket<'g> {
    gate: &'g SpaceGate,
    bytes: u64,
}

impl SpaceTicket<'_> {
    /// Bytes that it promises.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SpaceTicket<'_> {
    fn drop(&mut self) {
        self.gate.end.outstanding.fetch_sub(self.bytes, Ordering::AcqRel);
        if self.gate.waiting.load(Ordering::Acquire) > 0 {
            self.gate.call_first();
        }
    }
}

impl fmt::Debug for SpaceTicket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceTicket").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
