//! Which entries of the version tree a sweep has to look at: see [`crate::purge::sweep`].

use holdfast_base::{Error, TxnId};

use crate::mvcc::view::Sweep;

/// Entries on the list above which the whole tree is gone through instead.
const KEYS_MAX: usize = 1 << 16;

/// Entries that are looked at for each record that may be purged.
pub(crate) const SWEPT_PER_RECORD: usize = 4;

/// A key of the version tree.
pub(crate) type Key = Box<[u8]>;

/// What is to be looked at. The purge mutex guards it.
#[derive(Debug, Default)]
pub(crate) struct SweepState {
    pub keys: Vec<Key>,
    /// The whole tree is to be looked at, from behind this key on.
    pub behind: Option<Vec<u8>>,
    /// Entries by `half_purged`.
    pub owned: Vec<Key>,
    pub half_purged: TxnId,
    /// Entries that could not be looked at, and why.
    failed: Vec<Key>,
    error: Option<Error>,
}

impl SweepState {
    pub fn add(&mut self, sweep: Sweep) {
        match sweep {
            Sweep::Nothing => {}
            Sweep::Keys(keys) if self.keys.len() + keys.len() <= KEYS_MAX => self.keys.extend(keys),
            Sweep::Keys(_) | Sweep::All => {
                self.keys.clear();
                self.behind = Some(Vec::new());
            }
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
