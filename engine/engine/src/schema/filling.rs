//! A table that is being filled by a load: rows and entries come without undo, index by index.
//!
//! A mark in the header of the file says so ([`SpaceHeader::is_filling`]). It is logged before the
//! first page of the load and taken away, by the log too, behind the last one. So what a crash
//! leaves of the log, and what a backup copies of it, has the whole load or the mark. A table with
//! the mark is made empty when the database is opened. A load that is given up makes its table
//! empty at once; where that cannot be, the table takes no rows before it is. Leaves that the load
//! has written stay allocated then. The header says up to which log position nodes are no part of
//! the table ([`SpaceHeader::emptied`]), for a salvage, which takes each leaf that it finds.
//!
//! [`SpaceHeader::is_filling`]: holdfast_tree::space::SpaceHeader::is_filling
//! [`SpaceHeader::emptied`]: holdfast_tree::space::SpaceHeader::emptied

use std::sync::Arc;

use holdfast_pool::AccessKind;
use holdfast_txn::TableIndex;

use crate::Result;
use crate::schema::table_file::{TableFile, Visit};

/// A load that is under way.
pub(crate) struct Filling {
    file: Arc<TableFile>,
    indexes: Vec<Arc<TableIndex>>,
    _visit: Visit,
}

impl Filling {
    /// Says that `indexes`, all of the table in `file` and all empty, are going to be filled.
    ///
    /// # Errors
    /// The errors of the log and of reading the file's header.
    pub(crate) fn begin(file: &Arc<TableFile>, indexes: Vec<Arc<TableIndex>>) -> Result<Filling> {
        let filling = Filling { file: Arc::clone(file), indexes, _visit: file.fill() };
        filling.mark(true)?;
        Ok(filling)
    }

    /// Says that all is there.
    ///
    /// # Errors
    /// The errors of [`Filling::begin`].
    pub(crate) fn finish(&self) -> Result<()> {
        self.mark(false)
    }

    /// Makes the table empty.
    pub(crate) fn give_up(&self) {
        // It is dropped, or takes no rows.
        let _ = empty(&self.file, &self.indexes);
    }

    fn mark(&self, is_filling: bool) -> Result<()> {
        let space = self.file.space.as_ref().map_err(Clone::clone)?;
        space.set_filling(is_filling, &space.store().pool().access(AccessKind::Point))
    }
}

/// Makes the table in `file` empty, whose load was cut short; `indexes` are all of it. Its pages
/// stay allocated until a compaction finds that nothing leads to them. If this fails the table
/// takes no rows.
///
/// # Errors
/// The errors of the log and of reading pages.
pub(crate) fn empty(file: &TableFile, indexes: &[Arc<TableIndex>]) -> Result<()> {
    file.set_broken_off(true);
    let space = file.space.as_ref().map_err(Clone::clone)?;
    let access = space.store().pool().access(AccessKind::Point);
    indexes.iter().try_for_each(|index| index.clear(&access))?;
    space.set_emptied(&access)?;
    file.set_broken_off(false);
    Ok(())
}
