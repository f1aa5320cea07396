//! Admission to the log's space: tickets, taken before anything is latched.
//!
//! A ticket promises that a number of bytes can be appended: the log will not outgrow its capacity,
//! and the segments that will hold the bytes exist. The classes have different limits on the age of
//! the log (`user < rollback < checkpoint`), and the same distances are kept free in the segments
//! prepared ahead. When users wait, or the disk is full, rollback and purge still have room; when
//! these wait, the checkpoint has. The checkpoint never waits.
//!
//! Accounting: `outstanding` is the sum of the tickets that are counted exactly; the others are
//! counted by the groups of threads that took them (`allowance.rs`), as long as there is plenty of
//! room. A ticket is given back *after* its group was appended, where it was counted. So a group in
//! flight is counted twice for a moment, and never not at all.
//!
//! Taking a ticket promises the bytes first, and gives them back like any ticket if there is no
//! room for them.
//!
//! Waiting:
//!
//! 1. Waiters queue first come first served, users in one queue, rollback and purge in another.
//! 2. Only the first of a queue checks for room. If there is room, it takes its ticket, hands
//!    tickets to the waiters behind it as long as there is room for them, and wakes only these.
//!    Waking all of hundreds of waiters each time that one can go on would take the processors up.
//! 3. A new user queues while any waiter exists. Rollback and purge queue only if there is no room.
//! 4. A thread that makes room (the checkpointer, the owner of a dropped ticket) calls the first of
//!    each queue. No thread polls.
//! 5. A waiter wakes the checkpointer each time before it sleeps. So does a waiter that is served
//!    and leaves a first one behind for which there is no room. [`SpaceGate::age_wanted`] tells the
//!    checkpointer how far to go for the first waiters. What still holds it up then has an end that
//!    wakes it: see `docs/design/flushing.md`.
//!
//! Invariant *no call is lost*: a waiter makes its last attempt under the mutex, after registering
//! in `waiting`. The checkpointer calls under the mutex, always. The drop of a ticket reads
//! `waiting` after its read-modify-write of the count that has the ticket, and the attempt begins
//! with one of each count. Either the attempt's came later and saw the room, or the drop's came
//! later and saw the registration.
//! This also holds for the ticket of a thread that found no room: its drop calls the waiter that
//! the ticket kept from going on. Waiters promise nothing that they may have to give back.
//!
//! Closing: a thread that closes the log, so that [`Log::check`] fails, then waits for the tickets
//! that are out ([`SpaceGate::wait_for_tickets`]). It is called as a waiter is, by the same
//! invariant. A thread that takes a ticket asks [`Log::check`] once more after its bytes are
//! counted: either the count has them, or the thread sees that the log is closed.
//!
//! A full disk: where no segment can be prepared, a waiter waits for a checkpoint that lets the
//! first one be recycled, if that is full. Else it fails.
//!
//! Failure: when the checkpoint cannot be moved, the waiters fail with that error
//! ([`SpaceGate::fail`]) instead of waiting for a disk that may stay broken. The next thread that
//! has to wait makes the checkpointer try again. A waiter reads the number of failures when it
//! queues, before the checkpointer is woken for it, so it never misses the failure of that attempt.
//!
//! Lock order: the mutex is a leaf; it is not held while segments are prepared.
//! `tests/loom_space.rs` explores the queues, and finds a drop that looks for waiters too early
//! (`waiters-counted-early`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use holdfast_base::sync::atomic::{AtomicU64, Ordering};
use holdfast_base::sync::{Mutex, MutexGuard};
use holdfast_base::{Error, Result, Waiter, Wake};

use crate::allowance::{Allowances, allowance};
use crate::config::{Geometry, Sizes};

/// The kind of work that log space is reserved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceClass {
    /// A statement.
    User,
    /// Rollback or purge: they make progress while users wait.
    Rollback,
    /// The work that advances the checkpoint: it never waits.
    Checkpoint,
}

/// Why a ticket is not granted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The checkpoint has to advance, or other tickets have to be given back, or it is not the
    /// caller's turn.
    Wait,
    /// The segments up to this LSN have to be prepared.
    Prepare(u64),
}

/// The ends of the log, as one attempt sees them.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The LSN that the next group gets.
    pub next: u64,
    /// The LSN of the last checkpoint.
    pub checkpoint: u64,
    /// The segments are prepared up to this LSN.
    pub prepared: u64,
}

/// What the gate asks of the log.
pub trait Log {
    /// The ends of the log now.
    fn position(&self) -> Position;

    /// Prepares the segments up to `lsn`.
    ///
    /// # Errors
    /// If the disk is full, or fails.
    fn prepare(&self, lsn: u64) -> Result<()>;

    /// Where the first segment ends that is in use.
    fn first_end(&self) -> Option<u64>;

    /// Succeeds if `bytes` can be waited for.
    ///
    /// # Errors
    /// If the log is closed or poisoned, or the class can never get so many.
    fn check(&self, bytes: u64, class: SpaceClass) -> Result<()>;

    /// Makes the checkpointer do what [`SpaceGate::age_wanted`] says.
    fn wake_checkpointer(&self);
}

fn limit_of(geometry: &Geometry, class: SpaceClass) -> u64 {
    match class {
        SpaceClass::User => geometry.user_limit,
        SpaceClass::Rollback => geometry.system_limit,
        SpaceClass::Checkpoint => geometry.hard_limit,
    }
}

/// Succeeds if there is room for `promised` bytes, the last of them for `class`.
#[inline]
fn room_for(promised: u64, class: SpaceClass, geometry: &Geometry, at: &Position) -> Result<(), Refusal> {
    let limit = limit_of(geometry, class);
    let kept = geometry.hard_limit - limit;
    let end = at.next + promised;
    if class != SpaceClass::Checkpoint && end.saturating_sub(at.checkpoint) > limit {
        return Err(Refusal::Wait);
    }
    if end + kept > at.prepared { Err(Refusal::Prepare(end + kept)) } else { Ok(()) }
}

/// The admission to the log's space; see the module.
pub struct SpaceGate {
    /// The LSN of the next group: the one line that every change of a page writes to.
    next: CachePadded<AtomicU64>,
    /// The bytes promised by tickets that are counted exactly.
    outstanding: CachePadded<AtomicU64>,
    allowances: Allowances,
    waiting: AtomicU64,
    sizes: Arc<Sizes>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// The waiting users. Each wants a number of bytes.
    users: VecDeque<Arc<Waiter<u64>>>,
    /// The waiters of rollback and purge.
    system: VecDeque<Arc<Waiter<u64>>>,
    /// The thread that waits until no ticket is out.
    closer: Option<Arc<Waiter<u64>>>,
    /// How many attempts to move the checkpoint failed, and why the last one did.
    failures: u64,
    failure: Option<Error>,
    /// The disk has no room for another segment: the first waiter waits for the checkpoint to pass
    /// this LSN, so that one is recycled.
    recycled_at: Option<u64>,
}

impl Queues {
    fn of(&mut self, class: SpaceClass) -> &mut VecDeque<Arc<Waiter<u64>>> {
        if class == SpaceClass::User { &mut self.users } else { &mut self.system }
    }

    fn call_first(&self) {
        let firsts = [self.system.front(), self.users.front(), self.closer.as_ref()];
        firsts.into_iter().flatten().for_each(|first| first.wake(Wake::Called));
    }

    fn call_all(&self) {
        let waiters = self.system.iter().chain(&self.users).chain(&self.closer);
        waiters.for_each(|waiter| waiter.wake(Wake::Called));
    }
}

/// The LSN that the checkpoint has to pass so that a segment is recycled. `None` if no segment is
/// full, or the first one has been passed.
fn recycled_at(log: &impl Log) -> Option<u64> {
    let at = log.position();
    log.first_end().filter(|end| (at.checkpoint + 1..=at.next).contains(end))
}

impl SpaceGate {
    /// Creates the gate of a log that ends at `next`. Nothing is promised yet.
    pub fn new(sizes: Arc<Sizes>, next: u64) -> SpaceGate {
        SpaceGate {
            next: CachePadded::new(AtomicU64::new(next)),
            outstanding: CachePadded::new(AtomicU64::new(0)),
            allowances: Allowances::new(next),
            waiting: AtomicU64::new(0),
            sizes,
            queues: Mutex::default(),
        }
    }

    /// The LSN of the next group. An appending thread advances it.
    #[inline]
    pub fn next(&self) -> &AtomicU64 {
        &self.next
    }

    /// A thread has appended up to `end`. To be called before it gives its ticket back.
    #[inline]
    pub fn grown_to(&self, end: u64) {
        self.allowances.grown_to(end, || self.sizes.get());
    }

    /// An LSN that the end of the log has not passed, but for groups whose tickets are still out;
    /// a little beyond the end.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.allowances.horizon()
    }

    /// The bytes promised and not yet given back.
    pub fn promised(&self) -> u64 {
        self.outstanding.load(Ordering::Acquire) + self.allowances.held()
    }

    /// The age that a class may reach.
    pub fn limit(&self, class: SpaceClass) -> u64 {
        limit_of(&self.sizes.get(), class)
    }

    /// Takes a ticket if there is plenty of room. A user gets none while another waiter exists.
    #[inline]
    pub fn try_take_of_plenty(&self, bytes: u64, class: SpaceClass, log: &impl Log) -> Option<SpaceTicket<'_>> {
        if self.allowances.is_crowded() || self.must_queue(class) {
            return None;
        }
        let geometry = self.sizes.get();
        let ticket = match self.allowances.try_add(bytes, &geometry) {
            Some(count) => SpaceTicket { gate: self, count, bytes },
            None if bytes > limit_of(&geometry, class) => return None,
            None => self.promise_unasked(bytes).0,
        };
        // The mark is read after the bytes are counted. If the ticket is not granted, its drop
        // gives the bytes back and calls the first waiters.
        let granted = !self.allowances.is_crowded() && self.is_plenty(&geometry, class, log);
        granted.then_some(ticket)
    }

    /// True if the class has to queue behind a waiter.
    #[inline]
    fn must_queue(&self, class: SpaceClass) -> bool {
        class == SpaceClass::User && self.waiting.load(Ordering::Relaxed) > 0
    }

    /// True if there is room for twice the allowance beyond what is promised exactly. Prepares the
    /// segments for it.
    #[inline]
    fn is_plenty(&self, geometry: &Geometry, class: SpaceClass, log: &impl Log) -> bool {
        let promised = self.outstanding.load(Ordering::Acquire) + 2 * allowance(geometry);
        let at = Position { next: self.horizon(), ..log.position() };
        match room_for(promised, class, geometry, &at) {
            Ok(()) => true,
            Err(Refusal::Wait) => false,
            Err(Refusal::Prepare(lsn)) => log.prepare(lsn).is_ok(),
        }
    }

    /// Takes a ticket if the class's limit allows it now. A user gets none while another waiter
    /// exists. To be called after [`SpaceGate::try_take_of_plenty`].
    pub fn try_take(&self, bytes: u64, class: SpaceClass, log: &impl Log) -> Result<SpaceTicket<'_>, Refusal> {
        if self.must_queue(class) {
            return Err(Refusal::Wait);
        }
        let geometry = self.sizes.get();
        let (ticket, exactly) = self.promise_unasked(bytes);
        let promised = exactly + self.allowances.crowd();
        // Read after the counts: what a ticket gave back before is part of `next` by now.
        let at = log.position();
        room_for(promised, class, &geometry, &at)?;
        let plenty = 2 * allowance(&geometry);
        if self.waiting.load(Ordering::Relaxed) == 0
            && at.next + promised + 2 * plenty <= at.checkpoint + geometry.user_limit
            && at.next + promised + plenty + geometry.hard_limit - geometry.user_limit <= at.prepared
        {
            self.allowances.end_crowd();
        }
        Ok(ticket)
    }

    /// Counts `bytes` exactly, whether there is room for them or not. Returns them with what is
    /// promised exactly then.
    fn promise_unasked(&self, bytes: u64) -> (SpaceTicket<'_>, u64) {
        let others = self.outstanding.fetch_add(bytes, Ordering::AcqRel);
        (self.ticket(bytes), others + bytes)
    }

    /// The ticket for bytes that have been promised exactly.
    fn ticket(&self, bytes: u64) -> SpaceTicket<'_> {
        SpaceTicket { gate: self, count: &self.outstanding, bytes }
    }

    /// Promises `bytes` exactly if there is room. `of_groups` are promised by groups of threads.
    fn promise(&self, bytes: u64, of_groups: u64, class: SpaceClass, log: &impl Log) -> Result<(), Refusal> {
        let geometry = self.sizes.get();
        let mut outstanding = self.outstanding.load(Ordering::Acquire);
        loop {
            let taken = outstanding + bytes;
            room_for(taken + of_groups, class, &geometry, &log.position())?;
            match self.outstanding.compare_exchange_weak(outstanding, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => outstanding = now,
            }
        }
    }

    /// The age to which the log has to shrink for the first waiters; `None` if none waits. Tickets
    /// that are out are not counted: the end of each calls the first waiter.
    pub fn age_wanted(&self) -> Option<u64> {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut queues = self.queues.lock();
        let classes = [SpaceClass::User, SpaceClass::Rollback];
        let wanted = classes.map(|class| {
            let first = queues.of(class).front()?;
            Some(self.limit(class).saturating_sub(first.wants))
        });
        let recycled = queues.recycled_at.map(|lsn| self.next.load(Ordering::Acquire).saturating_sub(lsn));
        wanted.into_iter().flatten().chain(recycled).min()
    }

    /// True if a segment can be prepared though the disk had no room for another one, as `error`
    /// says: once a checkpoint lets one be recycled, or since one has been. `first`: where the
    /// first segment ended before that was tried.
    pub fn may_recycle(error: &Error, first: Option<u64>, class: SpaceClass, log: &impl Log) -> bool {
        let may_wait = matches!(error, Error::DiskFull(_)) && class != SpaceClass::Checkpoint;
        may_wait && (log.first_end() != first || recycled_at(log).is_some())
    }

    /// Fails all waiters: the checkpoint could not be moved.
    pub fn fail(&self, error: Error) {
        let mut queues = self.queues.lock();
        queues.failures += 1;
        queues.failure = Some(error);
        queues.call_all();
    }

    /// Waits for a ticket. While segments are prepared, the caller keeps its place in the queue.
    /// The log is [checked](Log::check) each time that the caller is woken.
    ///
    /// # Errors
    /// The errors of the log; that of [`SpaceGate::fail`] if there is no room.
    pub fn wait(&self, bytes: u64, class: SpaceClass, log: &impl Log) -> Result<SpaceTicket<'_>> {
        let waiter = Waiter::new(bytes);
        let mut queues = self.queues.lock();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        queues.of(class).push_back(waiter.clone());
        let failures = queues.failures;
        loop {
            if let Err(e) = log.check(bytes, class) {
                return self.leave(queues, &waiter, class, e);
            }
            if queues.of(class).front().is_some_and(|first| Arc::ptr_eq(first, &waiter)) {
                let (served, refusal) = self.serve(queues.of(class), class, log);
                if !served.is_empty() {
                    queues.recycled_at = None;
                    if matches!(refusal, Some(Refusal::Prepare(_))) {
                        queues.call_first();
                    }
                    drop(queues);
                    // The caller is one of them.
                    served.iter().for_each(|waiter| waiter.wake(Wake::Served));
                    if refusal == Some(Refusal::Wait) {
                        log.wake_checkpointer();
                    }
                    return Ok(self.ticket(bytes));
                }
                if let Some(Refusal::Prepare(lsn)) = refusal {
                    drop(queues);
                    let first = log.first_end();
                    let prepared = log.prepare(lsn);
                    queues = self.queues.lock();
                    queues.recycled_at = None;
                    let Err(error) = prepared else { continue };
                    if !SpaceGate::may_recycle(&error, first, class, log) {
                        return self.leave(queues, &waiter, class, error);
                    }
                    queues.recycled_at = recycled_at(log);
                    if queues.recycled_at.is_none() {
                        continue; // One has been recycled meanwhile.
                    }
                }
            }
            if queues.failures > failures
                && let Some(error) = queues.failure.clone()
            {
                return self.leave(queues, &waiter, class, error);
            }
            drop(queues);
            log.wake_checkpointer();
            if waiter.sleep() == Wake::Served {
                return Ok(self.ticket(bytes));
            }
            queues = self.queues.lock();
        }
    }

    /// Takes waiters from the front of the queue as long as there is room for them, and promises
    /// each what it wants. Returns them, and the reason why the next one has to wait, if there is a
    /// next one.
    fn serve(
        &self,
        queue: &mut VecDeque<Arc<Waiter<u64>>>,
        class: SpaceClass,
        log: &impl Log,
    ) -> (Vec<Arc<Waiter<u64>>>, Option<Refusal>) {
        // Read-modify-writes, not loads: the invariant *no call is lost* needs them.
        self.outstanding.fetch_add(0, Ordering::AcqRel);
        let of_groups = self.allowances.crowd();
        let (mut served, mut refusal) = (Vec::new(), None);
        while let (Some(first), None) = (queue.front(), refusal) {
            match self.promise(first.wants, of_groups, class, log) {
                Ok(()) => served.extend(queue.pop_front()),
                Err(why) => refusal = Some(why),
            }
        }
        self.waiting.fetch_sub(served.len() as u64, Ordering::AcqRel);
        (served, refusal)
    }

    /// Leaves the queue because of an error. Returns a ticket all the same if the waiter has just
    /// been served.
    fn leave(
        &self,
        mut queues: MutexGuard<'_, Queues>,
        waiter: &Arc<Waiter<u64>>,
        class: SpaceClass,
        error: Error,
    ) -> Result<SpaceTicket<'_>> {
        let queue = queues.of(class);
        let Some(place) = queue.iter().position(|w| Arc::ptr_eq(w, waiter)) else {
            return Ok(self.ticket(waiter.wants));
        };
        queue.remove(place);
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        // The waiter may have been the first, and called.
        queues.call_first();
        Err(error)
    }

    /// Waits until every ticket has been given back. To be called by one thread, which has none,
    /// after it has closed the log.
    pub fn wait_for_tickets(&self) {
        let closer = Waiter::new(0);
        self.queues.lock().closer = Some(closer.clone());
        self.waiting.fetch_add(1, Ordering::AcqRel);
        // Read-modify-writes, not loads: the invariant *no call is lost* needs them.
        while self.outstanding.fetch_add(0, Ordering::AcqRel) + self.allowances.crowd() > 0 {
            closer.sleep();
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.queues.lock().closer = None;
    }

    /// Calls the first waiters. To be called after room was made by other means than a ticket.
    pub fn call_first(&self) {
        self.queues.lock().call_first();
    }

    /// Wakes all waiters. To be called when waiting has become useless.
    pub fn call_all(&self) {
        self.queues.lock().call_all();
    }
}

/// A promise of log space. Drop it, which gives the space back, once the groups that it was taken
/// for have been appended or will not be.
///
/// Take it before latching anything, and hold one at a time: a thread that holds a ticket while it
/// waits for a second one may wait for itself.
pub struct SpaceTicket<'g> {
    gate: &'g SpaceGate,
    /// What counts the bytes.
    count: &'g AtomicU64,
    bytes: u64,
}

impl SpaceTicket<'_> {
    /// The bytes that the ticket promises.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SpaceTicket<'_> {
    fn drop(&mut self) {
        let waiting = || self.gate.waiting.load(Ordering::Acquire);
        let early = holdfast_base::planted!("waiters-counted-early").then(waiting);
        let counted = self.count.fetch_sub(self.bytes, Ordering::AcqRel);
        debug_assert!(counted >= self.bytes, "a ticket is given back where it was counted");
        if early.unwrap_or_else(waiting) > 0 {
            self.gate.call_first();
        }
    }
}

impl fmt::Debug for SpaceTicket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceTicket").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
