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
struct DbStress {
    session: dbstress::Session,
    rows: EmbeddedRows,
}

impl Session for DbStress {
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

#[repr(align(128))]
struct Sysbench {
    client: Client,
    sql: RowSql<EmbeddedRows>,
}

impl Session for Sysbench {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        self.client.event(&mut self.sql).map(|_| ()).map_err(|f| anyhow!("sysbench: {f}"))
    }
}

/// Sessions on the tables of a site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sessions {
    /// dbSTRESS's.
    DbStress(dbstress::Options),
    /// sysbench's, on a table of `rows` rows, uniformly distributed.
    Sysbench { mix: Mix, rows: u32, threads: usize },
}

impl Sessions {
    /// Their number.
    pub fn count(self) -> usize {
        match self {
            Sessions::DbStress(options) => options.sessions as usize,
            Sessions::Sysbench { threads, .. } => threads,
        }
    }

    /// One of them.
    pub fn alone(self) -> Sessions {
        match self {
            Sessions::DbStress(options) => Sessions::DbStress(dbstress::Options { sessions: 1, ..options }),
            Sessions::Sysbench { mix, rows, .. } => Sessions::Sysbench { mix, rows, threads: 1 },
        }
    }

    /// Starts the sessions on `db`, which is the database of `site`; they time `group` transactions
    /// in a row as one.
    pub fn load(self, db: &Database, site: &Site, seed: u64, group: u64) -> Result<Load> {
        let connection = || EmbeddedRows::new(db, site.tables());
        match self {
            Sessions::DbStress(options) => {
                let session = |n| dbstress::Session::new(options, n, seed);
                let sessions = (0..options.sessions).map(|n| DbStress { session: session(n), rows: connection() });
                Load::of(DBSTRESS_CLASSES, group, sessions)
            }
            Sessions::Sysbench { mix, rows, threads } => {
                let distribution = || Distribution::new(Kind::Uniform, u64::from(rows));
                let client = |n: usize| Client::new(mix, rows, distribution(), seed, n as u64);
                let sql = || RowSql::new(connection(), TableNo(0));
                Load::of(&[], group, (0..threads).map(|n| Sysbench { client: client(n), sql: sql() }))
            }
        }
    }
}
