//! Which entries of the version tree a sweep has to look at: see [`crate::purge::sweep`].

use holdfast_base::{Error, TxnId};

use crate::mvcc::sweep::Sweep;

/// Entries on the list above which the whole tree is gone through instead.
const KEYS_MAX: usize = 1 << 16;

/// Entries that are looked at for each record that may be purged.
pub(crate) const SWEPT_PER_RECORD: usize = 4;

/// A key of the version tree.
pub(crate) type Key = Box<[u8]>;

/// A look at the whole tree. One that is asked for while another is under way does not begin at the
/// start: views may end faster than a round takes, and what lies far behind would never be looked
/// at. The round goes on to the end of the tree instead, and from the start to where it was.
#[derive(Debug, Default)]
struct Round {
    /// It goes on behind this key.
    behind: Vec<u8>,
    /// Where it was when it was asked for once more; empty: at the start.
    again_to: Vec<u8>,
    /// It has been at the end of the tree, and ends here; empty: it has not been there.
    up_to: Vec<u8>,
}

/// What is to be looked at. The purge mutex guards it.
#[derive(Debug, Default)]
pub(crate) struct SweepState {
    pub keys: Vec<Key>,
    round: Option<Round>,
    /// Entries by `half_purged`.
    pub owned: Vec<Key>,
    pub half_purged: TxnId,
    /// Entries that could not be looked at, and why.
    failed: Vec<Key>,
    error: Option<Error>,
}

impl SweepState {
    /// Adds what is asked for. Returns whether the whole tree is looked at from here on.
    pub fn add(&mut self, sweep: Sweep) -> bool {
        match sweep {
            Sweep::Nothing => false,
            Sweep::Keys(keys) if self.keys.len() + keys.len() <= KEYS_MAX => {
                self.keys.extend(keys);
                false
            }
            Sweep::Keys(_) | Sweep::All => {
                self.keys.clear();
                self.owned.clear();
                let round = self.round.get_or_insert_default();
                round.again_to.clone_from(&round.behind);
                round.up_to.clear();
                true
            }
        }
    }

    /// Whether nothing is to be looked at.
    pub fn is_done(&self) -> bool {
        self.keys.is_empty() && self.round.is_none()
    }

    /// Behind which key the look at the whole tree goes on, if there is one.
    pub fn behind(&self) -> Option<&[u8]> {
        self.round.as_ref().map(|round| round.behind.as_slice())
    }

    /// The look at the whole tree has come to `last`; `None`: to the end, or as far as it comes.
    pub fn has_come_to(&mut self, last: Option<&[u8]>) {
        let Some(round) = &mut self.round else { return };
        let ends = match last {
            Some(last) => {
                round.behind = last.to_vec();
                !round.up_to.is_empty() && *last >= *round.up_to
            }
            None => {
                round.behind.clear();
                round.up_to = std::mem::take(&mut round.again_to);
                round.up_to.is_empty()
            }
        };
        if ends {
            self.round = None;
        }
    }

    /// Notes which log is half purged. The entries of the one before can be looked at.
    pub fn set_half_purged(&mut self, txn: TxnId) {
        if self.half_purged != txn {
            self.half_purged = txn;
            self.keys.append(&mut self.owned);
        }
    }

    /// Passes over an entry, or over what is left of the tree.
    pub fn fail(&mut self, key: Option<Key>, error: Error) {
        if !error.is_damage() {
            self.failed.extend(key);
        }
        self.error.get_or_insert(error);
    }

    /// What went wrong, to be reported. What failed is looked at again then.
    pub fn take_error(&mut self) -> Option<Error> {
        self.keys.append(&mut self.failed);
        self.error.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the next `n` of `tree`.
    fn look(state: &mut SweepState, tree: &[u8], n: usize) -> Vec<u8> {
        let Some(behind) = state.behind().map(<[u8]>::to_vec) else { return Vec::new() };
        let found: Vec<u8> = tree.iter().copied().filter(|key| [*key].as_slice() > behind.as_slice()).take(n).collect();
        state.has_come_to(found.last().map(std::slice::from_ref));
        found
    }

    #[test]
    fn a_look_at_the_tree_ends_behind_its_last_key() {
        let (mut state, tree) = (SweepState::default(), [1, 2, 3, 4, 5]);
        assert!(state.is_done() && look(&mut state, &tree, 2).is_empty());
        assert!(state.add(Sweep::All));
        let looks: Vec<Vec<u8>> = (0..4).map(|_| look(&mut state, &tree, 2)).collect();
        assert_eq!(looks, [vec![1, 2], vec![3, 4], vec![5], vec![]]);
        assert!(state.is_done());
    }

    /// Each view that ended sent the sweep back to the start: with a view every second and a tree
    /// that takes longer, what was kept at its end stayed there.
    #[test]
    fn views_that_end_all_the_time_keep_nothing_from_being_looked_at() {
        let tree: Vec<u8> = (1..=100).collect();
        let (mut state, mut seen) = (SweepState::default(), Vec::new());
        for _ in 0..20 {
            state.add(Sweep::All);
            seen.extend(look(&mut state, &tree, 10));
        }
        assert!(tree.iter().all(|key| seen.contains(key)), "{seen:?}");
    }

    /// What was charged to a view may lie anywhere.
    #[test]
    fn all_is_looked_at_after_the_last_request() {
        let tree: Vec<u8> = (1..=30).collect();
        for before in 0..8 {
            for between in 0..8 {
                let mut state = SweepState::default();
                assert!(state.add(Sweep::All));
                (0..before).for_each(|_| drop(look(&mut state, &tree, 5)));
                assert!(state.add(Sweep::All));
                (0..between).for_each(|_| drop(look(&mut state, &tree, 5)));
                assert!(state.add(Sweep::All));
                let mut seen = Vec::new();
                for _ in 0..20 {
                    seen.extend(look(&mut state, &tree, 5));
                }
                assert!(tree.iter().all(|key| seen.contains(key)), "{before}, {between}: {seen:?}");
                assert!(state.is_done() && seen.len() <= tree.len() + 5, "{before}, {between}: {seen:?}");
            }
        }
    }
}
