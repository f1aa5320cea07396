//! A pool for the tests of this crate's own parts.

use std::sync::Arc;

use holdfast_base::SpaceId;
use holdfast_io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_wal::{Wal, WalConfig};

use crate::{Pool, PoolConfig, Space};

/// A small pool without threads of its own, its log, and the space of a new file `t16.hf`.
pub(crate) fn with_space() -> (Arc<Pool>, Arc<Wal>, Arc<Space>) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let metrics = Metrics::new();
    let wal = Wal::create(disk.clone(), [7; 16], WalConfig::default(), metrics.clone()).unwrap();
    let mut config = PoolConfig::new(disk.clone(), 16 << 10, 32 << 14);
    config.background = false;
    let pool = Pool::new(config, wal.clone(), metrics).unwrap();
    let file = disk.open("t16.hf", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    let space = pool.open_space(SpaceId(16), file).unwrap();
    (pool, wal, space)
}
