//! Which entries of the version tree a sweep has to look at: see [`crate::purge::sweep`].

use std::collections::BTreeSet;

use holdfast_base::{Error, TxnId};

use crate::mvcc::sweep::Sweep;

/// Entries on the list above which the whole tree is gone through instead.
const KEYS_MAX: usize = 1 << 16;

/// Entries that are looked at for each record that may be purged.
pub(crate) const SWEPT_PER_RECORD: usize = 4;

/// How often it is tried to give the nodes of an empty tree back while pages are not returned.
const SHRINK_TRIES: u8 = 2;

/// A key of the version tree.
pub(crate) type Key = Box<[u8]>;

/// What is to be looked at. The purge mutex guards it.
///
/// A look at the whole tree that is asked for while another is under way begins when that one is at
/// the end. If it began at once, or the one under way were drawn out, views that end faster than
/// the tree is gone through would keep it from ever being at an end, and the limit of old versions
/// is looked at there.
#[derive(Debug, Default)]
pub(crate) struct SweepState {
    pub keys: Vec<Key>,
    /// The look at the whole tree that is under way goes on behind this key.
    round: Option<Vec<u8>>,
    /// Another one has been asked for.
    again: bool,
    /// Entries by `half_purged`.
    pub owned: Vec<Key>,
    pub half_purged: TxnId,
    /// Entries that could not be looked at, and whether since a page was not returned.
    failed: Vec<(Key, bool)>,
    /// Those of them that the device has not returned, while they are looked at once more.
    unread: BTreeSet<Key>,
    /// How often it is tried yet to give the nodes of the tree back, if it is empty.
    shrink_tries: u8,
    /// The first thing that went wrong.
    error: Option<Error>,
}

impl SweepState {
    /// Adds what is asked for.
    pub fn add(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::Nothing => {}
            Sweep::Keys(keys) if self.keys.len() + keys.len() <= KEYS_MAX => self.keys.extend(keys),
            Sweep::Keys(_) | Sweep::All => {
                self.keys.clear();
                self.owned.clear();
                self.again = true;
            }
        }
    }

    /// Begins the look at the whole tree that has been asked for, unless one is under way. Returns
    /// whether it has begun.
    pub fn begin_round(&mut self) -> bool {
        let begins = self.again && self.round.is_none();
        if begins {
            (self.round, self.again) = (Some(Vec::new()), false);
        }
        begins
    }

    /// True if nothing is to be looked at now: a look at the whole tree may have been asked for.
    pub fn is_done(&self) -> bool {
        self.keys.is_empty() && self.round.is_none()
    }

    /// True if another look at the whole tree has been asked for.
    pub fn is_asked_again(&self) -> bool {
        self.again
    }

    /// Behind which key the look at the whole tree goes on, if there is one.
    pub fn behind(&self) -> Option<&[u8]> {
        self.round.as_deref()
    }

    /// The look at the whole tree has come to `last`; `None`: to the end, or as far as it comes.
    pub fn has_come_to(&mut self, last: Option<&[u8]>) {
        self.round = last.map(<[u8]>::to_vec);
    }

    /// Entries are looked at: if the tree is empty at the end, its nodes can be given back.
    pub fn looks(&mut self) {
        self.shrink_tries = SHRINK_TRIES;
    }

    /// True if the nodes of an empty tree are to be given back.
    pub fn may_shrink(&self) -> bool {
        self.shrink_tries > 0
    }

    /// The nodes of the tree are given back, or the tree has entries.
    pub fn has_shrunk(&mut self) {
        self.shrink_tries = 0;
    }

    /// The nodes could not be given back. Damage, and a page that the device does not return the
    /// second time, either, leave them to the next look at entries, as each open begins one.
    pub fn has_not_shrunk(&mut self, error: Error) {
        if error.is_damage() {
            self.shrink_tries = 0;
        } else if error.is_unread() {
            self.shrink_tries = self.shrink_tries.saturating_sub(1);
        }
        self.fail(None, error);
    }

    /// Notes which log is half purged. The entries of the one before can be looked at.
    pub fn set_half_purged(&mut self, txn: TxnId) {
        if self.half_purged != txn {
            self.half_purged = txn;
            self.keys.append(&mut self.owned);
        }
    }

    /// Passes over an entry, or over what is left of the tree. An entry for which the device does
    /// not return a page a second time, either, is left to the next look at the whole tree.
    pub fn fail(&mut self, key: Option<Key>, error: Error) {
        let is_left = |key: &Key| error.is_damage() || error.is_unread() && self.unread.contains(key);
        if let Some(key) = key.filter(|key| !is_left(key)) {
            self.failed.push((key, error.is_unread()));
        }
        self.error.get_or_insert(error);
    }

    /// What went wrong, to be reported. What failed is looked at again then.
    pub fn take_error(&mut self) -> Option<Error> {
        self.unread.clear();
        for (key, is_unread) in self.failed.drain(..) {
            if is_unread {
                self.unread.insert(key.clone());
            }
            self.keys.push(key);
        }
        self.error.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the next `n` of `tree`. Returns what was there, and whether that was the end.
    fn look(state: &mut SweepState, tree: &[u8], n: usize) -> (Vec<u8>, bool) {
        state.begin_round();
        let Some(behind) = state.behind().map(<[u8]>::to_vec) else { return (Vec::new(), false) };
        let found: Vec<u8> = tree.iter().copied().filter(|key| [*key].as_slice() > behind.as_slice()).take(n).collect();
        state.has_come_to(found.last().map(std::slice::from_ref));
        (found, state.is_done())
    }

    #[test]
    fn a_look_at_the_tree_ends_behind_its_last_key() {
        let (mut state, tree) = (SweepState::default(), [1, 2, 3, 4, 5]);
        assert!(state.is_done() && look(&mut state, &tree, 2).0.is_empty());
        state.add(Sweep::All);
        let looks: Vec<Vec<u8>> = (0..4).map(|_| look(&mut state, &tree, 2).0).collect();
        assert_eq!(looks, [vec![1, 2], vec![3, 4], vec![5], vec![]]);
        assert!(state.is_done() && !state.is_asked_again());
    }

    /// Each view that ended sent the sweep back to the start: with a view every second and a tree
    /// that takes longer, what was kept at its end stayed there. And while it was drawn out at each
    /// request instead, it was never at an end, where the limit is looked at.
    #[test]
    fn views_that_end_all_the_time_keep_nothing_from_being_looked_at() {
        let tree: Vec<u8> = (1..=100).collect();
        let (mut state, mut seen, mut ends) = (SweepState::default(), Vec::new(), 0);
        for _ in 0..33 {
            state.add(Sweep::All);
            let (found, is_end) = look(&mut state, &tree, 10);
            seen.extend(found);
            ends += usize::from(is_end);
        }
        assert_eq!(seen, [&tree[..]; 3].concat());
        assert_eq!(ends, 3);
    }

    /// What was charged to a view may lie anywhere.
    #[test]
    fn all_is_looked_at_after_the_last_request() {
        let tree: Vec<u8> = (1..=30).collect();
        for before in 0..8 {
            for between in 0..8 {
                let mut state = SweepState::default();
                state.add(Sweep::All);
                (0..before).for_each(|_| drop(look(&mut state, &tree, 5)));
                state.add(Sweep::All);
                (0..between).for_each(|_| drop(look(&mut state, &tree, 5)));
                state.add(Sweep::All);
                let mut seen = Vec::new();
                for _ in 0..20 {
                    seen.extend(look(&mut state, &tree, 5).0);
                }
                assert!(seen.ends_with(&tree), "{before}, {between}: {seen:?}");
                assert!(state.is_done() && !state.is_asked_again(), "{before}, {between}");
                assert!(seen.len() <= 2 * tree.len(), "{before}, {between}: {seen:?}");
            }
        }
    }
}
