//! Saving what can be read of a damaged table.
//!
//! The tree above the rows may be what is damaged, so the file is read page by page: every sound page that says it is
//! a leaf of the table's rows gives its rows. A row whose large value cannot be read is counted and left out. The newest
//! version of every row is taken, that of a transaction which had not committed included.

use holdfast_base::PageNo;
use holdfast_base::page::{self, PageType};
use holdfast_pool::AccessKind;
use holdfast_tree::node::NodeRef;
use holdfast_txn::{NewValue, VersionHeader, values};

use crate::schema::TableHandle;
use crate::shared::Shared;
use crate::transaction::WriteTransaction;
use crate::{Database, Error, Result, ddl};

/// What a salvage found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Rows written to the target.
    pub rows: u64,
    /// Pages that could not be read. What they held is not known.
    pub lost_pages: u64,
    /// Rows whose large value could not be read.
    pub lost_values: u64,
}

/// A row that was found, and how much of it is kept with its key if it is too large for a page.
struct Row {
    key: Vec<u8>,
    value: Vec<u8>,
    head_len: usize,
}

/// Bytes of rows written by one transaction.
const BATCH: usize = 1 << 20;

pub(crate) fn salvage_table(shared: &Shared, name: &str, target: &Database) -> Result<SalvageReport> {
    let schema = shared.schema();
    let table = schema.get(name).ok_or_else(|| Error::TableNotFound(name.into()))?;
    let space = table.store.space()?;
    let record = &table.record;
    let copy = match target.shared.schema().get(name) {
        Some(there) => std::sync::Arc::clone(there),
        None => ddl::create_plain(&target.shared, name, &record.key_type, &record.value_type)?,
    };
    let mut report = SalvageReport::default();
    let mut rows: Vec<Row> = Vec::new();
    let mut bytes = 0;
    let pages = space.space().file().len()? / shared.meta.page_size as u64;
    for no in 0..u32::try_from(pages).unwrap_or(u32::MAX) {
        read_page(shared, table, PageNo(no), &mut rows, &mut report)?;
        bytes += rows.last().map_or(0, |row| row.key.len() + row.value.len());
        if bytes > BATCH || rows.len() > 1_000 {
            write(target, &copy, &mut rows, &mut report)?;
            bytes = 0;
        }
    }
    write(target, &copy, &mut rows, &mut report)?;
    Ok(report)
}

/// Appends the rows of a page, if it is a leaf of rows.
fn read_page(
    shared: &Shared,
    table: &TableHandle,
    no: PageNo,
    rows: &mut Vec<Row>,
    report: &mut SalvageReport,
) -> Result<()> {
    let space = table.store.space()?;
    let access = shared.pool().access(AccessKind::Maintenance);
    let page = match shared.pool().fix_shared(space.space(), no, &access) {
        Ok(page) => page.to_vec(),
        Err(error) if error.is_damage() => {
            report.lost_pages += 1;
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let header = page::PageHeader::decode(&page);
    if !header.is_some_and(|h| h.page_type == PageType::Tree && h.level == 0 && h.index == table.record.clustered) {
        return Ok(());
    }
    let Some(node) = NodeRef::new(page.as_slice(), table.record.clustered).filter(|n| n.check().is_ok()) else {
        report.lost_pages += 1;
        return Ok(());
    };
    for slot in 0..node.count().unwrap_or(0) {
        let (Some(key), Some(payload)) = (node.key(slot), node.payload(slot)) else { continue };
        let Some((version, body)) = VersionHeader::decode(payload) else { continue };
        if version.deleted {
            continue;
        }
        let mut value = Vec::new();
        let mut head_len = 0;
        if version.overflow {
            let read = values::decode(body).and_then(|(_, head)| {
                head_len = head.len();
                values::read(space, table.record.clustered, body, &access, &mut value)
            });
            if read.is_err() {
                report.lost_values += 1;
                continue;
            }
        } else {
            value.extend_from_slice(body);
        }
        rows.push(Row { key, value, head_len });
    }
    Ok(())
}

fn write(target: &Database, copy: &TableHandle, rows: &mut Vec<Row>, report: &mut SalvageReport) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    target.transact(|txn: &WriteTransaction| {
        rows.iter().try_for_each(|row| {
            let value = NewValue::with_head(&row.value, row.head_len);
            txn.context().upsert(copy, &[], &row.key, value).map(drop)
        })
    })?;
    report.rows += rows.len() as u64;
    rows.clear();
    Ok(())
}
