//! The operations.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::ensure;
use holdfast_testkit::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::data;
use crate::engines::{Appender, Session};

/// Rows that the threads of `hot` share.
const HOT_ROWS: u64 = 16;

/// What a turn does, over and over.
#[derive(Serialize, Deserialize, clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Read a row
    Get,
    /// Read one of 16 rows
    Hot,
    /// Read 100 rows in order
    Range,
    /// Overwrite a row
    Put,
    /// Read a row with a lock, and write it back changed
    Rmw,
    /// Insert a row behind all others
    Append,
    /// Nine times of ten `get`, else `put`
    Mix,
}

impl Operation {
    /// Its name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Hot => "get of 16 hot rows",
            Operation::Range => "range of 100",
            Operation::Put => "put",
            Operation::Rmw => "rmw",
            Operation::Append => "append",
            Operation::Mix => "90 % get, 10 % put",
        }
    }

    /// True if it commits something.
    pub fn writes(self) -> bool {
        !matches!(self, Operation::Get | Operation::Hot | Operation::Range)
    }
}

/// One thread that carries out operations.
pub struct Worker<'a> {
    pub session: Box<dyn Session + 'a>,
    pub appender: Box<dyn Appender + 'a>,
    pub dice: SplitMix64,
    /// Rows of the first table.
    pub rows: u64,
    /// The key of the next row of the second table; shared by all threads.
    pub next: &'a AtomicU64,
}

impl Worker<'_> {
    /// Carries out one operation.
    pub fn step(&mut self, operation: Operation) -> anyhow::Result<()> {
        match operation {
            Operation::Get => self.get(self.rows),
            Operation::Hot => self.get(HOT_ROWS),
            Operation::Range => {
                let first = self.dice.below(self.rows - data::RANGE_ROWS as u64);
                let seen = self.session.range(&data::key(first), data::RANGE_ROWS)?;
                ensure!(seen == data::RANGE_ROWS, "{seen} rows from {first} on");
                Ok(())
            }
            Operation::Put => self.put(),
            Operation::Rmw => self.session.read_modify_write(&data::key(self.dice.below(self.rows))),
            Operation::Append => {
                let row = self.next.fetch_add(1, Relaxed);
                self.appender.append(&data::key(row), &data::value(row, 0))
            }
            Operation::Mix if self.dice.below(10) == 0 => self.put(),
            Operation::Mix => self.get(self.rows),
        }
    }

    fn get(&mut self, rows: u64) -> anyhow::Result<()> {
        let row = self.dice.below(rows);
        ensure!(self.session.get(&data::key(row))?.is_some(), "row {row} is missing");
        Ok(())
    }

    fn put(&mut self) -> anyhow::Result<()> {
        let row = self.dice.below(self.rows);
        let version = self.dice.next_u64();
        self.session.put(&data::key(row), &data::value(row, version))
    }
}
