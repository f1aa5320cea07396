//! What a database is opened on: settings, disk, clock, and the parts that are made of them.

use std::sync::Arc;

use holdfast_base::{Result, SpaceId};
use holdfast_io::{Clock, DirLockMode, Disk, Lease, LeasedDisk, MeteredDisk, RealClock};
use holdfast_metrics::Metrics;
use holdfast_pool::{Pool, PoolConfig};
use holdfast_tree::Store;
use holdfast_txn::TxnConfig;
use holdfast_wal::{Wal, WalConfig};

use crate::instance::settings::{Builder, policy_kind};

/// The space of the catalog, and its file.
pub(crate) const SYSTEM: (SpaceId, &str) = (SpaceId(0), "system.hf");
/// The space of the undo logs and the version tree, and its file.
pub(crate) const UNDO: (SpaceId, &str) = (SpaceId(1), "undo.hf");
/// The file in which the pool keeps images of pages that it writes.
pub(crate) const DOUBLEWRITE: &str = "doublewrite";

/// What is known before the files are opened.
pub(crate) struct Environment {
    pub settings: Builder,
    pub disk: Arc<dyn Disk>,
    pub lease: Arc<Lease>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub read_only: bool,
}

/// The double-write file grows to the log's capacity, because its images are of use until the next
/// checkpoint, and no further than this: it is read when the database is opened.
const DOUBLEWRITE_MAX: u64 = 128 << 20;

impl Environment {
    pub fn new(settings: &Builder, disk: Arc<dyn Disk>, read_only: bool) -> Result<Environment> {
        let disk = LeasedDisk::new(disk, if read_only { DirLockMode::Shared } else { DirLockMode::Exclusive })?;
        let lease = Arc::clone(disk.lease());
        let clock = settings.clock.clone().unwrap_or_else(|| Arc::new(RealClock::new()));
        let metrics = Metrics::new();
        let disk = Arc::new(MeteredDisk::new(Arc::new(disk), Arc::clone(&metrics)));
        Ok(Environment { settings: settings.clone(), disk, lease, clock, metrics, read_only })
    }

    pub fn wal_config(&self, page_size: usize) -> WalConfig {
        WalConfig {
            capacity_bytes: self.settings.log_capacity_bytes,
            buffer_bytes: self.settings.log_buffer_bytes as usize,
            page_size: page_size as u32,
            ..WalConfig::default()
        }
    }

    pub fn txn_config(&self, page_size: usize) -> TxnConfig {
        let config = TxnConfig::default();
        // A small transaction's undo log takes a page: those that wait for purge must not fill the
        // cache.
        let pages = usize::try_from(self.settings.cache_size_bytes / page_size as u64).unwrap_or(usize::MAX);
        TxnConfig {
            purge_help_above: config.purge_help_above.min(pages / 8),
            purge_wait_above: config.purge_wait_above.min(pages / 2),
            shelf_bytes: (self.settings.cache_size_bytes / 8).min(config.shelf_bytes),
            lock_memory: self.settings.lock_memory_bytes,
            lock_wait_timeout: self.settings.lock_wait_timeout,
            max_old_versions: self.settings.version_limit_bytes,
            max_undo_per_txn: self.settings.undo_limit_bytes,
            ..config
        }
    }

    pub fn store(&self, page_size: usize, wal: &Arc<Wal>) -> Result<Arc<Store>> {
        let mut config = PoolConfig::new(Arc::clone(&self.disk), page_size, self.settings.cache_size_bytes);
        config.populate = self.settings.populate_cache;
        config.max_bytes = self.settings.cache_max();
        config.policy = policy_kind(self.settings.policy);
        config.clock = Arc::clone(&self.clock);
        config.doublewrite_bytes = self.settings.log_capacity_bytes.min(DOUBLEWRITE_MAX);
        let pool = Pool::new(config, Arc::clone(wal), Arc::clone(&self.metrics))?;
        Ok(Store::new(pool, Arc::clone(wal), Arc::clone(&self.metrics)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_files_of_spaces() {
        for (space, name) in [SYSTEM, UNDO] {
            assert_eq!(space.file_name(), name);
        }
    }
}
