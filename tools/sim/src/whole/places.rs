//! The tables of a run: those that stay, and those whose definitions change beside the sessions.
//!
//! | name | what it is | changed by |
//! |---|---|---|
//! | `t0`... | stays as it is | typed and raw transactions |
//! | `c0`... | comes, goes, is renamed and truncated | typed and raw transactions |
//! | `x0`... | gets and loses indexes, too | raw transactions, which hold its [`Metadata`] |
//! | `y`... | is filled, then renamed to one of the others | the thread that fills it |
//!
//! A changing table has its number in the catalog, which no other table ever gets, so that a
//! history tells a table from the next one of the same name. Transactions use it meanwhile.
//!
//! [`Metadata`]: super::metadata::Metadata

use std::collections::BTreeMap;

use holdfast::{Database, Result};

/// How the name of a table begins that is filled before other threads know it.
pub(super) const COPY: char = 'y';

/// Numbers of changing tables in a history begin here.
const CHANGING: usize = 1000;

/// A table by its name, and its number in a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub name: String,
    pub number: usize,
}

/// True for the number of a table whose definition changes.
pub(super) fn is_changing(number: usize) -> bool {
    number >= CHANGING
}

/// True for the name of a table that is being filled: what is in it before the end belongs to
/// nothing.
pub(super) fn is_filled(name: &str) -> bool {
    name.starts_with(COPY)
}

/// True for the name of a table of which all transactions know the indexes.
pub(super) fn is_typed(name: &str) -> bool {
    name.starts_with('c')
}

/// The number in a history of the table with this number in the catalog.
pub(super) fn number_of(table_id: u32) -> usize {
    CHANGING + table_id as usize
}

/// The changing tables that there are now, by name.
pub(super) fn changing(db: &Database) -> BTreeMap<String, usize> {
    let tables = db.list_tables().into_iter().filter(|table| table.name.starts_with(['c', 'x']));
    tables.map(|table| (table.name, number_of(table.table_id))).collect()
}

/// What `open` returns, and the changing tables that were there all the time meanwhile.
///
/// # Errors
/// The errors of `open`.
pub(super) fn around<T>(db: &Database, open: impl FnOnce() -> Result<T>) -> Result<(T, Vec<Place>)> {
    let before = changing(db);
    let opened = open()?;
    let after = changing(db);
    let stayed = before.into_iter().filter(|(name, number)| after.get(name) == Some(number));
    Ok((opened, stayed.map(|(name, number)| Place { name, number }).collect()))
}
