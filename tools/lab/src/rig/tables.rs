//! The tables of the experiments on the embedded engine.

use std::sync::Arc;

use anyhow::{Context, Result};
use holdfast::{Database, IndexDefinition, TableDefinition};
use holdfast_workload::{dbstress, dbt2, sysbench};

use crate::progress::Progress;

/// The tables of the workloads: byte strings, encoded by the workload.
pub(crate) type Definition = TableDefinition<&'static [u8], &'static [u8]>;

/// `KEY k (k)` of `sbtest`. A row that does not decode has no entry; it fails where it is read.
const K_INDEX: IndexDefinition<&'static [u8], &'static [u8], &'static [u8]> =
    IndexDefinition::new("k", |_, row: &Vec<u8>, keys| {
        if let Some(k) = holdfast_workload::sysbench::index_key(row) {
            keys.push(&k);
        }
    });

/// The definition of a table, with the index `k` if it is an `sbtest`.
pub(crate) fn definition(name: &str, with_k: bool) -> Definition {
    let table = Definition::named(name);
    if with_k { table.index(&K_INDEX) } else { table }
}

/// A table of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Its name.
    pub name: &'static str,
    /// Seed of its rows.
    pub seed: u64,
    /// Its rows.
    pub content: Content,
}

/// Rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// `sbtest` with that many rows.
    Sbtest(u32),
    /// `new_order` of that many warehouses.
    NewOrder(u32),
    /// `stock` of that many warehouses.
    Stock(u32),
    /// A table of dbSTRESS.
    DbStress(dbstress::Options, dbstress::Table),
}

impl Content {
    /// The number of rows, of dbSTRESS those of the tables that grow.
    pub fn rows(&self) -> u64 {
        use dbstress::{HISTORY_PER_OBJECT, Table};
        match *self {
            Content::Sbtest(rows) => rows.into(),
            Content::NewOrder(warehouses) => {
                u64::from(warehouses) * u64::from(dbt2::DISTRICTS * dbt2::NEW_ORDERS_PER_DISTRICT)
            }
            Content::Stock(warehouses) => u64::from(warehouses) * u64::from(dbt2::STOCK_PER_WAREHOUSE),
            Content::DbStress(options, Table::Object) => options.objects.into(),
            Content::DbStress(options, Table::History | Table::HistoryIndex) => {
                u64::from(options.objects) * u64::from(HISTORY_PER_OBJECT)
            }
            Content::DbStress(..) => 0,
        }
    }
}

/// The tables of dbSTRESS.
pub fn dbstress_tables(options: dbstress::Options, seed: u64) -> Vec<TableSpec> {
    let tables = dbstress::table_names(options.hpk).iter().zip(dbstress::Table::ALL);
    tables.map(|(name, table)| TableSpec { name, seed, content: Content::DbStress(options, table) }).collect()
}

/// The definitions of tables.
pub fn definitions(tables: &[TableSpec]) -> Arc<[Definition]> {
    tables.iter().map(|t| definition(t.name, matches!(t.content, Content::Sbtest(_)))).collect()
}

/// Rows between two reports of how far the loading is.
const REPORT_EVERY: u64 = 10_000;

/// Creates tables with their rows.
pub fn fill(db: &Database, tables: &[TableSpec], definitions: &[Definition], progress: &mut Progress) -> Result<()> {
    let (mut done, total) = (0, tables.iter().map(|table| table.content.rows()).sum());
    for (table, definition) in tables.iter().zip(definitions) {
        let loaded = db.create_table_with(definition, |loader| {
            let mut push = |key: &[u8], row: &[u8]| {
                done += 1;
                if done % REPORT_EVERY == 0 {
                    progress.show_part((done, total), "rows");
                }
                loader.push(key, row)
            };
            match (table.content, table.seed) {
                (Content::Sbtest(rows), seed) => sysbench::generate(seed, rows, 1..=rows, &mut push),
                (Content::NewOrder(warehouses), _) => dbt2::generate_new_order(warehouses, &mut push),
                (Content::Stock(warehouses), seed) => dbt2::generate_stock(seed, warehouses, &mut push),
                (Content::DbStress(options, table), seed) => dbstress::generate(&options, table, seed, &mut push),
            }
        });
        loaded.with_context(|| format!("load the table {}", table.name))?;
    }
    Ok(())
}
