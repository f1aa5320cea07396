//! Holdfast: a transactional storage engine whose cache cannot be washed out.
#![forbid(unsafe_code)]

mod backup;
mod catalog;
mod compact;
mod core;
mod database;
mod ddl;
mod definition;
mod index;
mod meta;
mod open;
mod options;
mod range;
mod salvage;
mod schema;
mod settings;
mod stats;
mod status;
mod table;
mod transaction;
mod types;
mod verify;

pub use backup::{BackupOptions, BackupProgress, BackupReport};
pub use compact::CompactReport;
pub use database::{Database, IndexInfo, TableInfo};
pub use definition::{Extractor, IndexDefinition, IndexKeys, TableDefinition};
pub use index::{Entry, Index, IndexEntries, IndexRange, IndexedRow};
pub use options::{FlushAtCommit, Isolation, ReadOptions, Scan, WaitMode, WriteOptions};
pub use range::{Cursor, Range};
pub use salvage::SalvageReport;
pub use settings::{Builder, RecoveryProgress, ReplacementPolicy};
pub use stats::{
    CacheStats, IndexStats, LogStats, MemoryStats, SpaceStats, Stats, TableStats, TransactionStats, WaitStats,
};
pub use table::{ReadTable, Row, Table};
pub use transaction::{ReadTransaction, Savepoint, WriteTransaction};
pub use types::{Key, Value};
pub use verify::{Finding, VerifyOptions, VerifyProgress, VerifyReport};

pub use holdfast_base::{Error, Result, limits};
pub use holdfast_io as io;
pub use holdfast_io::{Clock, Disk, FlushMethod};
pub use holdfast_metrics as metrics;
