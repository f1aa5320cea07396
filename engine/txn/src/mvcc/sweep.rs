//! What has to be looked at in the version tree when a view has ended.

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
    /// The same without a key that is there already: a look at the whole tree charges each entry to
    /// its view once more.
    #[must_use]
    pub fn once_each(mut self) -> Sweep {
        if let Sweep::Keys(keys) = &mut self {
            keys.sort_unstable();
            keys.dedup();
        }
        self
    }

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
