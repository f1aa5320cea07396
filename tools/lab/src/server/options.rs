//! The options that a server of the lab's own is started with: a private one, and one as it was
//! released. The cache of the compared engine has the same size on all, past the operating system's
//! cache; commits are durable, and there is no binary log.

use holdfast_server::Release;
use holdfast_testkit::DiskModel;

use super::contender::{Contender, SMALLEST};

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

/// Options of a server whose cache for the engine of `contender` has `pool_bytes`. Sizes are
/// divided by `size`, which keeps the share of a small pool that InnoDB keeps free.
pub fn of(contender: Contender, pool_bytes: u64, size: f64) -> Vec<String> {
    if let Some(release) = contender.release() {
        return with_pool(release, pool_bytes);
    }
    let common = COMMON.iter().chain(&FOR_MANY_SESSIONS).chain(&READS_BY_FILE);
    let mut options: Vec<String> = common.map(|o| (*o).to_owned()).collect();
    // The engines that are not measured get next to nothing.
    let innodb = if matches!(contender, Contender::InnoDb { .. }) { pool_bytes } else { SMALLEST };
    let holdfast = if contender == Contender::Holdfast { pool_bytes } else { SMALLEST };
    options.push(format!("--innodb-buffer-pool-size={innodb}"));
    options.push(format!("--loose-holdfast-buffer-pool-size={holdfast}"));
    match contender {
        Contender::Holdfast | Contender::Released(_) => {}
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

/// Options of a server of the lab's own whose tables are in `contender`.
pub(super) fn of_own(contender: Contender, settings: &Settings) -> Vec<String> {
    if let Some(release) = contender.release() {
        return of_release(release, settings);
    }
    let mut options = of(contender, settings.pool_bytes, settings.size);
    if settings.buffered {
        options.extend(contender.buffered().map(str::to_owned));
    }
    if let Some(bytes) = settings.log_bytes {
        options.push(format!("--innodb-log-file-size={bytes}"));
        options.push(format!("--loose-holdfast-log-file-size={bytes}"));
    }
    options
}

/// Options for sideload on a server whose tables are in `contender`; the sizes are divided by
/// `size`.
pub(crate) fn of_sideload(contender: Contender, pool_bytes: u64, size: f64) -> Vec<String> {
    let mut options = of(contender, pool_bytes, size);
    if contender.release().is_some_and(|server| !server.is_historic()) {
        // The dump takes less time too.
        options.push(format!("--innodb-old-blocks-time={:.0}", OLD_BLOCKS_TIME_MS / size));
    }
    options
}

/// The default `innodb_old_blocks_time`, in milliseconds.
const OLD_BLOCKS_TIME_MS: f64 = 1000.0;

/// Options for an experiment in turns: caches and logs of its sizes, many sessions.
pub(super) fn of_release(server: Release, settings: &Settings) -> Vec<String> {
    let mut options = with_pool(server, settings.pool_bytes);
    options.extend(settings.log_bytes.map(|bytes| server.with_redo_log(bytes)));
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

/// Options for a pool of that size and many sessions, with what makes a server of today comparable.
pub(crate) fn with_pool(server: Release, pool_bytes: u64) -> Vec<String> {
    let mut options = vec![format!("--innodb-buffer-pool-size={pool_bytes}")];
    options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
    if server.is_historic() {
        return options;
    }
    let depth = server.lru_scan_depth().map(|pages| f64::from(pages) / size(pool_bytes));
    options.extend(depth.map(|pages| format!("--innodb-lru-scan-depth={:.0}", pages.max(LRU_SCAN_DEPTH_MIN))));
    let comparable = [
        "--skip-log-bin",
        O_DIRECT,
        "--innodb-flush-log-at-trx-commit=1",
        "--innodb-buffer-pool-load-at-startup=0",
        "--innodb-buffer-pool-dump-at-shutdown=0",
    ];
    options.extend(comparable.iter().chain(&READS_BY_FILE).map(|option| (*option).to_owned()));
    options
}

/// The options that all starts have; then those of each start that not all have.
pub(crate) fn in_words(starts: &[Vec<String>]) -> String {
    let is_common = |option: &&String| starts.iter().all(|start| start.contains(option));
    let join = |options: Vec<&String>| options.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let common = join(starts.iter().take(1).flatten().filter(is_common).collect());
    let own = |start: &Vec<String>| join(start.iter().filter(|option| !is_common(option)).collect());
    let own: Vec<String> = starts.iter().map(own).filter(|own| !own.is_empty()).collect();
    if own.is_empty() { common } else { format!("{common}, and one after the other with {}", own.join("; ")) }
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

/// The free frames that InnoDB keeps at all times with a pool of the published size.
const LRU_SCAN_DEPTH: f64 = 1536.0;
/// The least value that InnoDB accepts.
const LRU_SCAN_DEPTH_MIN: f64 = 100.0;

/// Options of every server. Flush methods and durability are the defaults, and stated nevertheless.
const COMMON: [&str; 10] = [
    "--skip-log-bin",
    "--query-cache-type=0",
    "--innodb-flush-method=O_DIRECT",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-load-at-startup=0",
    "--innodb-buffer-pool-dump-at-shutdown=0",
    "--loose-holdfast-flush-method=O_DIRECT",
    "--loose-holdfast-flush-log-at-trx-commit=1",
    "--loose-holdfast-buffer-pool-load-at-startup=0",
    "--skip-name-resolve",
];

/// Options for one counter only: reads by file.
const READS_BY_FILE: [&str; 4] = [
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
        let options = of(Contender::Holdfast, 64 << 20, 8.0);
        assert!(options.contains(&"--loose-holdfast-buffer-pool-size=67108864".to_owned()));
        assert!(options.contains(&"--innodb-buffer-pool-size=6291456".to_owned()));
        let options = of(Contender::InnoDb { old_blocks_time_ms: 125 }, 64 << 20, 8.0);
        assert!(options.contains(&"--innodb-buffer-pool-size=67108864".to_owned()));
        assert!(options.contains(&"--innodb-lru-scan-depth=192".to_owned()));
        assert!(
            of(Contender::InnoDb { old_blocks_time_ms: 0 }, 1 << 23, 64.0)
                .contains(&"--innodb-lru-scan-depth=100".to_owned())
        );
    }

    #[test]
    fn a_server_of_the_published_experiments_keeps_its_defaults() {
        let mut options = with_pool(Release::Mysql55, 32 << 20);
        options.retain(|option| !FOR_MANY_SESSIONS.contains(&option.as_str()));
        assert_eq!(options, ["--innodb-buffer-pool-size=33554432"]);
    }

    /// `--threads 150` ended sideload and querycache with error 1040 of a server of the lab's own.
    #[test]
    fn every_server_has_room_for_many_sessions() {
        let [innodb, myrocks] = [Contender::InnoDb { old_blocks_time_ms: 0 }, Contender::MyRocks];
        let servers = Release::ALL.into_iter().map(Contender::Released).chain([Contender::Holdfast, innodb, myrocks]);
        for contender in servers {
            let settings = Settings { pool_bytes: 8 << 20, ..Settings::default() };
            let lists =
                [of(contender, 8 << 20, 1.0), of_sideload(contender, 8 << 20, 1.0), of_own(contender, &settings)];
            for option in FOR_MANY_SESSIONS {
                let has_it = |list: &Vec<String>| list.iter().filter(|has| *has == option).count() == 1;
                assert!(lists.iter().all(has_it), "{option} is not once in each of {lists:?}");
            }
        }
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
    fn the_options_of_several_starts_are_told_apart() {
        let start = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(in_words(&[start("a b")]), "a b");
        assert_eq!(in_words(&[start("p=1 b m"), start("p=2 b m")]), "b m, and one after the other with p=1; p=2");
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
