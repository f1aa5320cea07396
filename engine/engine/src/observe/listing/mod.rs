//! Listings: what the database is doing, as tables of named columns, for programs that show them as
//! such: a server's INFORMATION_SCHEMA. Names of listings and columns are InnoDB's wherever the
//! meaning is the same; what it has and this engine does not is left out.
//!
//! A listing is no snapshot: rows are looked at one after the other while the database goes on.

mod cells;
mod definitions;
mod pool;
mod transactions;
mod values;

use cells::EachRow;
pub use cells::{Cell, Column, ColumnType};

use crate::instance::Instance;

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

    /// Calls `each` with every row, until it returns false.
    pub(crate) fn list(self, instance: &Instance, each: &mut EachRow<'_>) {
        match self {
            Listing::BufferPage => pool::pages(instance, each),
            Listing::BufferPoolStats => pool::stats(instance, each),
            Listing::BufferPoolPagesIndex => pool::pages_of_indexes(instance, each),
            Listing::SysTables => definitions::tables(instance, each),
            Listing::SysIndexes => definitions::indexes(instance, each),
            Listing::Trx => transactions::transactions(instance, each),
            Listing::Locks => transactions::locks(instance, each),
            Listing::LockWaits => transactions::lock_waits(instance, each),
            Listing::Metrics => values::metrics(instance, each),
        }
    }
}
