//! Making files smaller while they are in use.
//!
//! Table by table: the last node of the file is moved into the first free page, by one mini-transaction each, until the
//! last page cannot be moved (a root, or a part of a large value) or nothing in front of it is free. Then the page
//! count is lowered, and after a checkpoint, when no log record can ask for the pages any more, the file is cut.

use std::sync::Arc;

use holdfast_base::{Lsn, PageNo, page};
use holdfast_pool::{Access, AccessKind};
use holdfast_tree::SpaceFile;

use crate::Result;
use crate::schema::TableHandle;
use crate::shared::Shared;

/// What a compaction did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of the tables' files before.
    pub bytes_before: u64,
    /// Bytes of the tables' files after.
    pub bytes_after: u64,
    /// Pages moved.
    pub pages_moved: u64,
}

pub(crate) fn compact(shared: &Shared) -> Result<CompactReport> {
    shared.check_writable()?;
    shared.purge_now()?;
    let schema = shared.schema();
    let mut report = CompactReport::default();
    let mut shrunk: Vec<(Arc<SpaceFile>, Lsn)> = Vec::new();
    for table in schema.tables() {
        let Ok(space) = table.store.space() else { continue };
        report.bytes_before += space.space().file().len()?;
        if space.space().damaged().is_some() {
            continue;
        }
        let access = shared.pool().access(AccessKind::Maintenance);
        report.pages_moved += move_tail(shared, table, space, &access)?;
        let (pages, lsn) = space.shrink(&access)?;
        if pages > 0 {
            shrunk.push((Arc::clone(space), lsn));
        }
    }
    if !shrunk.is_empty() {
        shared.checkpoint()?;
        let checkpoint = shared.wal().checkpoint_lsn();
        let access = shared.pool().access(AccessKind::Maintenance);
        for (space, lsn) in shrunk {
            space.truncate_file(lsn, checkpoint, &access)?;
        }
    }
    for table in schema.tables() {
        if let Ok(space) = table.store.space() {
            report.bytes_after += space.space().file().len()?;
        }
    }
    Ok(report)
}

/// Moves nodes from the end of the file to the front as long as that is possible. How many.
fn move_tail(shared: &Shared, table: &TableHandle, space: &SpaceFile, access: &Access<'_>) -> Result<u64> {
    let mut moved = 0;
    loop {
        shared.check()?;
        let last = space.last_allocated(access)?;
        let guard = shared.pool().fix_shared(space.space(), last, access)?;
        let header = page::PageHeader::decode(&guard);
        drop(guard);
        let Some(index) = header.and_then(|h| table.store.index_of(h.index)) else { return Ok(moved) };
        if !is_moved(index.tree().relocate_page(last, access)?, last) {
            return Ok(moved);
        }
        moved += 1;
    }
}

fn is_moved(to: Option<PageNo>, from: PageNo) -> bool {
    to.is_some_and(|to| to < from)
}
