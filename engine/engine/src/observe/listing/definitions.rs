//! Tables and indexes.

use super::cells::{Cell, Column, EachRow, NAME};
use crate::instance::Instance;
use crate::observe::names::split;
use crate::observe::stats;

pub(super) const TABLES: &[Column] = &[
    Column::number("TABLE_ID"),
    Column::text("SCHEMA", NAME).or_null(),
    Column::text("NAME", NAME),
    Column::number("SPACE"),
    Column::number("N_INDEXES"),
    Column::number("N_ROWS"),
    Column::text("FILE_NAME", 64),
    Column::number("FILE_SIZE"),
];

pub(super) const INDEXES: &[Column] = &[
    Column::number("INDEX_ID"),
    Column::text("NAME", NAME),
    Column::number("TABLE_ID"),
    Column::number("TYPE"),
    Column::number("PAGE_NO"),
    Column::number("SPACE"),
    Column::number("N_ENTRIES"),
    Column::number("RESIDENT_PAGES"),
    Column::number("PAGE_HITS"),
    Column::number("PAGE_MISSES"),
];

/// InnoDB's bits for the type of an index.
const CLUSTERED: u64 = 1;
const UNIQUE: u64 = 2;

pub(super) fn tables(instance: &Instance, each: &mut EachRow<'_>) {
    for table in instance.schema().tables() {
        let record = &table.record;
        let file = table.store.space().ok().map(|s| s.space().file().len().unwrap_or(0));
        let rows = table.store.indexes().ok().and_then(|all| all.first().map(|index| index.rows()));
        let on = each(&[
            Cell::Unsigned(u64::from(record.table_id)),
            Cell::text(split(&table.name).0),
            Cell::Text(&table.name),
            Cell::Unsigned(u64::from(record.space.0)),
            Cell::Unsigned(record.indexes.len() as u64 + 1),
            Cell::Unsigned(rows.unwrap_or(0)),
            Cell::Text(&record.space.file_name()),
            Cell::Unsigned(file.unwrap_or(0)),
        ]);
        if !on {
            return;
        }
    }
}

pub(super) fn indexes(instance: &Instance, each: &mut EachRow<'_>) {
    let residency = stats::residency(instance);
    for table in instance.schema().tables() {
        let of_table = stats::table_stats(instance, table, &residency).indexes;
        let opened = table.store.indexes().unwrap_or_default();
        for (no, (index, open)) in of_table.iter().zip(opened).enumerate() {
            let index_type = match no {
                0 => CLUSTERED | UNIQUE,
                _ => UNIQUE * u64::from(table.record.indexes[no - 1].unique),
            };
            let on = each(&[
                Cell::Unsigned(u64::from(index.index_id)),
                Cell::Text(&index.name),
                Cell::Unsigned(u64::from(table.record.table_id)),
                Cell::Unsigned(index_type),
                Cell::Unsigned(u64::from(open.tree().root().0)),
                Cell::Unsigned(u64::from(table.record.space.0)),
                Cell::Unsigned(index.rows),
                Cell::Unsigned(index.resident_pages),
                Cell::Unsigned(index.hits),
                Cell::Unsigned(index.misses),
            ]);
            if !on {
                return;
            }
        }
    }
}
