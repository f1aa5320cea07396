//! The transactions: their statements, their order, and their rows.

use std::ops::RangeInclusive;
use std::str::FromStr;

use super::sql::random_c;
use super::{SbRow, Sql};
use crate::dist::Distribution;
use crate::rng::Rng;
use crate::{Failure, Result};

/// Statements of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Point selects.
    pub point_selects: u32,
    /// Simple ranges.
    pub simple_ranges: u32,
    /// SUM ranges.
    pub sum_ranges: u32,
    /// ORDER BY ranges.
    pub order_ranges: u32,
    /// DISTINCT ranges.
    pub distinct_ranges: u32,
    /// Updates of `k`, which is indexed.
    pub index_updates: u32,
    /// Updates of `c`, which is not.
    pub non_index_updates: u32,
    /// Pairs of a DELETE and an INSERT of the same id.
    pub delete_inserts: u32,
    /// Rows of a range.
    pub range_size: u32,
    /// True if the statements run in one transaction.
    pub transaction: bool,
}

impl Mix {
    const NONE: Mix = Mix {
        point_selects: 0,
        simple_ranges: 0,
        sum_ranges: 0,
        order_ranges: 0,
        distinct_ranges: 0,
        index_updates: 0,
        non_index_updates: 0,
        delete_inserts: 0,
        range_size: 100,
        transaction: true,
    };

    /// `oltp_read_only`: 10 point selects and the four ranges.
    pub const READ_ONLY: Mix =
        Mix { point_selects: 10, simple_ranges: 1, sum_ranges: 1, order_ranges: 1, distinct_ranges: 1, ..Mix::NONE };
    /// `oltp_write_only`: one update of each kind, one delete and insert.
    pub const WRITE_ONLY: Mix = Mix { index_updates: 1, non_index_updates: 1, delete_inserts: 1, ..Mix::NONE };
    /// `oltp_read_write`: both.
    pub const READ_WRITE: Mix = Mix { index_updates: 1, non_index_updates: 1, delete_inserts: 1, ..Mix::READ_ONLY };
    /// `oltp_point_select`.
    pub const POINT_SELECT: Mix = Mix { point_selects: 1, transaction: false, ..Mix::NONE };
    /// `oltp_update_index`.
    pub const UPDATE_INDEX: Mix = Mix { index_updates: 1, transaction: false, ..Mix::NONE };
    /// `oltp_update_non_index`.
    pub const UPDATE_NON_INDEX: Mix = Mix { non_index_updates: 1, transaction: false, ..Mix::NONE };

    /// True if no statement writes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.index_updates + self.non_index_updates + self.delete_inserts == 0
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(name: &str) -> Result<Mix, String> {
        match name.strip_prefix("oltp_").unwrap_or(name) {
            "read_only" => Ok(Mix::READ_ONLY),
            "read_write" => Ok(Mix::READ_WRITE),
            "write_only" => Ok(Mix::WRITE_ONLY),
            "point_select" => Ok(Mix::POINT_SELECT),
            "update_index" => Ok(Mix::UPDATE_INDEX),
            "update_non_index" => Ok(Mix::UPDATE_NON_INDEX),
            _ => Err(format!(
                "`{name}` is no mix; choose read_only, read_write, write_only, point_select, update_index or \
                 update_non_index"
            )),
        }
    }
}

/// Statements executed, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statements {
    /// SELECTs.
    pub reads: u64,
    /// UPDATEs, DELETEs and INSERTs.
    pub writes: u64,
}

/// What one transaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Statements executed, without BEGIN and COMMIT.
    pub statements: Statements,
    /// Rows returned.
    pub rows: u64,
    /// Times that the transaction was rolled back and repeated.
    pub retries: u64,
}

/// A session that runs the transactions of a mix on random rows.
#[derive(Clone, Debug)]
pub struct Client {
    mix: Mix,
    rows: u32,
    distribution: Distribution,
    rng: Rng,
}

/// The most repeats of one transaction after conflicts.
const RETRIES_MAX: u64 = 10_000;

impl Client {
    /// Creates session `session` of the run with seed `seed`, on a table of `rows` rows.
    #[must_use]
    pub fn new(mix: Mix, rows: u32, distribution: Distribution, seed: u64, session: u64) -> Client {
        Client { mix, rows, distribution, rng: Rng::for_part(seed, session + 1) }
    }

    fn id(&mut self) -> u32 {
        self.distribution.draw(&mut self.rng) as u32
    }

    fn ids(&mut self) -> RangeInclusive<u32> {
        let first = self.id();
        first..=first.saturating_add(self.mix.range_size - 1)
    }

    /// Runs one transaction. A transaction that fails with [`Failure::Retry`] is rolled back and
    /// repeated.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn event(&mut self, sql: &mut dyn Sql) -> Result<Event> {
        let mut event = Event::default();
        loop {
            let at_start = self.rng.clone();
            match self.attempt(sql, &mut event) {
                Err(Failure::Retry(why)) if event.retries < RETRIES_MAX => {
                    sql.rollback()?;
                    self.rng = at_start;
                    event = Event { retries: event.retries + 1, ..Event::default() };
                    drop(why);
                }
                Err(failure) => {
                    // The first failure is reported; a rollback after it can only repeat it.
                    let _ = sql.rollback();
                    return Err(failure);
                }
                Ok(()) => return Ok(event),
            }
        }
    }

    fn attempt(&mut self, sql: &mut dyn Sql, event: &mut Event) -> Result<()> {
        let mix = self.mix;
        sql.begin(mix.is_read_only())?;
        for _ in 0..mix.point_selects {
            event.rows += sql.point_select(self.id())?;
        }
        for _ in 0..mix.simple_ranges {
            event.rows += sql.simple_range(self.ids())?;
        }
        for _ in 0..mix.sum_ranges {
            event.rows += sql.sum_range(self.ids())?;
        }
        for _ in 0..mix.order_ranges {
            event.rows += sql.order_range(self.ids())?;
        }
        for _ in 0..mix.distinct_ranges {
            event.rows += sql.distinct_range(self.ids())?;
        }
        event.statements.reads +=
            u64::from(mix.point_selects + mix.simple_ranges + mix.sum_ranges + mix.order_ranges + mix.distinct_ranges);
        for _ in 0..mix.index_updates {
            sql.index_update(self.id())?;
        }
        for _ in 0..mix.non_index_updates {
            let id = self.id();
            sql.non_index_update(id, &random_c(&mut self.rng))?;
        }
        for _ in 0..mix.delete_inserts {
            let id = self.id();
            sql.delete(id)?;
            sql.insert(&SbRow::random(id, self.rows, &mut self.rng))?;
        }
        event.statements.writes += u64::from(mix.index_updates + mix.non_index_updates + 2 * mix.delete_inserts);
        sql.commit()
    }
}
