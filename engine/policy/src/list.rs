//! Doubly linked lists of slots, all threaded through one pair of arrays: a slot is in at most one
//! list.
//!
//! The front of a list is where pages enter, the back where they leave. Operations are O(1) and
//! allocate nothing once the arrays cover the largest slot. The arrays know which slots are in a
//! list ([`Links::contains`]).

use crate::Slot;

/// No slot: the end of a list.
pub(crate) const NIL: Slot = Slot::MAX;
/// The value of a slot's neighbour towards the front if the slot is in no list.
const ABSENT: Slot = Slot::MAX - 1;

/// The link arrays that several [`List`]s share.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Towards the front.
    prev: Vec<Slot>,
    /// Towards the back.
    next: Vec<Slot>,
}

/// One list. Every method must be given the [`Links`] that the list was built with.
#[derive(Debug)]
pub(crate) struct List {
    front: Slot,
    back: Slot,
    len: usize,
}

impl Links {
    /// Makes room for slots below `slots`.
    pub(crate) fn reserve(&mut self, slots: usize) {
        if slots > self.next.len() {
            self.prev.resize(slots, ABSENT);
            self.next.resize(slots, NIL);
        }
    }

    /// True if `s` is in one of the lists; any slot may be asked for.
    pub(crate) fn contains(&self, s: Slot) -> bool {
        self.prev.get(s as usize).is_some_and(|&prev| prev != ABSENT)
    }

    /// The neighbour towards the front, or [`NIL`].
    pub(crate) fn towards_front(&self, s: Slot) -> Slot {
        self.prev[s as usize]
    }

    /// The neighbour towards the back, or [`NIL`].
    pub(crate) fn towards_back(&self, s: Slot) -> Slot {
        self.next[s as usize]
    }
}

impl List {
    pub(crate) const fn new() -> List {
        List { front: NIL, back: NIL, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot that entered last, or [`NIL`].
    pub(crate) fn front(&self) -> Slot {
        self.front
    }

    /// The slot that leaves next, or [`NIL`].
    pub(crate) fn back(&self) -> Slot {
        self.back
    }

    pub(crate) fn push_front(&mut self, links: &mut Links, s: Slot) {
        debug_assert!(!links.contains(s), "slot {s} is in a list already");
        links.prev[s as usize] = NIL;
        links.next[s as usize] = self.front;
        match self.front {
            NIL => self.back = s,
            old => links.prev[old as usize] = s,
        }
        self.front = s;
        self.len += 1;
    }

    /// Inserts `s` on the front side of `at`, a member of the list.
    pub(crate) fn insert_before(&mut self, links: &mut Links, s: Slot, at: Slot) {
        debug_assert!(!links.contains(s), "slot {s} is in a list already");
        let prev = links.prev[at as usize];
        if prev == NIL {
            return self.push_front(links, s);
        }
        links.prev[s as usize] = prev;
        links.next[s as usize] = at;
        links.next[prev as usize] = s;
        links.prev[at as usize] = s;
        self.len += 1;
    }

    /// Takes `s`, a member of the list, out.
    pub(crate) fn remove(&mut self, links: &mut Links, s: Slot) {
        debug_assert!(links.contains(s), "slot {s} is in no list");
        let (prev, next) = (links.prev[s as usize], links.next[s as usize]);
        match prev {
            NIL => self.front = next,
            p => links.next[p as usize] = next,
        }
        match next {
            NIL => self.back = prev,
            n => links.prev[n as usize] = prev,
        }
        links.prev[s as usize] = ABSENT;
        self.len -= 1;
    }

    /// The members, the one that leaves next first.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = Slot> + Clone + use<'a> {
        let mut at = self.back;
        std::iter::from_fn(move || {
            let s = at;
            if s == NIL {
                return None;
            }
            at = links.towards_front(s);
            Some(s)
        })
    }
}
