//! The experiments in turns on a running server: one engine, in a schema that the lab creates and
//! drops.
//!
//! The server is neither restarted nor configured: its cache, its redo log and its durability are
//! its own, and the report lists them. With one server there is no ratio and no verdict. The
//! counters give findings as sentences, with the settings that would help.

use anyhow::{Context, Result};
use holdfast_server::{Cache, apt};
use serde_json::{Map, Value, json};

use super::side::{Running, Side};
use super::{Findings, Place, Plan, engine_name};
use crate::document::Document;
use crate::experiments::overflow::servers as overflow;
use crate::experiments::{flush, freepages, purge, querycache, sessions};
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server::address::Address;
use crate::server::contender::{Contender, Engine};
use crate::server::health::Health;
use crate::server::named::{NamedServer, ServerWithSchema};

/// An experiment with its sizes; cores and engines of its plan do not count.
pub enum What {
    /// See [`sessions`].
    Sessions(sessions::Options),
    /// See [`purge`].
    Purge(purge::Options),
    /// See [`flush`].
    Flush(flush::Options),
    /// See [`freepages`].
    Freepages(freepages::Options),
    /// See [`overflow`].
    Overflow {
        /// Its options; the rows follow from the server's cache.
        options: overflow::Options,
        /// True if the cache may have any size.
        any_pool: bool,
    },
    /// See [`querycache`].
    Querycache(querycache::Options),
}

impl What {
    /// Its plan.
    pub fn plan(&mut self) -> &mut Plan {
        match self {
            What::Sessions(options) => &mut options.plan,
            What::Purge(options) => &mut options.plan,
            What::Flush(options) => &mut options.plan,
            What::Freepages(options) => &mut options.plan,
            What::Overflow { options, .. } => &mut options.plan,
            What::Querycache(options) => &mut options.plan,
        }
    }

    /// The cache of a released server that is started for it, in bytes.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        match self {
            What::Sessions(options) => options.workload.bytes(),
            What::Purge(options) => options.pool_bytes,
            What::Flush(options) => options.workload.bytes(),
            What::Freepages(options) => options.pool_bytes(),
            What::Overflow { options, .. } => overflow::pool_for(options),
            What::Querycache(options) => querycache::pool_bytes(options),
        }
    }

    /// The capacity of the redo log, in bytes, if the experiment sets it: the first of several.
    #[must_use]
    pub fn log_bytes(&self) -> Option<u64> {
        match self {
            What::Flush(options) => options.capacities.first().copied(),
            What::Freepages(options) => Some(options.log_bytes),
            What::Sessions(_) | What::Purge(_) | What::Overflow { .. } | What::Querycache(_) => None,
        }
    }

    /// The size of the query cache, in bytes, if the experiment sets it.
    #[must_use]
    pub fn query_cache_bytes(&self) -> Option<u64> {
        match self {
            What::Querycache(options) => Some(options.cache_bytes),
            _ => None,
        }
    }

    /// The names of the sides as which the server with this engine is measured.
    fn sides(&self, engine: String) -> Vec<String> {
        match self {
            What::Querycache(_) => querycache::SIDES.map(str::to_owned).to_vec(),
            _ => vec![engine],
        }
    }
}

/// Runs it on the server at `address` that the user names, with the tables in `engine`. Returns the
/// document and what is printed.
///
/// # Errors
/// If the server cannot be reached, has a schema of that name, or refuses what the experiment
/// needs; if sysbench is not available.
pub fn run(mut what: What, address: &Address, engine: Engine, progress: &mut Progress) -> Result<(Document, String)> {
    what.plan().cores = Cores::new(false);
    run_at(what, address, engine, &place_of, progress)
}

/// Runs it on the server at `address`, which `place` describes.
///
/// # Errors
/// As [`run`].
pub(in crate::server) fn run_at(
    mut what: What,
    address: &Address,
    engine: Engine,
    place: &dyn Fn(&ServerWithSchema) -> Place,
    progress: &mut Progress,
) -> Result<(Document, String)> {
    let cache = Cache::of_the_project();
    let named = NamedServer::reach(address, engine)?;
    apt::fetch(&cache).context("sysbench is fetched by apt, and its library comes with MariaDB")?;
    apt::fetch_sysbench(&cache)?;
    what.plan().contenders = vec![named.contender];
    let on_server = named.begin()?;
    let measured = measure(&mut what, &on_server, place(&on_server), &cache, progress);
    on_server.end()?;
    measured
}

/// Measures. The connections are closed when this returns, so that the schema can be dropped.
fn measure(
    what: &mut What,
    on_server: &ServerWithSchema,
    place: Place,
    cache: &Cache,
    progress: &mut Progress,
) -> Result<(Document, String)> {
    let plan = what.plan().clone();
    let mut sides = Vec::new();
    for name in what.sides(engine_name(on_server.contender)) {
        let running = Running { address: on_server.address.clone(), conn: on_server.connect()?, pid: place.pid };
        sides.push(Side::of_running_server(cache, &plan.cores, &name, on_server.contender, running));
    }
    let mut findings: Findings = match what {
        What::Sessions(options) => sessions::on_running_server(options, on_server, place, &mut sides, progress)?,
        What::Purge(options) => purge::on_running_server(options, place, &mut sides, progress)?,
        What::Flush(options) => flush::on_running_server(options, on_server, place, &mut sides, progress)?,
        What::Freepages(options) => freepages::on_running_server(options, on_server, place, &mut sides, progress)?,
        What::Overflow { options, any_pool } => {
            overflow::on_running_server(options, *any_pool, place, &mut sides, progress)?
        }
        What::Querycache(options) => {
            querycache::on_running_server(options, on_server, place, cache, &mut sides, progress)?
        }
    };
    findings.words.extend(on_server.findings()?);
    let (mut document, text) = findings.report(&plan, &sides);
    document.settings.insert("server".to_owned(), Value::Object(settings(&on_server.before, on_server.contender)));
    Ok((document, text))
}

fn place_of(on_server: &ServerWithSchema) -> Place {
    let version = on_server.before.setting("version").unwrap_or("of unknown version");
    let (name, pool) = (engine_name(on_server.contender), on_server.pool_bytes);
    Place {
        target: "dsn",
        words: format!("on a running server ({version}, {name}, a cache of {} MB), as it is set up", pool >> 20),
        conditions: "as the server has it".to_owned(),
        pool_bytes: Some(pool),
        ..Place::private()
    }
}

/// Variables of the server that a report lists.
const SETTINGS: [&str; 7] =
    ["version", "version_comment", "max_connections", "log_bin", "sync_binlog", "query_cache_type", "query_cache_size"];
/// Variables of the engine, without its prefix; not every engine has all of them.
const OF_ENGINE: [&str; 11] = [
    "buffer_pool_size",
    "block_cache_size",
    "flush_log_at_trx_commit",
    "flush_method",
    "log_file_size",
    "log_files_in_group",
    "redo_log_capacity",
    "io_capacity",
    "lru_scan_depth",
    "purge_threads",
    "old_blocks_time",
];

/// The variables of the server that a reader has to know.
fn settings(server: &Health, contender: Contender) -> Map<String, Value> {
    let prefix = match contender {
        Contender::Holdfast => "holdfast",
        Contender::InnoDb { .. } => "innodb",
        Contender::MyRocks => "rocksdb",
    };
    let of_engine = OF_ENGINE.iter().map(|name| format!("{prefix}_{name}"));
    let names = SETTINGS.iter().map(|name| (*name).to_owned()).chain(of_engine);
    names.filter_map(|name| server.setting(&name).map(|value| (name.clone(), json!(value)))).collect()
}
