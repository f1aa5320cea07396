//! sysbench and dbSTRESS sessions over the embedded engine.

use anyhow::{Result, anyhow};
use holdfast::Database;
use holdfast_workload::TableNo;
use holdfast_workload::dbstress;
use holdfast_workload::dist::{Distribution, Kind};
use holdfast_workload::sysbench::{Client, Mix, RowSql};

use super::load::{Load, Session};
use super::site::Site;
use crate::target::embedded::EmbeddedRows;

/// Statement classes of dbSTRESS.
pub const DBSTRESS_CLASSES: &[&str] = &["SEL1", "SEL2", "UPDATE", "DELETE", "INSERT", "BEGIN/COMMIT"];
/// The class of [`DBSTRESS_CLASSES`] that has the rows of HISTORY.
pub const SEL2: usize = 1;
/// The class of UPDATEs.
pub const UPDATE: usize = 2;

#[repr(align(128))]
struct DbStress<'d> {
    session: dbstress::Session,
    rows: EmbeddedRows<'d>,
}

impl Session for DbStress<'_> {
    fn transaction(&mut self, done: &mut dyn FnMut(usize)) -> Result<()> {
        use dbstress::Statement::{Bracket, Delete, Insert, Select1, Select2, Update};
        let class = |statement| match statement {
            Select1 => 0,
            Select2 => SEL2,
            Update => UPDATE,
            Delete => 3,
            Insert => 4,
            Bracket => 5,
        };
        let event = self.session.event(&mut self.rows, &mut |statement| done(class(statement)));
        event.map_err(|f| anyhow!("dbSTRESS: {f}"))
    }
}

/// The dbSTRESS sessions of `options`.
pub fn dbstress<'d>(db: &'d Database, site: &'d Site, options: dbstress::Options, seed: u64) -> Load<'d> {
    let session = |n| -> Box<dyn Session + 'd> {
        let rows = EmbeddedRows::new(db, site.tables());
        Box::new(DbStress { session: dbstress::Session::new(options, n, seed), rows })
    };
    Load::new(DBSTRESS_CLASSES, (0..options.sessions).map(session).collect())
}

#[repr(align(128))]
struct Sysbench<'d> {
    client: Client,
    sql: RowSql<EmbeddedRows<'d>>,
}

impl Session for Sysbench<'_> {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        self.client.event(&mut self.sql).map(|_| ()).map_err(|f| anyhow!("sysbench: {f}"))
    }
}

/// sysbench sessions on a table of `rows` rows.
pub fn sysbench<'d>(db: &'d Database, site: &'d Site, mix: Mix, rows: u32, sessions: usize, seed: u64) -> Load<'d> {
    let session = |n: usize| -> Box<dyn Session + 'd> {
        let distribution = Distribution::new(Kind::Uniform, u64::from(rows));
        let client = Client::new(mix, rows, distribution, seed, n as u64);
        Box::new(Sysbench { client, sql: RowSql::new(EmbeddedRows::new(db, site.tables()), TableNo(0)) })
    };
    Load::new(&[], (0..sessions).map(session).collect())
}
