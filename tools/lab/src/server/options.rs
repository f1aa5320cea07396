//! The options that a server of the lab's own is started with for an experiment in turns: a private
//! one, and one as it was released.

use holdfast_server::Release;
use holdfast_testkit::DiskModel;

use super::contender::{self, Contender};

/// The settings of a server of the lab's own.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Size of the cache, in bytes.
    pub pool_bytes: u64,
    /// Capacity of the redo log, in bytes; `None` for the default.
    pub log_bytes: Option<u64>,
    /// The divisor of the published pool.
    pub size: f64,
    /// True if files are read and written through the system's cache instead of past it.
    pub buffered: bool,
    /// The modelled disk, if there is one. It is as fast as the real one
    /// until its log is filled.
    pub modelled: Option<DiskModel>,
    /// Size of the query cache of a release, in bytes; `None` for none of its own.
    pub query_cache_bytes: Option<u64>,
}

/// The published pool, in bytes: the defaults that are numbers of pages or times are divided by its
/// ratio to the pool.
const PUBLISHED_POOL: f64 = (512u64 << 20) as f64;
const O_DIRECT: &str = "--innodb-flush-method=O_DIRECT";
const THROUGH_THE_CACHE: &str = "--innodb-flush-method=fsync";

/// Options of a private server whose tables are in `contender`.
pub(super) fn of_private(contender: Contender, settings: &Settings) -> Vec<String> {
    let mut options = contender.options(settings.pool_bytes, settings.size);
    options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
    if settings.buffered {
        options.extend(contender.buffered().map(str::to_owned));
    }
    if let Some(bytes) = settings.log_bytes {
        options.push(format!("--innodb-log-file-size={bytes}"));
        options.push(format!("--loose-holdfast-log-file-size={bytes}"));
    }
    options
}

/// Options for an experiment in turns: caches and logs of its sizes, many sessions.
pub(super) fn of_release(server: Release, settings: &Settings) -> Vec<String> {
    let mut options = with_pool(server, settings.pool_bytes);
    options.extend(settings.log_bytes.map(|bytes| server.with_redo_log(bytes)));
    options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
    match (settings.buffered, server.is_historic()) {
        (false, true) => options.push(O_DIRECT.to_owned()),
        (true, false) => options.iter_mut().filter(|o| *o == O_DIRECT).for_each(|o| *o = THROUGH_THE_CACHE.to_owned()),
        _ => {}
    }
    options.extend(settings.query_cache_bytes.into_iter().flat_map(with_query_cache));
    options
}

/// Options of a server with a query cache of that many bytes.
pub fn with_query_cache(bytes: u64) -> [String; 2] {
    ["--query-cache-type=1".to_owned(), format!("--query-cache-size={bytes}")]
}

/// Options for a pool of that size, with what makes a server of today comparable.
pub(crate) fn with_pool(server: Release, pool_bytes: u64) -> Vec<String> {
    let mut options = vec![format!("--innodb-buffer-pool-size={pool_bytes}")];
    if server.is_historic() {
        return options;
    }
    let depth = server.lru_scan_depth().map(|pages| f64::from(pages) / size(pool_bytes));
    options
        .extend(depth.map(|pages| format!("--innodb-lru-scan-depth={:.0}", pages.max(contender::LRU_SCAN_DEPTH_MIN))));
    let comparable = [
        "--skip-log-bin",
        O_DIRECT,
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-load-at-startup=0",
        "--innodb-buffer-pool-dump-at-shutdown=0",
    ];
    options.extend(comparable.iter().chain(&contender::READS_BY_FILE).map(|option| (*option).to_owned()));
    options
}

/// How many times smaller than published a pool is; 1 for a larger one.
pub(crate) fn size(pool_bytes: u64) -> f64 {
    (PUBLISHED_POOL / pool_bytes as f64).max(1.0)
}

/// Options for hundreds of sessions that connect at the same moment, the same for all engines.
const FOR_MANY_SESSIONS: [&str; 6] = [
    "--skip-networking",
    "--max-connections=1100",
    "--back-log=1100",
    "--table-open-cache=8000",
    "--thread-cache-size=300",
    "--max-prepared-stmt-count=100000",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_the_published_experiments_keeps_its_defaults() {
        assert_eq!(with_pool(Release::Mysql55, 32 << 20), ["--innodb-buffer-pool-size=33554432"]);
    }

    #[test]
    fn a_server_of_today_is_made_comparable() {
        let options = with_pool(Release::MariaDb118, 128 << 20);
        for option in ["--innodb-lru-scan-depth=384", "--skip-log-bin", O_DIRECT] {
            assert!(options.iter().any(|o| o == option), "{option} is not in {options:?}");
        }
        assert!(with_pool(Release::Mysql97, 8 << 20).contains(&"--innodb-lru-scan-depth=100".to_owned()));
        assert!(with_pool(Release::Mysql80, 4 << 30).contains(&"--innodb-lru-scan-depth=1024".to_owned()));
    }

    #[test]
    fn files_are_written_past_the_systems_cache_or_through_it() {
        let methods = |server| {
            [false, true].map(|buffered| {
                let settings = Settings { pool_bytes: 8 << 20, buffered, ..Settings::default() };
                let options = of_release(server, &settings);
                options.into_iter().filter(|option| option.contains("flush-method")).collect::<Vec<_>>()
            })
        };
        assert_eq!(methods(Release::MariaDb118), [[O_DIRECT], [THROUGH_THE_CACHE]]);
        assert_eq!(methods(Release::Mysql55), [vec![O_DIRECT], vec![]], "through it by default");
    }
}
