//! The compared engines, and the server options for each: the same cache, past the operating
//! system's cache, durable at every commit, and without a binary log.

use std::fmt;

/// An engine with the setting that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// All defaults.
    Holdfast,
    /// With this `innodb_old_blocks_time`, in milliseconds.
    InnoDb {
        /// Milliseconds.
        old_blocks_time_ms: u32,
    },
    /// An LSM tree with a block cache.
    MyRocks,
}

/// InnoDB with the default `innodb_old_blocks_time`.
pub const INNODB: Contender = Contender::InnoDb { old_blocks_time_ms: 1000 };

/// The engine's name in texts.
pub fn engine_name(contender: Contender) -> String {
    match contender {
        Contender::InnoDb { .. } => "InnoDB".to_owned(),
        other => other.to_string(),
    }
}

/// The engines by the names of `--engines`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// With `old_blocks_time` 0 and with its default.
    Innodb,
    /// From its own package.
    Myrocks,
    /// This project's engine.
    Holdfast,
}

impl Engine {
    /// The contenders of the engine.
    pub fn contenders(self, old_blocks_time_ms: u32) -> Vec<Contender> {
        match self {
            Engine::Innodb => [0, old_blocks_time_ms].map(|ms| Contender::InnoDb { old_blocks_time_ms: ms }).to_vec(),
            Engine::Myrocks => vec![Contender::MyRocks],
            Engine::Holdfast => vec![Contender::Holdfast],
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Holdfast => f.write_str("holdfast"),
            Contender::InnoDb { old_blocks_time_ms } => write!(f, "InnoDB (old_blocks_time {old_blocks_time_ms} ms)"),
            Contender::MyRocks => f.write_str("MyRocks"),
        }
    }
}

/// The free frames that InnoDB keeps at all times with a pool of the published size.
const LRU_SCAN_DEPTH: f64 = 1536.0;
/// The least value that InnoDB accepts.
pub(super) const LRU_SCAN_DEPTH_MIN: f64 = 100.0;

impl Contender {
    /// Its engine, without the setting.
    pub fn kind(self) -> Engine {
        match self {
            Contender::Holdfast => Engine::Holdfast,
            Contender::InnoDb { .. } => Engine::Innodb,
            Contender::MyRocks => Engine::Myrocks,
        }
    }

    /// The class of its colour in charts.
    pub fn tone(self) -> &'static str {
        match self {
            Contender::Holdfast => "holdfast",
            Contender::InnoDb { old_blocks_time_ms: 0 } => "midpoint-0",
            Contender::InnoDb { .. } => "midpoint",
            Contender::MyRocks => "myrocks",
        }
    }

    /// The name in `ENGINE=`.
    pub fn engine(self) -> &'static str {
        match self.kind() {
            Engine::Holdfast => "HOLDFAST",
            Engine::Innodb => "InnoDB",
            Engine::Myrocks => "ROCKSDB",
        }
    }

    /// The name of a variable of the engine, given without the engine's prefix.
    pub fn variable(self, name: &str) -> String {
        format!("{}_{name}", self.engine().to_lowercase())
    }

    /// Options of a server whose cache for this engine has `pool_bytes`. Sizes are divided by
    /// `size`, which keeps the share of a small pool that InnoDB keeps free.
    pub fn options(self, pool_bytes: u64, size: f64) -> Vec<String> {
        let mut options: Vec<String> = COMMON.iter().chain(&READS_BY_FILE).map(|o| (*o).to_owned()).collect();
        // The engines that are not measured get next to nothing.
        let innodb = if matches!(self, Contender::InnoDb { .. }) { pool_bytes } else { SMALLEST };
        let holdfast = if self == Contender::Holdfast { pool_bytes } else { SMALLEST };
        options.push(format!("--innodb-buffer-pool-size={innodb}"));
        options.push(format!("--loose-holdfast-buffer-pool-size={holdfast}"));
        match self {
            Contender::Holdfast => {}
            Contender::InnoDb { old_blocks_time_ms } => {
                let depth = (LRU_SCAN_DEPTH / size).max(LRU_SCAN_DEPTH_MIN);
                options.push(format!("--innodb-lru-scan-depth={depth:.0}"));
                options.push(format!("--innodb-old-blocks-time={old_blocks_time_ms}"));
            }
            Contender::MyRocks => {
                options.extend(ROCKS.iter().map(|o| (*o).to_owned()));
                options.push(format!("--rocksdb-block-cache-size={pool_bytes}"));
            }
        }
        options
    }

    /// Options for reads and writes through the system's cache.
    pub fn buffered(self) -> [&'static str; 2] {
        match self {
            Contender::Holdfast | Contender::InnoDb { .. } => {
                ["--innodb-flush-method=fsync", "--loose-holdfast-flush-method=fsync"]
            }
            Contender::MyRocks => {
                ["--rocksdb-use-direct-reads=OFF", "--rocksdb-use-direct-io-for-flush-and-compaction=OFF"]
            }
        }
    }

    /// Statements after the tables were loaded: they bring everything to where it is on a server
    /// that has run for long.
    pub fn settle(self) -> &'static [&'static str] {
        match self {
            Contender::Holdfast | Contender::InnoDb { .. } => &[],
            Contender::MyRocks => {
                &["SET GLOBAL rocksdb_force_flush_memtable_now = 1", "SET GLOBAL rocksdb_compact_cf = 'default'"]
            }
        }
    }

    /// The meaning of the figures "hot reads" and "MB resident" for this engine.
    pub fn how_it_is_counted(self) -> &'static str {
        match self {
            Contender::Holdfast => {
                "Holdfast: pages read because a statement waited for them, and resident pages, by index, from \
                 information_schema.HOLDFAST_SYS_INDEXES"
            }
            Contender::InnoDb { .. } => {
                "InnoDB: reads of the table's file from performance_schema.file_summary_by_instance (read-ahead \
                 included); resident pages by index from information_schema.INNODB_BUFFER_PAGE"
            }
            Contender::MyRocks => {
                "MyRocks: blocks read from files for the table (ROCKSDB_PERF_CONTEXT, BLOCK_READ_COUNT); its block \
                 cache does not say whose blocks it holds"
            }
        }
    }
}

/// The least size of a pool that both page engines accept.
pub const SMALLEST: u64 = 6 << 20;

/// Options of every server. Flush methods and durability are the defaults, and stated nevertheless.
const COMMON: [&str; 11] = [
    "--skip-log-bin",
    "--query-cache-type=0",
    "--innodb-flush-method=O_DIRECT",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-load-at-startup=0",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--loose-holdfast-flush-method=O_DIRECT",
    "--loose-holdfast-flush-log-at-trx-commit=1",
    "--loose-holdfast-buffer-pool-load-at-startup=0",
    "--table-open-cache=100",
    "--skip-name-resolve",
];

/// Options for one counter only: reads by file.
pub(super) const READS_BY_FILE: [&str; 4] = [
    "--performance-schema=ON",
    "--performance-schema-instrument=%=OFF",
    "--performance-schema-instrument=wait/io/file/innodb/innodb_data_file=ON",
    "--performance-schema-consumer-global-instrumentation=ON",
];

const ROCKS: [&str; 6] = [
    "--plugin-load-add=ha_rocksdb.so",
    "--rocksdb-use-direct-reads=ON",
    "--rocksdb-use-direct-io-for-flush-and-compaction=ON",
    "--rocksdb-flush-log-at-trx-commit=1",
    // Counts of reads by table, without times.
    "--rocksdb-perf-context-level=2",
    "--rocksdb-max-open-files=-1",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_the_measured_engines() {
        let options = Contender::Holdfast.options(64 << 20, 8.0);
        assert!(options.contains(&"--loose-holdfast-buffer-pool-size=67108864".to_owned()));
        assert!(options.contains(&"--innodb-buffer-pool-size=6291456".to_owned()));
        let options = Contender::InnoDb { old_blocks_time_ms: 125 }.options(64 << 20, 8.0);
        assert!(options.contains(&"--innodb-buffer-pool-size=67108864".to_owned()));
        assert!(options.contains(&"--innodb-lru-scan-depth=192".to_owned()));
        assert!(
            Contender::InnoDb { old_blocks_time_ms: 0 }
                .options(1 << 23, 64.0)
                .contains(&"--innodb-lru-scan-depth=100".to_owned())
        );
    }
}
