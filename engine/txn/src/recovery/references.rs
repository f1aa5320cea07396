//! Verification of the number of references that the first page of a chain has: whether it is
//! enough for the versions of an entry that refer to the chain. Else the chain is freed with one of
//! the old ones, from under the others.
//!
//! A chain is shared among versions of one entry that follow each other, the newest one included as
//! long as there is one that shares it. A reference is counted before it is stored, and given up
//! when it is not stored any more. So a number that is too large is what a crash leaves: it costs
//! the pages of the chain, when its last version has gone.

use holdfast_base::{Error, HashSet, IndexId, Result, TxnId};
use holdfast_pool::Access;
use holdfast_tree::{OverflowRef, overflow};

use crate::entry::index::TableIndex;
use crate::entry::row::VersionHeader;
use crate::entry::values;
use crate::purge::versions::{Entry, VersionTree};
use crate::system::TxnSystem;
use crate::undo::space::Prior;

/// How often the versions are gone through again because a reference came or went meanwhile.
const ATTEMPTS: usize = 8;
/// Entries of the version tree that are read at a time.
const BATCH: usize = 64;

/// Where old versions are. One that goes on to another place meanwhile may not be met, and then the
/// check finds nothing wrong.
pub(super) struct Kept<'s> {
    system: &'s TxnSystem,
    /// The transactions whose logs wait for purge. The page that the version of another one leads
    /// to may be free, and hold anything.
    logs: HashSet<TxnId>,
    /// There are versions in the version tree.
    in_tree: bool,
}

impl<'s> Kept<'s> {
    /// What there is now.
    ///
    /// # Errors
    /// The errors of reading the version tree that say nothing of it.
    pub(super) fn by(system: &'s TxnSystem, acc: &Access<'_>) -> Result<Kept<'s>> {
        let mut logs = HashSet::default();
        system.purger.history.each(|log| {
            logs.insert(log.txn());
        });
        let first = unless_lost(system.purger.versions.batch(&[], 1, acc))?;
        Ok(Kept { system, logs, in_tree: first.is_some_and(|first| !first.is_empty()) })
    }

    /// True if a transaction has committed and its log waits.
    pub(super) fn waits_for_purge(&self, txn: TxnId) -> bool {
        self.logs.contains(&txn)
    }

    fn has_log(&self, txn: TxnId) -> bool {
        let system = self.system;
        system.map.is_active(txn) || self.waits_for_purge(txn) || system.purger.lost.is_set_aside(txn)
    }

    /// True if older versions may share the chain of an entry with this header.
    pub(super) fn may_share(&self, header: VersionHeader) -> bool {
        header.overflow && !header.roll.is_none() && (self.in_tree || self.has_log(header.txn))
    }

    /// The error for an entry with this header, if more of its versions refer to its chain than are
    /// counted there.
    pub(super) fn lacks_references(
        &self,
        index: &TableIndex,
        key: &[u8],
        header: VersionHeader,
        acc: &Access<'_>,
    ) -> Result<Option<Error>> {
        if !self.may_share(header) || unless_lost(self.has_references(index, key, header, acc))? != Some(false) {
            return Ok(None);
        }
        let what = "has more versions that refer to its large value than are counted there";
        Ok(Some(index.damaged_entry(key, what)))
    }

    fn has_references(&self, index: &TableIndex, key: &[u8], header: VersionHeader, acc: &Access<'_>) -> Result<bool> {
        let (file, id) = (index.tree().space(), index.id());
        let mut payload = Vec::new();
        for _ in 0..ATTEMPTS {
            let is_there = index.read(key, acc, &mut payload)?;
            let Some(chain) = values::chain_of(&payload).filter(|chain| is_there && chain.len > 0) else { break };
            let before = overflow::references(file, id, chain, acc)?;
            let older = self.older_references(index, key, header, chain, acc)?;
            let mut now = Vec::new();
            let is_same = index.read(key, acc, &mut now)? && now == payload;
            if !is_same || VersionHeader::decode(&now).is_none_or(|(now, _)| now != header) {
                break; // The next check judges the entry that it is now.
            }
            // If none came or went, all that were met are counted at this moment.
            if overflow::references(file, id, chain, acc)? == before {
                return Ok(older <= before.0 as usize);
            }
        }
        Ok(true)
    }

    /// How many versions before the one with this header refer to the same chain.
    fn older_references(
        &self,
        index: &TableIndex,
        key: &[u8],
        header: VersionHeader,
        chain: OverflowRef,
        acc: &Access<'_>,
    ) -> Result<usize> {
        let (purger, id) = (&self.system.purger, index.id());
        let (mut version, mut image, mut met) = (header, Vec::new(), HashSet::default());
        while !version.roll.is_none() && self.has_log(version.txn) {
            image.clear();
            let prior = purger.prior(version.txn, version.roll, id, key, acc, &mut image)?;
            let referring = VersionHeader::decode(&image).filter(|_| values::chain_of(&image) == Some(chain));
            let Some((before, _)) = referring.filter(|_| prior == Prior::Image) else { break };
            if !met.insert((before.txn, before.roll)) {
                break;
            }
            version = before;
        }
        purger.versions.visit(id, key, acc, &mut |entry| {
            let image = entry.image.as_deref().unwrap_or_default();
            if let Some((version, _)) = VersionHeader::decode(image)
                && values::chain_of(image) == Some(chain)
            {
                met.insert((version.txn, version.roll));
            }
        })?;
        Ok(met.len())
    }
}

/// `None` for what is damaged or not returned: that is found where all of it is read.
fn unless_lost<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if error.is_damage() || error.is_unread() => Ok(None),
        result => result.map(Some),
    }
}

impl VersionTree {
    /// Shows `visit` the entries about (index, key).
    fn visit(&self, index: IndexId, key: &[u8], acc: &Access<'_>, visit: &mut dyn FnMut(&Entry)) -> Result<()> {
        let prefix = self.prefix(index, key);
        let mut behind = prefix.clone();
        loop {
            let found = self.batch(&behind, BATCH, acc)?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            behind.clone_from(last);
            for (at, value) in found {
                if !at.starts_with(&prefix) {
                    return Ok(());
                }
                let entry = self.decode(&at, &value, acc)?;
                if entry.key == key {
                    visit(&entry);
                }
            }
        }
    }
}
