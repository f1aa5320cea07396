//! A session: carries out transactions and writes down what it was told.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::engine::Engine;
use super::history::{Does, End, Number, Statement, Token, Txn};
use super::level::Level;
use super::plan::{Lock, Shape, Step, TxnPlan, What};
use super::schema::{Fields, row};

/// Errors after which the transaction is gone: a deadlock, and a row that was changed behind the
/// snapshot.
const ENDS_THE_TRANSACTION: [u16; 2] = [1213, 1020];
/// Errors after which the statement is undone, and the transaction goes on: a key that is there.
const ENDS_THE_STATEMENT: [u16; 1] = [1062];
/// Longer than any session waits that was not forgotten.
const LOCK_WAIT_SECONDS: u32 = 40;

/// The order of all that happens.
#[derive(Default)]
pub struct Clock(AtomicU64);

impl Clock {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// What became of a statement.
enum Outcome {
    Done(Does),
    /// It was undone, the transaction goes on.
    Undone,
    /// The transaction was rolled back.
    Ended,
}

pub struct Session<'a> {
    conn: Conn,
    clock: &'a Clock,
    engine: Engine,
    level: Option<Level>,
}

impl<'a> Session<'a> {
    pub fn connect(socket: &Path, engine: Engine, clock: &'a Clock) -> anyhow::Result<Session<'a>> {
        let mut conn = connect(socket)?;
        let prefix = engine.name().to_lowercase();
        conn.query_drop(format!("USE isolation; SET SESSION {prefix}_lock_wait_timeout = {LOCK_WAIT_SECONDS}"))?;
        Ok(Session { conn, clock, engine, level: None })
    }

    /// Carries out a transaction.
    pub fn transaction(&mut self, number: Number, plan: &TxnPlan) -> anyhow::Result<Txn> {
        if self.level != Some(plan.level) {
            self.conn.query_drop(plan.level.sql(self.engine))?;
            self.level = Some(plan.level);
        }
        let mut txn = Txn {
            number,
            level: plan.level,
            long: plan.shape != Shape::Autocommit,
            snapshot: None,
            begun_anew: None,
            statements: Vec::new(),
            end: End::Aborted,
        };
        self.begin(&mut txn, plan.shape)?;
        let (mut savepoint, mut is_first) = (0, false);
        for (n, step) in plan.steps.iter().enumerate() {
            match step {
                Step::Savepoint => {
                    self.conn.query_drop("SAVEPOINT s")?;
                    savepoint = txn.statements.len();
                    is_first = n == 0 && txn.snapshot.is_none();
                }
                Step::RollbackTo => {
                    self.conn.query_drop("ROLLBACK TO SAVEPOINT s")?;
                    let at = self.clock.tick();
                    txn.begun_anew = is_first.then_some(at);
                    txn.statements[savepoint..].iter_mut().for_each(|s| s.undone = s.undone.or(Some(at)));
                }
                Step::Do(what) => {
                    if !self.statement(&mut txn, n as u64 + 1, what)? {
                        self.give_up(&txn, plan.shape)?;
                        return Ok(txn);
                    }
                }
            }
        }
        self.end(&mut txn, plan)?;
        Ok(txn)
    }

    fn begin(&mut self, txn: &mut Txn, shape: Shape) -> anyhow::Result<()> {
        let from = self.clock.tick();
        match shape {
            Shape::Autocommit => {}
            Shape::Plain => self.conn.query_drop("START TRANSACTION")?,
            Shape::ConsistentSnapshot => {
                self.conn.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
                txn.snapshot = Some((from, self.clock.tick()));
            }
            Shape::Xa => self.conn.query_drop(format!("XA START '{}'", txn.number))?,
        }
        Ok(())
    }

    /// False if the transaction has ended.
    fn statement(&mut self, txn: &mut Txn, n: u64, what: &What) -> anyhow::Result<bool> {
        let token = Token::new(txn.number, n);
        let sql = what.sql(token);
        let from = self.clock.tick();
        let outcome = self.execute(what, &sql);
        let to = self.clock.tick();
        match outcome.with_context(|| format!("{sql}\nafter\n{txn}"))? {
            Outcome::Done(does) => txn.statements.push(Statement { token, from, to, does, undone: None, sql }),
            Outcome::Undone => {}
            Outcome::Ended => return Ok(false),
        }
        Ok(true)
    }

    fn execute(&mut self, what: &What, sql: &str) -> anyhow::Result<Outcome> {
        let result = match what {
            What::Read { range, lock, with_trail, .. } => self
                .rows(sql, *with_trail)
                .map(|rows| rows.map(|rows| Does::Read { range: *range, locking: *lock != Lock::None, rows })),
            What::Delete { range } => {
                self.rows(sql, true).map(|rows| rows.map(|rows| Does::Delete { range: *range, rows }))
            }
            What::Update { range, .. } => {
                self.conn.query_drop(sql).map(|()| Ok(Does::Update { range: *range, rows: self.conn.affected_rows() }))
            }
            What::Insert { .. } | What::Upsert { .. } => self.conn.query_drop(sql).map(|()| Ok(Does::Put)),
        };
        match result {
            Ok(does) => Ok(Outcome::Done(does?)),
            Err(mysql::Error::MySqlError(e)) if ENDS_THE_TRANSACTION.contains(&e.code) => Ok(Outcome::Ended),
            Err(mysql::Error::MySqlError(e)) if ENDS_THE_STATEMENT.contains(&e.code) => Ok(Outcome::Undone),
            Err(error) => Err(error.into()),
        }
    }

    fn rows(&mut self, sql: &str, with_trail: bool) -> mysql::Result<anyhow::Result<Vec<super::history::Row>>> {
        let fields: Vec<Fields> = if with_trail {
            self.conn.query(sql)?
        } else {
            self.conn.query_map(sql, |(id, b, u, tok)| (id, b, u, tok, None))?
        };
        Ok(fields.into_iter().map(row).collect())
    }

    fn end(&mut self, txn: &mut Txn, plan: &TxnPlan) -> anyhow::Result<()> {
        if plan.shape == Shape::Autocommit {
            let last = txn.statements.last();
            txn.end = last.map_or(End::Aborted, |s| End::Committed { from: s.from, to: s.to });
            return Ok(());
        }
        let id = txn.number;
        let ends = if plan.commits { "COMMIT" } else { "ROLLBACK" };
        let last = if plan.shape == Shape::Xa {
            self.conn.query_drop(format!("XA END '{id}'"))?;
            self.conn.query_drop(format!("XA PREPARE '{id}'"))?;
            format!("XA {ends} '{id}'")
        } else {
            ends.to_owned()
        };
        let from = self.clock.tick();
        self.conn.query_drop(last).with_context(|| format!("at the end of\n{txn}"))?;
        let to = self.clock.tick();
        if plan.commits {
            txn.end = End::Committed { from, to };
        }
        Ok(())
    }

    /// After an error that ended the transaction.
    fn give_up(&mut self, txn: &Txn, shape: Shape) -> anyhow::Result<()> {
        if shape == Shape::Xa {
            // The server says in both that the transaction was rolled back.
            let _ = self.conn.query_drop(format!("XA END '{}'", txn.number));
            let _ = self.conn.query_drop(format!("XA ROLLBACK '{}'", txn.number));
        }
        let open: Option<u8> = self.conn.query_first("SELECT @@in_transaction")?;
        if open != Some(0) {
            bail!("the server takes a transaction for open that the engine has ended:\n{txn}");
        }
        Ok(())
    }
}

/// A connection over the server's socket.
pub fn connect(socket: &Path) -> anyhow::Result<Conn> {
    let options = OptsBuilder::new().socket(Some(socket.to_string_lossy())).user(Some("root"));
    Conn::new(options).context("the server accepts no connection")
}
