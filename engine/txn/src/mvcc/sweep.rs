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
