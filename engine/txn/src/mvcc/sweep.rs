//! What has to be looked at in the version tree when a view has ended.

use std::collections::BTreeSet;

/// So many entries of the version tree are remembered for one view.
pub(super) const CHARGES_MAX: usize = 4096;

/// What has to be looked at in the version tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sweep {
    /// Nothing.
    #[default]
    Nothing,
    /// The entries under these keys.
    Keys(Vec<Box<[u8]>>),
    /// All of it.
    All,
}

impl Sweep {
    /// Adds what `other` asks for.
    pub fn add(&mut self, other: Sweep) {
        *self = match (std::mem::take(self), other) {
            (Sweep::All, _) | (_, Sweep::All) => Sweep::All,
            (Sweep::Nothing, one) | (one, Sweep::Nothing) => one,
            (Sweep::Keys(mut keys), Sweep::Keys(more)) => {
                keys.extend(more);
                Sweep::Keys(keys)
            }
        };
    }
}

/// The entries of the version tree that are kept for a view.
#[derive(Debug, Default)]
pub(super) struct Charges {
    /// Their keys, each once, however often the entry is charged to the view: each look at the
    /// whole tree does so. None if there are too many.
    keys: BTreeSet<Box<[u8]>>,
    too_many: bool,
    ended: bool,
}

impl Charges {
    /// Adds the entry under `key`. Returns false if the view has ended.
    pub fn add(&mut self, key: &[u8]) -> bool {
        if self.ended || self.too_many || self.keys.contains(key) {
            return !self.ended;
        }
        self.keys.insert(key.into());
        if self.keys.len() > CHARGES_MAX {
            self.keys.clear();
            self.too_many = true;
        }
        true
    }

    /// The view has ended. Returns what has to be looked at.
    pub fn end(&mut self) -> Sweep {
        self.ended = true;
        match std::mem::take(&mut self.keys) {
            _ if std::mem::take(&mut self.too_many) => Sweep::All,
            keys if keys.is_empty() => Sweep::Nothing,
            keys => Sweep::Keys(keys.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A view that outlasted some looks at the whole tree was taken for one with too many entries,
    /// and its end asked for the next look.
    #[test]
    fn an_entry_that_is_charged_again_is_kept_once() {
        let mut charges = Charges::default();
        for _ in 0..CHARGES_MAX {
            assert!(charges.add(b"b") && charges.add(b"a"));
        }
        assert_eq!(charges.end(), Sweep::Keys(vec![Box::from(&b"a"[..]), Box::from(&b"b"[..])]));
        assert!(!charges.add(b"c"));
        assert_eq!(charges.end(), Sweep::Nothing);
    }
}
