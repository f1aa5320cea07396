//! A round: a table, some sessions that carry out random transactions at once, and what they saw.

use std::path::Path;
use std::thread;

use anyhow::{Context, ensure};
use holdfast_workload::rng::Rng;
use mysql::Conn;
use mysql::prelude::Queryable;

use super::engine::Engine;
use super::history::{History, Row, Txn};
use super::level::Level;
use super::plan::TxnPlan;
use super::schema::{Fields, create, row};
use super::session::{Clock, Session};

/// Small, so that undo and versions are pages on the move; more than one session commits at a time.
pub const OPTIONS: [&str; 3] =
    ["--holdfast-buffer-pool-size=5M", "--holdfast-flush-log-at-trx-commit=0", "--innodb-flush-log-at-trx-commit=0"];

/// How much happens in a round.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub sessions: u64,
    /// Of each session.
    pub transactions: u64,
}

/// A round that is named by a seed; at one level, or with all of them mixed.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub engine: Engine,
    pub seed: u64,
    pub level: Option<Level>,
    pub size: Size,
}

impl Round {
    /// The round with the number `n` of a seed.
    pub fn of(engine: Engine, seed: u64, n: u64, size: Size) -> Round {
        let level = Level::ALL.get((n % 6) as usize).copied();
        Round { engine, seed: seed.wrapping_mul(1_000_003).wrapping_add(n), level, size }
    }

    /// Carries it out.
    pub fn run(&self, socket: &Path) -> anyhow::Result<History> {
        let mut admin = super::session::connect(socket)?;
        let (statements, before) = create(&mut Rng::for_part(self.seed, 0), self.engine);
        for statement in statements {
            admin.query_drop(&statement).context(statement)?;
        }
        let clock = Clock::default();
        let txns = thread::scope(|scope| {
            let start = |session| {
                let clock = &clock;
                scope.spawn(move || self.session(socket, clock, session))
            };
            let sessions: Vec<_> = (0..self.size.sessions).map(start).collect();
            let ended = sessions.into_iter().map(|s| s.join().ok().context("a session panicked")?);
            ended.collect::<anyhow::Result<Vec<_>>>()
        })?;
        let after = rows_in_the_end(&mut admin)?;
        Ok(History { before, txns: txns.into_iter().flatten().collect(), after })
    }

    fn session(&self, socket: &Path, clock: &Clock, session: u64) -> anyhow::Result<Vec<Txn>> {
        let mut rng = Rng::for_part(self.seed, session + 1);
        let mut connection = Session::connect(socket, self.engine, clock)?;
        let number = |n| 1 + n * self.size.sessions + session;
        let txns = (0..self.size.transactions).map(|n| {
            let plan = TxnPlan::random(&mut rng, self.level);
            connection.transaction(number(n), &plan)
        });
        txns.collect()
    }
}

/// The rows by the primary key, after a look whether each index has the same.
fn rows_in_the_end(conn: &mut Conn) -> anyhow::Result<Vec<Row>> {
    conn.query_drop("USE isolation")?;
    let query = "SELECT id, b, u, tok, trail FROM r FORCE INDEX (PRIMARY) WHERE id >= 0 ORDER BY id";
    let rows: Vec<Fields> = conn.query(query)?;
    for (index, condition) in [("kb", "b >= 0"), ("kbt", "b >= 0"), ("ku", "(u >= 0 OR u IS NULL)")] {
        let query = format!("SELECT id, b, u, tok, trail FROM r FORCE INDEX ({index}) WHERE {condition} ORDER BY id");
        let others: Vec<Fields> = conn.query(&query)?;
        ensure!(rows == others, "by the primary key the table has\n{rows:?}\nby {index} it has\n{others:?}");
    }
    let checked: Vec<(String, String, String, String)> = conn.query("CHECK TABLE r EXTENDED")?;
    ensure!(checked.iter().all(|(_, _, kind, text)| kind == "status" && text == "OK"), "{checked:?}");
    rows.into_iter().map(row).collect()
}
