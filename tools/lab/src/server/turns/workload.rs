//! The workloads of the sessions, each by one of the lab's scripts for sysbench, with its tables
//! and their sizes.

use std::path::PathBuf;

use anyhow::{Context, Result};
use holdfast_server::Cache;
use holdfast_workload::rng::Rng;
use holdfast_workload::scripts::Script;
use serde_json::{Value, json};

use crate::document::merged;
use crate::server::data::SCHEMA;
use crate::server::load::Oltp;

/// A workload and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// READs of two SELECTs, WRITEs of one UPDATE in place.
    DbStress {
        /// OBJECTs.
        objects: u32,
    },
    /// dbt2's five transactions in the standard mix.
    Dbt2 {
        /// Warehouses.
        warehouses: u32,
        /// Items, and rows of stock of a warehouse.
        items: u32,
        /// Customers of a district, and its orders.
        customers: u32,
    },
}

/// The modes of dbSTRESS, and READs per WRITE of each.
pub(crate) const MODES: [(&str, u32); 2] = [("read-only", 0), ("RW=1", 1)];
/// dbt2 has one mode; the number has no effect.
const STANDARD_MIX: [(&str, u32); 1] = [("standard mix", 1)];

impl Workload {
    /// The names of its modes, and the argument of [`Workload::load`] for each.
    pub fn modes(self) -> &'static [(&'static str, u32)] {
        match self {
            Workload::DbStress { .. } => &MODES,
            Workload::Dbt2 { .. } => &STANDARD_MIX,
        }
    }

    /// Its script.
    pub fn script(self) -> Script {
        match self {
            Workload::DbStress { .. } => Script::DbStress,
            Workload::Dbt2 { .. } => Script::Dbt2,
        }
    }

    /// The script's arguments about the tables.
    pub fn sizes(self) -> Vec<String> {
        match self {
            Workload::DbStress { objects } => vec![format!("--objects={objects}")],
            Workload::Dbt2 { warehouses, items, customers } => vec![
                format!("--warehouses={warehouses}"),
                format!("--items={items}"),
                format!("--customers={customers}"),
            ],
        }
    }

    /// Returns the load of `sessions` sessions. In dbSTRESS one WRITE follows every `rw_ratio`
    /// READs.
    pub fn load(self, cache: &Cache, sessions: u32, rw_ratio: u32, seed: u64) -> Result<Oltp> {
        let mut asked = self.sizes();
        asked.push("--statement-times=on".to_owned());
        if matches!(self, Workload::DbStress { .. }) {
            asked.push(format!("--rw-ratio={rw_ratio}"));
        }
        let script = script(cache, self.script())?;
        Ok(Oltp { script, asked, ..Oltp::read_only(0, SCHEMA, sessions as usize, seed) })
    }

    /// Bytes of a cache that holds all of its tables in any of the engines. The tables of dbt2
    /// grow.
    pub fn bytes(self) -> u64 {
        match self {
            Workload::DbStress { objects } => u64::from(objects) * 8000 + (32 << 20),
            Workload::Dbt2 { warehouses, items, customers } => {
                let warehouse = u64::from(items) * 450 + u64::from(customers) * 10 * 2400;
                u64::from(warehouses) * warehouse + u64::from(items) * 150 + (64 << 20)
            }
        }
    }

    /// A statement that changes some neighbouring rows at a random place, for filling a log.
    pub fn scattered_update(self, rng: &mut Rng) -> String {
        match self {
            Workload::DbStress { objects } => {
                let (object, stat) = (rng.below(u64::from(objects)), rng.below(1000));
                format!(
                    "UPDATE history SET ref_stat = '{stat:03}', note = REVERSE(note) WHERE ref_object = '{object:010}'"
                )
            }
            Workload::Dbt2 { warehouses, items, .. } => {
                let (warehouse, item) = (1 + rng.below(u64::from(warehouses)), 1 + rng.below(u64::from(items)));
                format!(
                    "UPDATE stock SET s_data = REVERSE(s_data), s_dist_01 = REVERSE(s_dist_01), s_dist_10 = REVERSE(s_dist_10) \
                     WHERE s_w_id = {warehouse} AND s_i_id BETWEEN {item} AND {item} + 19"
                )
            }
        }
    }

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Workload::DbStress { .. } => "dbSTRESS",
            Workload::Dbt2 { .. } => "dbt2",
        }
    }

    /// The settings of a document: those of the workload, and `others`.
    pub fn settings(self, others: Value) -> Value {
        merged(self.describe(), others)
    }

    fn describe(self) -> Value {
        match self {
            Workload::DbStress { objects } => json!({
                "workload": "dbSTRESS, a WRITE is one UPDATE",
                "anti_dead": "slices", "hpk": true, "same_ref": true, "distribution": "uniform",
                "objects": objects,
            }),
            Workload::Dbt2 { warehouses, items, customers } => json!({
                "workload": "dbt2, 45 % new orders, 43 % payments, 4 % each of order status, delivery, stock level",
                "distribution": "NURand",
                "warehouses": warehouses, "items": items, "customers_of_a_district": customers,
            }),
        }
    }
}

/// Writes one of the lab's scripts and returns its path.
pub fn script(cache: &Cache, script: Script) -> Result<String> {
    let folder: PathBuf = cache.path("lab/scripts");
    let path = script.write_into(&folder).with_context(|| format!("write a script into {}", folder.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_stay_within_the_tables() {
        let mut rng = Rng::for_part(1, 1);
        let dbt2 = Workload::Dbt2 { warehouses: 2, items: 30, customers: 10 };
        for _ in 0..100 {
            let sql = dbt2.scattered_update(&mut rng);
            let number = |name: &str| {
                let (_, rest) = sql.split_once(name)?;
                rest.split(' ').next()?.parse::<u32>().ok()
            };
            assert!((1..=2).contains(&number("s_w_id = ").unwrap()), "{sql}");
            assert!((1..=30).contains(&number("BETWEEN ").unwrap()), "{sql}");
        }
    }
}
