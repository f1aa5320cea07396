//! Workloads that are independent of the engine. The experiments of the lab run them against any
//! implementation of [`Rows`] (a table store, such as the embedded engine) or [`sysbench::Sql`]
//! (something that executes statements, such as a server).
//!
//! | module | what |
//! |---|---|
//! | [`sysbench`] | the `sbtest` schema with sysbench 1.0's generators, the `oltp_*` transactions |
//! | [`dump`] | what `mysqldump` does: every row in key order, decoded, as multi-row INSERT text |
//! | [`dbt2`] | the `new_order` and `stock` tables and the two report queries over them |
//! | [`dbstress`] | dbSTRESS: five tables, READs of two SELECTs, WRITEs of HISTORY, AntiDEAD |
//! | [`scripts`] | the same for sysbench 1.0: dbSTRESS, and the oltp test of sysbench 0.4 |
//! | [`row`] | the row format: typed columns in bytes; reading a row decodes its columns |
//! | [`dist`] | uniform, special, pareto, zipf |
//! | [`rate`] | open-loop schedule of `--rate`: latency counts from the scheduled time |
//! | [`rng`] | the random numbers: same seed, same data, on every machine and in every version |
//!
//! Nothing here starts a thread, sleeps, or reads a clock.

#![forbid(unsafe_code)]

pub mod dbstress;
pub mod dbt2;
pub mod dist;
pub mod dump;
pub mod rate;
pub mod rng;
pub mod row;
pub mod scripts;
mod store;
pub mod sysbench;

pub use store::{Failure, Result, RowSink, Rows, Scan, TableNo};
