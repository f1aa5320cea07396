//! Admission to the log's space: tickets, taken before anything is latched.
//!
//! A ticket promises that a number of bytes can be appended: the log will not outgrow its capacity, and the segments
//! that will hold the bytes exist. Classes have different limits on the age of the log (`user < rollback <
//! checkpoint`), and the same distances are kept free in the segments prepared ahead: when users wait, or the disk
//! is full, rollback and purge still have room, and when these wait, the checkpoint has. The checkpoint never waits.
//!
//! Accounting: `outstanding` is the sum of all tickets. A ticket is shrunk *after* its group was appended, so a group
//! in flight is counted twice for a moment, never not at all. Taking one is a single compare-exchange.
//!
//! Waiting: users queue first come, first served (a turn number under the mutex); the other classes do not queue.
//! Whoever makes room (the checkpoint, a dropped ticket) wakes them; nothing polls. No wake-up is lost: a waiter
//! makes its last attempt under the mutex after registering in `waiting`. The checkpoint wakes under the mutex,
//! always. A dropped ticket looks at `waiting` after its read-modify-write of `outstanding`: either the waiter's
//! attempt came after that and saw the room, or the drop's acquires the waiter's registration.
//!
//! Failure: when the checkpoint could not be moved, those who wait for it fail with that error ([`SpaceGate::fail`])
//! instead of waiting for a disk that may stay broken; the next who has to wait makes it try again. A waiter takes
//! the number of failures *before* it wakes the checkpointer, so the failure of that attempt is never missed.
//!
//! Lock order: the mutex is a leaf; it is not held while segments are prepared.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use holdfast_base::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

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
pub(crate) enum Refusal {
    /// The checkpoint has to advance, or others to give tickets back, or it is not the caller's turn.
    Wait,
    /// Segments up to this LSN have to be prepared.
    Prepare(u64),
}

/// Where the log stands, as seen by one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub next: u64,
    pub checkpoint: u64,
    pub prepared: u64,
}

fn limit_of(geometry: &Geometry, class: SpaceClass) -> u64 {
    match class {
        SpaceClass::User => geometry.user_limit,
        SpaceClass::Rollback => geometry.system_limit,
        SpaceClass::Checkpoint => geometry.hard_limit,
    }
}

/// See the module.
pub(crate) struct SpaceGate {
    outstanding: CachePadded<AtomicU64>,
    waiting: AtomicU64,
    sizes: Arc<Sizes>,
    turns: Mutex<Turns>,
    room: Condvar,
}

#[derive(Default)]
struct Turns {
    next: u64,
    serving: u64,
    /// Attempts to move the checkpoint that failed, and why the last one did.
    failures: u64,
    failure: Option<Error>,
}

impl SpaceGate {
    /// Nothing is promised yet.
    pub fn new(sizes: Arc<Sizes>) -> Arc<SpaceGate> {
        Arc::new(SpaceGate {
            outstanding: CachePadded::new(AtomicU64::new(0)),
            waiting: AtomicU64::new(0),
            sizes,
            turns: Mutex::default(),
            room: Condvar::new(),
        })
    }

    /// Bytes promised and not yet given back.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Acquire)
    }

    /// The age that a class may reach.
    pub fn limit(&self, class: SpaceClass) -> u64 {
        limit_of(&self.sizes.get(), class)
    }

    /// Takes a ticket if the class's limit allows it now, and nobody waits in front.
    #[inline]
    pub fn try_take(
        self: &Arc<Self>,
        bytes: u64,
        class: SpaceClass,
        position: impl Fn() -> Position,
    ) -> Result<SpaceTicket, Refusal> {
        if class == SpaceClass::User && self.waiting.load(Ordering::Relaxed) > 0 {
            return Err(Refusal::Wait);
        }
        self.take(bytes, class, position)
    }

    fn take(
        self: &Arc<Self>,
        bytes: u64,
        class: SpaceClass,
        position: impl Fn() -> Position,
    ) -> Result<SpaceTicket, Refusal> {
        let geometry = self.sizes.get();
        let limit = limit_of(&geometry, class);
        let kept = geometry.hard_limit - limit;
        let mut outstanding = self.outstanding.load(Ordering::Acquire);
        loop {
            // Read after `outstanding`: what a ticket gave back there is in `next` by now.
            let at = position();
            let end = at.next + outstanding + bytes;
            if class != SpaceClass::Checkpoint && end.saturating_sub(at.checkpoint) > limit {
                return Err(Refusal::Wait);
            }
            if end + kept > at.prepared {
                return Err(Refusal::Prepare(end + kept));
            }
            let taken = outstanding + bytes;
            match self.outstanding.compare_exchange_weak(outstanding, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(SpaceTicket { gate: self.clone(), left: bytes }),
                Err(now) => outstanding = now,
            }
        }
    }

    /// How often the checkpoint could not be moved.
    pub fn failures(&self) -> u64 {
        self.turns.lock().failures
    }

    /// The checkpoint could not be moved: whoever waits for it fails.
    pub fn fail(&self, error: Error) {
        let mut turns = self.turns.lock();
        turns.failures += 1;
        turns.failure = Some(error);
        self.room.notify_all();
    }

    /// Waits for a ticket. `failures`: what [`SpaceGate::failures`] said before the checkpointer was woken. `prepare(lsn)`
    /// prepares segments up to `lsn`; the caller keeps his turn meanwhile. `stop` fails when waiting has become useless;
    /// it is asked after every wake-up.
    ///
    /// # Errors
    /// Of `prepare` and `stop`; that of [`SpaceGate::fail`] if there is no room.
    pub fn wait(
        self: &Arc<Self>,
        bytes: u64,
        class: SpaceClass,
        failures: u64,
        position: impl Fn() -> Position,
        prepare: impl Fn(u64) -> Result<()>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<SpaceTicket> {
        let mut turns = self.turns.lock();
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let turn = turns.next;
        let queues = class == SpaceClass::User;
        turns.next += u64::from(queues);
        let outcome = loop {
            if let Err(e) = stop() {
                break Err(e);
            }
            if !queues || turns.serving == turn {
                match self.take(bytes, class, &position) {
                    Ok(ticket) => break Ok(ticket),
                    Err(Refusal::Wait) => {}
                    Err(Refusal::Prepare(lsn)) => match MutexGuard::unlocked(&mut turns, || prepare(lsn)) {
                        Ok(()) => continue,
                        Err(e) => break Err(e),
                    },
                }
            }
            if turns.failures > failures
                && let Some(error) = &turns.failure
            {
                break Err(error.clone());
            }
            self.room.wait(&mut turns);
        };
        if queues {
            // When told to stop it may not have been this one's turn; those in front are told the same.
            turns.serving = turns.serving.max(turn + 1);
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.room.notify_all();
        outcome
    }

    /// To be called after room was made by other means than a ticket, or when waiting became useless.
    pub fn wake_all(&self) {
        let _turns = self.turns.lock();
        self.room.notify_all();
    }
}

/// A promise of log space; what is left of it is given back on drop.
///
/// Take it before latching anything, and hold one at a time: a thread that holds a ticket while it waits for a
/// second one may wait for itself.
pub struct SpaceTicket {
    gate: Arc<SpaceGate>,
    left: u64,
}

impl SpaceTicket {
    /// Bytes that it still promises.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.left
    }

    /// Tells that `bytes` of it have been appended (at most what is left counts). Worth calling for tickets that
    /// cover several groups; otherwise dropping is enough.
    pub fn consume(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.give_back(bytes);
    }

    fn give_back(&self, bytes: u64) {
        if bytes > 0 {
            self.gate.outstanding.fetch_sub(bytes, Ordering::AcqRel);
            if self.gate.waiting.load(Ordering::Acquire) > 0 {
                self.gate.wake_all();
            }
        }
    }
}

impl Drop for SpaceTicket {
    fn drop(&mut self) {
        self.give_back(self.left);
    }
}

impl fmt::Debug for SpaceTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceTicket").field("left", &self.left).finish_non_exhaustive()
    }
}
