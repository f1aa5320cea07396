//! The experiments on other servers as they were released: downloaded, started, and removed at the
//! end.
//!
//! The servers of the published experiments run with their own defaults. Those of today get what
//! makes them comparable: files past the system's cache, no binary log, no warm-up, and the share
//! of a small pool that InnoDB keeps free. The report lists every option.

use anyhow::{Result, ensure};
use holdfast_server::{Cache, Release, ReleasedServer, apt};
use serde_json::json;

use super::address::Address;
use super::contender::{self, Contender, Engine};
use super::named::ServerWithSchema;
use super::turns::Place;
use super::turns::running::{self, What};
use super::turns::side::FOR_MANY_SESSIONS;
use crate::document::Document;
use crate::experiments::querycache;
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::servers::foreign;
use crate::experiments::sideload::servers::runs::Options;
use crate::pin::{Cores, Role};
use crate::progress::Progress;

/// The published pool, in bytes: the defaults that are numbers of pages or times are divided by its
/// ratio to the pool.
const PUBLISHED_POOL: f64 = (512u64 << 20) as f64;
/// The default `innodb_old_blocks_time`, in milliseconds.
const OLD_BLOCKS_TIME_MS: f64 = 1000.0;

/// Runs sideload on `server` with a pool of `pool_bytes`.
///
/// # Errors
/// If the server is not available or does not start; those of the experiment.
pub fn sideload(
    server: Release,
    pool_bytes: u64,
    cores: &Cores,
    make: &dyn Fn(Scale, f64, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<(Document, String)> {
    let mut options = with_pool(server, pool_bytes);
    if !server.is_historic() {
        // The dump takes less time too.
        options.push(format!("--innodb-old-blocks-time={:.0}", OLD_BLOCKS_TIME_MS / size(pool_bytes)));
    }
    let (_running, address) = start(server, &options, cores, progress)?;
    let done = foreign::run(server.name(), &address, Engine::Innodb, None, make, progress)?;
    Ok(with_options(done, server, &options))
}

/// Runs one of the other experiments on `server`, with a cache, a redo log and a query cache of the
/// experiment's size and with O_DIRECT.
///
/// # Errors
/// If the server is not available or does not start, or lacks what the experiment measures.
pub fn in_turns(server: Release, mut what: What, progress: &mut Progress) -> Result<(Document, String)> {
    ensure!(
        what.query_cache_bytes().is_none() || server.has_query_cache(),
        "{} has no query cache; MySQL has none since 8.0",
        server.name()
    );
    let mut options = with_pool(server, what.pool_bytes());
    options.extend(what.log_bytes().map(|bytes| server.with_redo_log(bytes)));
    options.extend(what.query_cache_bytes().into_iter().flat_map(querycache::with_query_cache));
    options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
    if server.is_historic() {
        options.push(O_DIRECT.to_owned());
    }
    let (running, address) = start(server, &options, &what.plan().cores, progress)?;
    let place = |on_server: &ServerWithSchema| Place {
        target: server.target(),
        words: format!("on {} with a cache of {} MB", server.name(), on_server.pool_bytes >> 20),
        pool_bytes: Some(on_server.pool_bytes),
        pid: running.pid(),
        ..Place::private()
    };
    let done = running::run_at(what, &address, Engine::Innodb, &place, progress)?;
    Ok(with_options(done, server, &options))
}

const O_DIRECT: &str = "--innodb-flush-method=O_DIRECT";

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
fn size(pool_bytes: u64) -> f64 {
    (PUBLISHED_POOL / pool_bytes as f64).max(1.0)
}

/// Adds the options that the server was started with to a document and its text.
pub(crate) fn with_options(
    (mut document, mut text): (Document, String),
    server: Release,
    options: &[String],
) -> (Document, String) {
    let options = options.join(" ");
    text.push_str(&format!("\n{} was started with {options}; all other settings are its defaults.\n", server.name()));
    document.settings.insert("options_of_the_server".to_owned(), json!(options));
    (document, text)
}

/// A server that runs until the first value is dropped.
pub(crate) fn start(
    server: Release,
    options: &[String],
    cores: &Cores,
    progress: &mut Progress,
) -> Result<(ReleasedServer, Address)> {
    let cache = Cache::of_the_project();
    progress.step(server.name());
    // Its programs need libraries that come with today's server, and its clients are of that.
    apt::fetch(&cache)?;
    server.fetch(&cache)?;
    let dump = server.dump_program(&cache)?;
    cores.pin(Role::Server);
    let running = server.start(&cache, options);
    cores.pin(Role::Clients);
    let running = running?;
    let socket = running.socket_path();
    let address = match dump {
        Some(dump) => Address::Released { socket, dump },
        None => Address::Socket(socket),
    };
    Ok((running, address))
}

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
}
