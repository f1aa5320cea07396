//! What the sessions of a round did and saw.
//!
//! A row is `(id, b, u, tok, trail)`. Each statement that writes has a [`Token`] of its own; it
//! puts that into `tok` and appends it to `trail`, together with the row's new `b` and `u`. So the
//! trail of a row lists all its versions since its insertion, and the order of versions is read off
//! the rows and not guessed.

use std::collections::BTreeMap;
use std::fmt;

use super::level::Level;

/// A row's primary key.
pub type Key = u64;

/// The number of a transaction; 0 stands for the rows that were there before.
pub type Number = u64;

/// A statement that writes: the number of its transaction, and which statement of it. 0: a row that
/// was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

impl Token {
    pub fn new(txn: Number, statement: u64) -> Token {
        Token(txn << 8 | statement)
    }

    pub fn txn(self) -> Number {
        self.0 >> 8
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}.{}", self.txn(), self.0 & 0xff)
    }
}

/// The indexed columns of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub b: u64,
    pub u: Option<u64>,
}

/// A version in a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub token: Token,
    pub state: State,
}

/// A row as a statement showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: Key,
    pub last: Step,
    /// Where the statement asked for it.
    pub trail: Option<Vec<Step>>,
}

/// The column of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Id,
    B,
    U,
}

/// The condition of a statement: the column is between both, which are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub column: Column,
    pub low: u64,
    pub high: u64,
}

impl Range {
    /// True if the row in this state satisfies the condition; `None` is a row that is not there.
    pub fn holds(&self, key: Key, state: Option<State>) -> bool {
        let Some(state) = state else { return false };
        let value = match self.column {
            Column::Id => Some(key),
            Column::B => Some(state.b),
            Column::U => state.u,
        };
        value.is_some_and(|value| (self.low..=self.high).contains(&value))
    }

    /// True if the condition names a single row.
    pub fn is_item(&self) -> bool {
        self.column == Column::Id && self.low == self.high
    }
}

/// What a statement did, and what it saw.
#[derive(Clone, Debug)]
pub enum Does {
    Read {
        range: Range,
        locking: bool,
        rows: Vec<Row>,
    },
    /// The number of rows is what the server says.
    Update {
        range: Range,
        rows: u64,
    },
    /// The rows as they were.
    Delete {
        range: Range,
        rows: Vec<Row>,
    },
    /// One row, by INSERT or by INSERT ... ON DUPLICATE KEY UPDATE.
    Put,
}

/// A statement that succeeded.
#[derive(Clone, Debug)]
pub struct Statement {
    pub token: Token,
    /// The clock before it was sent, and after its answer had come.
    pub from: u64,
    pub to: u64,
    pub does: Does,
    /// When a rollback to a savepoint had undone it.
    pub undone: Option<u64>,
    pub sql: String,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The clock before the commit was sent, and after its answer had come.
    Committed {
        from: u64,
        to: u64,
    },
    Aborted,
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Txn {
    pub number: Number,
    pub level: Level,
    /// It lasts longer than a statement.
    pub long: bool,
    /// START TRANSACTION WITH CONSISTENT SNAPSHOT: the clock before and after.
    pub snapshot: Option<(u64, u64)>,
    /// When a rollback to a savepoint was over that had been set before the first use of the
    /// engine. The server rolls the whole transaction back in the engine then: its view and its
    /// locks are gone.
    pub begun_anew: Option<u64>,
    pub statements: Vec<Statement>,
    pub end: End,
}

/// What is known of a round.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The rows before; all keys that a row can have.
    pub before: BTreeMap<Key, Option<State>>,
    pub txns: Vec<Txn>,
    /// The rows in the end, with their trails.
    pub after: Vec<Row>,
}

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  T{} at {}, {:?}", self.number, self.level.name(), self.end)?;
        if let Some((from, to)) = self.snapshot {
            writeln!(f, "    {from:>6}..{to:<6} START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        }
        if let Some(at) = self.begun_anew {
            writeln!(f, "    {at:>14} nothing of it is left in the engine")?;
        }
        for statement in &self.statements {
            let undone = statement.undone.map_or(String::new(), |at| format!(" (undone at {at})"));
            writeln!(f, "    {:>6}..{:<6} {}{undone}", statement.from, statement.to, statement.sql)?;
            match &statement.does {
                Does::Read { rows, .. } | Does::Delete { rows, .. } => {
                    let rows: Vec<_> = rows.iter().map(|r| format!("{}: {}", r.key, r.last.token)).collect();
                    writeln!(f, "                   -> {}", rows.join(", "))?;
                }
                Does::Update { rows, .. } => writeln!(f, "                   -> {rows} rows")?,
                Does::Put => {}
            }
        }
        Ok(())
    }
}
