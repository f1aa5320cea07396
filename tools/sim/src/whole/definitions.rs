//! The tables and indexes that there must be, beside those of the sessions: see [`super::definer`].

use std::collections::BTreeMap;

use anyhow::ensure;
use holdfast::FlushAtCommit;
use holdfast::raw::RawDatabase;

use super::history::{End, Txn};
use super::places;

/// What the catalog has of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    /// In a history; not known of a table whose creation has not returned.
    pub number: Option<usize>,
    pub options: Vec<u8>,
    /// The names of its indexes, in order.
    pub indexes: Vec<String>,
}

/// The changing tables, by name.
pub(super) type Tables = BTreeMap<String, Definition>;

/// What there must be.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    pub now: Tables,
    /// What there will be, if the change comes about that has not returned.
    pub then: Option<Tables>,
    /// What the database has shown behind the change that has failed, if it went on.
    pub shown: Option<Tables>,
    /// The rows of a table that is being created, by its name.
    pub loading: Option<(String, Txn)>,
    /// Tables that are gone, and when that had returned.
    pub gone: Vec<(usize, u64)>,
}

/// The changing tables as the catalog has them.
pub(super) fn found(raw: &RawDatabase) -> Tables {
    let options: BTreeMap<String, Vec<u8>> = raw.tables().into_iter().collect();
    let numbers = places::changing(raw.database());
    let tables = raw.database().list_tables().into_iter().filter(|table| numbers.contains_key(&table.name));
    let define = |name: &String, indexes: Vec<String>| Definition {
        number: numbers.get(name).copied(),
        options: options.get(name).cloned().unwrap_or_default(),
        indexes,
    };
    let all = tables.map(|t| (define(&t.name, t.indexes.into_iter().map(|i| i.name).collect()), t.name));
    all.map(|(definition, name)| (name, definition)).collect()
}

/// True if the catalog has what there must be.
pub(super) fn agree(wanted: &Tables, found: &Tables) -> bool {
    wanted.len() == found.len()
        && wanted.iter().zip(found).all(|((name, wanted), (other, found))| {
            let number = wanted.number.is_none() || wanted.number == found.number;
            name == other && number && wanted.options == found.options && wanted.indexes == found.indexes
        })
}

impl Definitions {
    /// Compares what there must be with the catalog after a restart, and takes what is there.
    /// Returns the rows with which a table began of which it was not known whether it exists.
    ///
    /// # Errors
    /// A change that had returned and is not there, or one that is there in part; one that had
    /// failed and is there though the database did not show it, or the other way round.
    pub fn settle(&mut self, raw: &RawDatabase) -> anyhow::Result<Option<Txn>> {
        let found = found(raw);
        let happened = self.then.as_ref().is_some_and(|then| agree(then, &found));
        ensure!(
            happened || agree(&self.now, &found),
            "the catalog has {found:?}\nwhere there must be {:?}\nor {:?}",
            self.now,
            self.then
        );
        ensure!(
            self.shown.as_ref().is_none_or(|shown| agree(shown, &found)),
            "the catalog has {found:?}\nwhere {:?} was shown behind a change that had failed",
            self.shown
        );
        let number = |tables: &Tables, name: &String| tables.get(name).and_then(|table| table.number);
        // Made anew, a table has another number.
        let is_new =
            |name: &String| happened && number(&found, name).is_some_and(|n| number(&self.now, name) != Some(n));
        let loading = self.loading.take_if(|(name, _)| is_new(name));
        let loaded = loading.map(|(name, txn)| entered(txn, found[&name].number.unwrap_or_default()));
        *self = Definitions { now: found, ..Definitions::default() };
        Ok(loaded)
    }

    /// Nothing is being created any more.
    pub fn forget_loading(&mut self) {
        self.loading = None;
    }

    /// The numbers of the tables that there are.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.now.values().filter_map(|definition| definition.number)
    }

    /// Fails if a transaction that had changed a table has committed after the table was gone.
    /// A change of definitions that removes a table waits for the transactions that write to it.
    pub fn check_gates(&self, txns: &[Txn]) -> anyhow::Result<()> {
        for txn in txns.iter().filter(|txn| matches!(txn.end, End::Committed(_))) {
            for (number, at) in &self.gone {
                ensure!(
                    txn.asked < *at || !txn.writes.iter().any(|write| write.item.table == *number),
                    "transaction {} has changed table {number} and committed after it was gone",
                    txn.number
                );
            }
        }
        Ok(())
    }
}

/// The transaction as whose changes the first rows of table `number` count.
pub(super) fn entered(mut txn: Txn, number: usize) -> Txn {
    txn.writes.iter_mut().for_each(|write| write.item.table = number);
    txn.end = End::Committed(FlushAtCommit::Sync);
    txn
}
