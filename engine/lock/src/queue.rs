//! One lock queue: the holders of a row (or a table), and the waiters in their order. Pure: the
//! mutex of the shard is around it.
//!
//! Invariants:
//! * The granted modes are pairwise compatible, with one exception. Another request may have
//!   entered a lock for a transaction by its id in the row, beside a lock that was granted before:
//!   the row says which of the two counts.
//! * The waiters are in the order in which they will be granted, upgrades first.
//! * A waiter whose owner holds a lock is an upgrade, and waits for more than the owner holds
//!   (`Queue::promote`).
//! * No request is granted before an earlier waiter, unless its owner holds a lock already.
//! * A waiter that comes to wait for more is told so: by `Queue::has_come_before` of a holder, by
//!   `Queue::enqueue` of an upgrade.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::mode::Mode;
use crate::owner::{Outcome, Owner};

#[derive(Debug)]
pub(crate) struct Waiter {
    pub owner: Arc<Owner>,
    pub mode: Mode,
    pub upgrade: bool,
}

/// What a request would meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The owner holds enough already.
    Held,
    /// It can be granted; `upgrade`: by raising the mode of a lock that the owner holds.
    Free { upgrade: bool },
    /// It has to wait.
    Busy { upgrade: bool },
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub granted: SmallVec<[(Arc<Owner>, Mode); 1]>,
    pub waiting: VecDeque<Waiter>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty()
    }

    pub fn mode_of(&self, owner: &Owner) -> Option<Mode> {
        self.granted.iter().find(|(o, _)| o.serial() == owner.serial()).map(|(_, m)| *m)
    }

    /// True if `owner` holds `mode`, or one that covers it.
    pub fn holds(&self, owner: &Owner, mode: Mode) -> bool {
        self.mode_of(owner).is_some_and(|held| held.covers(mode))
    }

    /// True if another transaction holds a mode that is incompatible with `mode`.
    pub fn conflicts(&self, owner: &Owner, mode: Mode) -> bool {
        self.granted.iter().any(|(o, m)| o.serial() != owner.serial() && !m.compatible(mode))
    }

    pub fn verdict(&self, owner: &Owner, mode: Mode) -> Verdict {
        if self.holds(owner, mode) {
            return Verdict::Held;
        }
        let upgrade = self.mode_of(owner).is_some();
        let overtakes = !upgrade && self.waiting.iter().any(|w| w.owner.serial() != owner.serial());
        if self.conflicts(owner, mode) || overtakes { Verdict::Busy { upgrade } } else { Verdict::Free { upgrade } }
    }

    /// Grants without asking; raises the mode if the owner is there already. Returns what the owner
    /// had before.
    pub fn grant(&mut self, owner: &Arc<Owner>, mode: Mode) -> Option<Mode> {
        for (o, m) in &mut self.granted {
            if o.serial() == owner.serial() {
                let before = *m;
                if !m.covers(mode) {
                    *m = mode;
                }
                return Some(before);
            }
        }
        self.granted.push((Arc::clone(owner), mode));
        None
    }

    /// What `owner` holds, which was `before`, was granted past those that wait: tells those of
    /// them that wait for it only now. To be called under no mutex of an owner.
    pub fn has_come_before(&self, owner: &Owner, before: Option<Mode>) {
        if self.waiting.is_empty() {
            return;
        }
        let Some(mode) = self.mode_of(owner) else { return };
        for waiter in &self.waiting {
            let waited = before.is_some_and(|before| !before.compatible(waiter.mode));
            if !waited && !mode.compatible(waiter.mode) && waiter.owner.serial() != owner.serial() {
                waiter.owner.waits_for_more();
            }
        }
    }

    /// A lock of `owner` has been entered or raised, which may wait here behind others. They wait
    /// for that lock now, so the request may not wait for them: it is granted if the lock is enough
    /// for it, as it would be if it came now, and becomes an upgrade if not.
    pub fn promote(&mut self, owner: &Owner) {
        let Some(at) = self.waiting.iter().position(|w| w.owner.serial() == owner.serial()) else { return };
        let is_enough = self.holds(owner, self.waiting[at].mode);
        if !is_enough && self.waiting[at].upgrade {
            return;
        }
        let Some(waiter) = self.waiting.remove(at) else { return };
        if is_enough {
            waiter.owner.end_wait(Outcome::Granted);
        } else {
            self.enqueue(&waiter.owner, waiter.mode, true);
        }
    }

    /// Adds a waiter: an upgrade before all that are none, which wait for it from now on, every
    /// other one at the end. To be called under no mutex of an owner.
    pub fn enqueue(&mut self, owner: &Arc<Owner>, mode: Mode, upgrade: bool) {
        debug_assert!(upgrade || self.mode_of(owner).is_none(), "a waiter that holds a lock is an upgrade");
        let waiter = Waiter { owner: Arc::clone(owner), mode, upgrade };
        let at = if upgrade { self.waiting.iter().take_while(|w| w.upgrade).count() } else { self.waiting.len() };
        self.waiting.insert(at, waiter);
        self.waiting.iter().skip(at + 1).for_each(|behind| behind.owner.waits_for_more());
    }

    /// Removes the waiting request of `owner`.
    pub fn remove_waiter(&mut self, owner: &Owner) {
        self.waiting.retain(|w| w.owner.serial() != owner.serial());
    }

    /// Removes the granted lock of `owner`. Returns whether there was one.
    pub fn release(&mut self, owner: &Owner) -> bool {
        let before = self.granted.len();
        self.granted.retain(|(o, _)| o.serial() != owner.serial());
        self.granted.len() < before
    }

    /// Makes an exclusive lock that `owner` was granted a shared one.
    pub fn lower(&mut self, owner: &Owner) {
        for (o, mode) in &mut self.granted {
            if o.serial() == owner.serial() && *mode == Mode::Exclusive {
                *mode = Mode::Shared;
            }
        }
    }

    /// Removes the granted locks of all but `owner`. Returns whose these were.
    pub fn release_others(&mut self, owner: &Owner) -> SmallVec<[Arc<Owner>; 1]> {
        let mut others = SmallVec::new();
        self.granted.retain(|(o, _)| {
            let stays = o.serial() == owner.serial();
            if !stays {
                others.push(Arc::clone(o));
            }
            stays
        });
        others
    }

    /// Grants from the front as far as possible. `granted` is told of every new entry, under the
    /// waiter's own mutex and before it can wake.
    pub fn regrant(&mut self, mut granted: impl FnMut(&Arc<Owner>, Mode)) {
        while let Some(front) = self.waiting.front() {
            if self.conflicts(&front.owner, front.mode) {
                return;
            }
            let Some(waiter) = self.waiting.pop_front() else { return };
            let mut state = waiter.owner.wait.lock();
            if state.outcome != Outcome::Waiting {
                continue; // It gave up and is on its way to take its request back.
            }
            // An intent is only waited with: its owner asks for the row again, and keeps what it
            // holds.
            if !waiter.mode.is_intent() && self.grant(&waiter.owner, waiter.mode).is_none() {
                granted(&waiter.owner, waiter.mode);
            }
            state.outcome = Outcome::Granted;
            waiter.owner.wake.notify_all();
        }
    }

    /// The transactions that the waiting request of `owner` waits for, as a search for cycles
    /// through `start` has to know them: the holders that block it or those ahead of it, which are
    /// granted first; of those ahead, `start` and the transactions that wait for what `owner` holds
    /// here. The others ahead wait for nothing else, so the search finds nothing behind them: with
    /// a thousand in the queue, a search that visits all ahead of each is a million steps.
    pub fn obstacles(&self, owner: &Owner, start: &Owner) -> Vec<Arc<Owner>> {
        let Some(at) = self.waiting.iter().position(|w| w.owner.serial() == owner.serial()) else { return Vec::new() };
        let holds = self.mode_of(owner);
        let (mut modes, mut obstacles) = (vec![self.waiting[at].mode], Vec::new());
        for waiter in self.waiting.iter().take(at) {
            let waits_for_owner = holds.is_some_and(|held| !held.compatible(waiter.mode));
            if waits_for_owner || waiter.owner.serial() == start.serial() {
                obstacles.push(Arc::clone(&waiter.owner));
            }
            // A waiter that gave up is only on its way to take its request back.
            if !modes.contains(&waiter.mode) && waiter.owner.waits() {
                modes.push(waiter.mode);
            }
        }
        let in_the_way = |held: Mode| modes.iter().any(|&wanted| !held.compatible(wanted));
        let holders = self.granted.iter().filter(|(o, m)| o.serial() != owner.serial() && in_the_way(*m));
        obstacles.extend(holders.map(|(o, _)| Arc::clone(o)));
        obstacles
    }

    /// The transactions that the waiting request of `owner` waits for.
    pub fn blockers(&self, owner: &Owner) -> Vec<Arc<Owner>> {
        let Some(at) = self.waiting.iter().position(|w| w.owner.serial() == owner.serial()) else { return Vec::new() };
        let mode = self.waiting[at].mode;
        let holders = self.granted.iter().filter(|(o, m)| o.serial() != owner.serial() && !m.compatible(mode));
        // All ahead are granted first, so even a compatible one is waited for.
        let ahead = self.waiting.iter().take(at).map(|w| Arc::clone(&w.owner));
        holders.map(|(o, _)| Arc::clone(o)).chain(ahead).collect()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::mode::Mode::{Exclusive, Shared};

    fn waits(queue: &mut Queue, owner: &Arc<Owner>, mode: Mode) {
        let Verdict::Busy { upgrade } = queue.verdict(owner, mode) else { panic!("it is free") };
        let (index, key) = (holdfast_base::IndexId(1), Arc::from(&b"key"[..]));
        owner.start_wait(crate::owner::Target::Table { index, key, mode }).unwrap();
        queue.enqueue(owner, mode, upgrade);
    }

    #[test]
    fn first_come_first_served() {
        let (a, b, c) = (Owner::new(1), Owner::new(2), Owner::new(3));
        let mut q = Queue::default();
        assert_eq!(q.verdict(&a, Shared), Verdict::Free { upgrade: false });
        q.grant(&a, Shared);
        waits(&mut q, &b, Exclusive);
        waits(&mut q, &c, Shared); // compatible with a, but b came first
        q.release(&a);
        let mut order = Vec::new();
        q.regrant(|o, _| order.push(o.serial()));
        assert_eq!(order, [2]);
        q.release(&b);
        q.regrant(|o, _| order.push(o.serial()));
        assert_eq!(order, [2, 3]);
    }

    #[test]
    fn an_upgrade_goes_ahead_of_waiters() {
        let (a, b, c) = (Owner::new(1), Owner::new(2), Owner::new(3));
        let mut q = Queue::default();
        q.grant(&a, Shared);
        q.grant(&b, Shared);
        waits(&mut q, &c, Exclusive);
        waits(&mut q, &a, Exclusive);
        assert_eq!(q.blockers(&a).iter().map(|o| o.serial()).collect::<Vec<_>>(), [2]);
        q.release(&b);
        q.regrant(|_, _| panic!("a has its entry already"));
        assert_eq!(q.mode_of(&a), Some(Exclusive));
        assert_eq!(q.waiting.len(), 1);
        assert_eq!(q.verdict(&a, Shared), Verdict::Held);
    }

    #[test]
    fn obstacles_are_the_holders_and_whoever_is_looked_for() {
        let serials = |owners: Vec<Arc<Owner>>| owners.iter().map(|o| o.serial()).collect::<Vec<_>>();
        let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(Owner::new);
        let mut q = Queue::default();
        q.grant(&a, Shared);
        waits(&mut q, &b, Exclusive);
        for shared in [&c, &d] {
            waits(&mut q, shared, Shared);
        }
        // What a holds is in the way of b, which is ahead of the others.
        assert_eq!(serials(q.obstacles(&d, &d)), [1]);
        assert_eq!(serials(q.obstacles(&d, &c)), [3, 1], "a search that began at c has come back to it");
        assert_eq!(serials(q.obstacles(&c, &d)), [1], "d is behind c");
        assert_eq!(serials(q.obstacles(&b, &e)), [1]);
        assert!(b.end_wait(Outcome::TimedOut));
        assert!(q.obstacles(&d, &d).is_empty(), "no request waits for one that gave up");
        assert!(q.obstacles(&e, &e).is_empty());
    }

    #[test]
    fn a_lock_that_is_entered_for_a_waiter_counts_for_its_request() {
        let [a, b, c] = [1, 2, 3].map(Owner::new);
        let mut q = Queue::default();
        q.grant(&a, Exclusive);
        waits(&mut q, &b, Exclusive);
        waits(&mut q, &c, Exclusive);
        q.grant(&c, Shared);
        q.promote(&c);
        assert_eq!(q.blockers(&c).iter().map(|o| o.serial()).collect::<Vec<_>>(), [1], "b waits for c");
        q.grant(&c, Exclusive);
        q.promote(&c);
        assert!(!c.waits() && b.waits());
        q.promote(&b);
        assert_eq!(q.waiting.len(), 1, "b holds nothing");
    }

    #[test]
    fn who_gave_up_is_passed_over() {
        let (a, b, c) = (Owner::new(1), Owner::new(2), Owner::new(3));
        let mut q = Queue::default();
        q.grant(&a, Exclusive);
        waits(&mut q, &b, Exclusive);
        waits(&mut q, &c, Exclusive);
        assert!(b.end_wait(Outcome::TimedOut));
        q.release(&a);
        q.regrant(|_, _| {});
        assert_eq!(q.mode_of(&c), Some(Exclusive));
        assert_eq!(q.mode_of(&b), None);
    }
}
