//! Listings: what the database is doing, as tables of named columns, for programs that show them as
//! such: a server's INFORMATION_SCHEMA. Names of listings and columns are InnoDB's wherever the
//! meaning is the same; what it has and this engine does not is left out.
//!
//! A listing is no snapshot: rows are looked at one after the other while the database goes on.

mod definitions;
mod pool;
mod transactions;
mod values;

use std::time::SystemTime;

use crate::Database;

/// A listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listing {
    /// The frames of the cache that hold a page.
    BufferPage,
    /// The cache in one row.
    BufferPoolStats,
    /// The pages of indexes in the cache.
    BufferPoolPagesIndex,
    /// Tables.
    SysTables,
    /// Indexes.
    SysIndexes,
    /// Open transactions.
    Trx,
    /// Explicit locks, held and waited for.
    Locks,
    /// Waits for locks: the waiter and the holder.
    LockWaits,
    /// Everything that is counted.
    Metrics,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A number, not negative.
    Unsigned,
    /// A number with a fraction.
    Real,
    /// Text of at most so many characters.
    Text(u32),
    /// A moment.
    Time,
}

/// A column of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub column_type: ColumnType,
    /// Whether a row may have nothing there.
    pub nullable: bool,
}

impl Column {
    const fn new(name: &'static str, column_type: ColumnType) -> Column {
        Column { name, column_type, nullable: false }
    }

    const fn number(name: &'static str) -> Column {
        Column::new(name, ColumnType::Unsigned)
    }

    const fn real(name: &'static str) -> Column {
        Column::new(name, ColumnType::Real)
    }

    const fn text(name: &'static str, chars: u32) -> Column {
        Column::new(name, ColumnType::Text(chars))
    }

    const fn time(name: &'static str) -> Column {
        Column::new(name, ColumnType::Time)
    }

    const fn or_null(mut self) -> Column {
        self.nullable = true;
        self
    }
}

/// Characters of a name in a listing: a schema's and a table's with what is put around them, each of 64 characters that a
/// server may write as five.
const NAME: u32 = 655;

/// What a row has in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Nothing.
    Null,
    /// A number.
    Unsigned(u64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// A moment.
    Time(SystemTime),
}

impl<'a> Cell<'a> {
    fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::Null, Cell::Text)
    }

    fn flag(on: bool) -> Cell<'a> {
        Cell::Unsigned(u64::from(on))
    }
}

/// The receiver of the rows; false stops the listing.
pub(crate) type EachRow<'a> = dyn FnMut(&[Cell<'_>]) -> bool + 'a;

impl Listing {
    /// All of them.
    pub const ALL: &'static [Listing] = &[
        Listing::BufferPage,
        Listing::BufferPoolStats,
        Listing::BufferPoolPagesIndex,
        Listing::SysTables,
        Listing::SysIndexes,
        Listing::Trx,
        Listing::Locks,
        Listing::LockWaits,
        Listing::Metrics,
    ];

    /// Its name, without any prefix.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Listing::BufferPage => "BUFFER_PAGE",
            Listing::BufferPoolStats => "BUFFER_POOL_STATS",
            Listing::BufferPoolPagesIndex => "BUFFER_POOL_PAGES_INDEX",
            Listing::SysTables => "SYS_TABLES",
            Listing::SysIndexes => "SYS_INDEXES",
            Listing::Trx => "TRX",
            Listing::Locks => "LOCKS",
            Listing::LockWaits => "LOCK_WAITS",
            Listing::Metrics => "METRICS",
        }
    }

    /// Its columns; a row has a cell for each.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Listing::BufferPage => pool::PAGE,
            Listing::BufferPoolStats => pool::STATS,
            Listing::BufferPoolPagesIndex => pool::PAGES_INDEX,
            Listing::SysTables => definitions::TABLES,
            Listing::SysIndexes => definitions::INDEXES,
            Listing::Trx => transactions::TRX,
            Listing::Locks => transactions::LOCKS,
            Listing::LockWaits => transactions::LOCK_WAITS,
            Listing::Metrics => values::METRICS,
        }
    }
}

impl Database {
    /// Calls `each` with every row of a listing, until it returns false.
    pub fn list(&self, listing: Listing, each: &mut dyn FnMut(&[Cell<'_>]) -> bool) {
        let shared = &self.shared;
        match listing {
            Listing::BufferPage => pool::pages(shared, each),
            Listing::BufferPoolStats => pool::stats(shared, each),
            Listing::BufferPoolPagesIndex => pool::pages_of_indexes(shared, each),
            Listing::SysTables => definitions::tables(shared, each),
            Listing::SysIndexes => definitions::indexes(shared, each),
            Listing::Trx => transactions::transactions(shared, each),
            Listing::Locks => transactions::locks(shared, each),
            Listing::LockWaits => transactions::lock_waits(shared, each),
            Listing::Metrics => values::metrics(shared, each),
        }
    }
}
