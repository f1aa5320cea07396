//! Ends for loops that read an entry again, and the error for an entry that no transaction can have
//! written.
//!
//! A reader or a writer starts over when the entry has changed since it was read, or when the
//! entry's writer has just ended. On sound data each such turn means that another transaction has
//! made progress, so the loop ends. On damaged data it may find the same version for ever:
//! * A writer whose id was never given out ([`TxnSystem::check_writer`]) is active for the commit
//!   map, and has no owner to wait for.
//! * A roll pointer of an active writer that leads to no record of the entry looks as if the change
//!   had just been undone.
//! * Versions that name each other as the one before have no end ([`Circle`]).
//! * A walk over a leaf finds an entry by its place, a search finds it by its key. Where slots are
//!   in a wrong order, or a separator is wrong, only one of them finds it.
//!
//! [`Rereads`] bounds every loop whose turns cannot be judged one by one.

use std::fmt;

use holdfast_base::{Error, PageId, Result, RollPtr, TxnId};
use holdfast_pool::{Access, AccessKind};

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::system::TxnSystem;

/// Turns that may find one and the same version. Each of them takes a transaction that changes the
/// entry and undoes that between two reads, with the same roll pointer.
const SAME_VERSION_MAX: u32 = 1000;

/// Versions that a reader passes between two looks at whether it has been killed: each may be a
/// read of the disk.
const ASK_EVERY: u64 = 64;

/// Bytes of a key that an error shows.
const SHOWN_KEY: usize = 32;

/// Counts the turns of a loop that found the same version.
#[derive(Debug, Default)]
pub(crate) struct Rereads {
    last: Option<VersionHeader>,
    same: u32,
}

impl Rereads {
    /// The entry of `key` is going to be read again; `found` is what it was.
    ///
    /// # Errors
    /// Damage, when the same was found too often.
    pub fn again(&mut self, index: &TableIndex, key: &[u8], found: Option<VersionHeader>) -> Result<()> {
        if !self.is_too_often(found) {
            return Ok(());
        }
        let Some(header) = found else {
            return Err(index.damaged_entry(key, "is found and not found, again and again"));
        };
        let (txn, roll) = (header.txn, header.roll);
        Err(index
            .damaged_entry(key, format_args!("has a version by {txn:?} whose undo record, {roll:?}, is not one of it")))
    }

    /// The entry of `key`, with the version `walked`, was found by a walk and not by its key, and
    /// is going to be looked for again.
    ///
    /// # Errors
    /// Damage, when that was so too often.
    pub fn again_by_key(&mut self, index: &TableIndex, key: &[u8], walked: VersionHeader) -> Result<()> {
        if !self.is_too_often(Some(walked)) {
            return Ok(());
        }
        Err(index.damaged_entry(key, "is found by a walk over the leaf, and not by a search for its key"))
    }

    /// Counts a turn. True if too many of them have found this.
    fn is_too_often(&mut self, found: Option<VersionHeader>) -> bool {
        if self.last != found {
            (self.last, self.same) = (found, 0);
        }
        self.same += 1;
        self.same >= SAME_VERSION_MAX
    }
}

/// Notices when a chain of versions comes back to one that it has passed: a mark moves up whenever
/// the number of steps has doubled, so a circle is noticed within three times its length.
#[derive(Debug, Default)]
pub(crate) struct Circle {
    mark: Option<(TxnId, RollPtr)>,
    steps: u64,
}

impl Circle {
    /// The next version on the chain. Returns whether it was there before.
    pub fn step(&mut self, version: VersionHeader) -> bool {
        let at = (version.txn, version.roll);
        if self.mark == Some(at) {
            return true;
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.mark = Some(at);
        }
        false
    }

    /// True if the chain is so long by now that its reader asks whether it has been killed.
    pub fn is_time_to_ask(&self) -> bool {
        self.steps.is_multiple_of(ASK_EVERY)
    }
}

impl TxnSystem {
    /// Checks that the writer of a version is a transaction that there was. The version was read
    /// before.
    ///
    /// # Errors
    /// Damage, if its id was never given out.
    pub(crate) fn check_writer(&self, index: &TableIndex, key: &[u8], writer: TxnId) -> Result<()> {
        let next = self.clock.next_id();
        if writer < next {
            return Ok(());
        }
        Err(index.damaged_entry(key, format_args!("has a version by {writer:?}, and the next transaction is {next}")))
    }
}

impl TableIndex {
    /// The error for an entry that cannot be what was written there.
    #[cold]
    pub(crate) fn damaged_entry(&self, key: &[u8], what: impl fmt::Display) -> Error {
        let space = self.tree().space();
        let acc: Access<'_> = space.store().pool().access(AccessKind::Maintenance);
        match self.tree().get_at(key, &acc, &mut Vec::new()) {
            Ok(spot) => {
                let what = format!("index {}: the entry {} {what}", self.id(), shown(key));
                space.store().damaged(PageId::new(space.id(), spot.page()), what)
            }
            Err(error) => error,
        }
    }
}

/// The beginning of a key, in hexadecimal.
pub(crate) fn shown(key: &[u8]) -> String {
    let mut out: String = key.iter().take(SHOWN_KEY).map(|byte| format!("{byte:02x}")).collect();
    if key.len() > SHOWN_KEY {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(n: u64) -> VersionHeader {
        VersionHeader { deleted: false, overflow: false, txn: TxnId(n), roll: RollPtr(n) }
    }

    #[test]
    fn a_chain_without_a_circle_is_none_and_every_circle_is_noticed() {
        let mut chain = Circle::default();
        assert!((1..10_000).all(|n| !chain.step(version(n))));
        for (tail, length) in [(0, 1), (0, 7), (5, 1), (100, 64)] {
            let mut chain = Circle::default();
            let mut at = (0..tail).chain(std::iter::repeat_with(|| tail..tail + length).flatten());
            let steps = at.by_ref().take(3 * (tail + length) as usize + 2).position(|n| chain.step(version(n)));
            assert!(steps.is_some(), "a circle of {length} behind {tail}");
        }
    }
}
