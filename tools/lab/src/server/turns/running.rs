//! The experiments in turns on a running server: one engine, in a schema that the lab creates and
//! drops.
//!
//! The server is neither restarted nor configured: its cache, its redo log and its durability are
//! its own, and the report lists them. With one server there is no ratio and no verdict. The
//! counters give findings as sentences, with the settings that would help.

use anyhow::{Context, Result, ensure};
use holdfast_server::{Cache, apt};
use serde_json::Value;

use super::side::{Settings, Side, Up};
use super::{Findings, Place, Plan, engine_name};
use crate::document::Document;
use crate::pin::Cores;
use crate::progress::Progress;
use crate::server::address::Address;
use crate::server::contender::{Contender, Engine};
use crate::server::health::Health;
use crate::server::named::{NamedServer, ServerWithSchema};

/// An experiment in turns with its sizes, for one server; cores and engines of its plan do not
/// count.
pub trait OnServer {
    /// Its plan.
    fn plan(&mut self) -> &mut Plan;

    /// The settings of a released server that is started for it: of several the first.
    fn settings(&self) -> Settings;

    /// The names of the sides as which the server with this engine is measured.
    fn sides(&self, engine: String) -> Vec<String> {
        vec![engine]
    }

    /// Runs it there.
    fn run_there(&mut self, there: There<'_>, sides: &mut [Side<'_>], progress: &mut Progress) -> Result<Findings>;
}

/// A server that runs already, with an empty schema.
pub struct There<'s> {
    pub(crate) server: &'s ServerWithSchema,
    pub(crate) place: Place,
    pub(crate) cache: &'s Cache,
}

/// The largest cache for which tables are made without `--full`.
const LARGEST_POOL: u64 = 1 << 30;

impl There<'_> {
    /// The size of the server's cache, if `plan` allows tables of `times` that size. Those for a
    /// large one may fill the disk of a user's server, so they have to be asked for.
    pub(crate) fn pool_bytes(&self, times: f64, plan: &Plan) -> Result<u64> {
        let pool = self.server.pool_bytes;
        ensure_size(pool, times, plan.any_size)?;
        Ok(pool)
    }
}

fn ensure_size(pool: u64, times: f64, any_size: bool) -> Result<()> {
    ensure!(
        any_size || pool <= LARGEST_POOL,
        "the server's cache has {} MB, and the tables would have {times:.0} times as much; --full does that",
        pool >> 20
    );
    Ok(())
}

/// Runs it on the server at `address` that the user names, with the tables in `engine`.
pub fn run(what: &mut dyn OnServer, address: &Address, engine: Engine, progress: &mut Progress) -> Result<Document> {
    what.plan().cores = Cores::new(false);
    run_at(what, address, engine, &place_of, progress)
}

/// Runs it on the server at `address`, which `place` describes.
pub(in crate::server) fn run_at(
    what: &mut dyn OnServer,
    address: &Address,
    engine: Engine,
    place: &dyn Fn(&ServerWithSchema) -> Place,
    progress: &mut Progress,
) -> Result<Document> {
    let cache = Cache::of_the_project();
    let named = NamedServer::reach(address, engine)?;
    apt::fetch(&cache).context("sysbench is fetched by apt, and its library comes with MariaDB")?;
    apt::fetch_sysbench(&cache)?;
    what.plan().contenders = vec![named.contender];
    let on_server = named.begin()?;
    let measured = measure(what, &on_server, place(&on_server), &cache, progress);
    on_server.end()?;
    measured
}

/// Measures. The connections are closed when this returns, so that the schema can be dropped.
fn measure(
    what: &mut dyn OnServer,
    on_server: &ServerWithSchema,
    place: Place,
    cache: &Cache,
    progress: &mut Progress,
) -> Result<Document> {
    let plan = what.plan().clone();
    let mut sides = Vec::new();
    for name in what.sides(engine_name(on_server.contender)) {
        let up = Up { conn: on_server.connect()?, pid: place.pid };
        let running = (on_server.address.clone(), up);
        sides.push(Side::of_running_server(cache, &plan.cores, &name, on_server.contender, running));
    }
    let mut findings = what.run_there(There { server: on_server, place, cache }, &mut sides, progress)?;
    findings.words.extend(on_server.findings()?);
    let mut document = findings.report(&plan, &sides);
    document.settings["server"] = settings(&on_server.before, on_server.contender);
    Ok(document)
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
pub(crate) fn settings(server: &Health, contender: Contender) -> Value {
    let of_engine = OF_ENGINE.iter().map(|name| contender.variable(name));
    let names = SETTINGS.iter().map(|name| (*name).to_owned()).chain(of_engine);
    names.filter_map(|name| server.setting(&name).map(|value| (name.clone(), value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `freepages` filled any server with tables of three times its cache.
    #[test]
    fn tables_for_a_large_cache_have_to_be_asked_for() {
        assert!(ensure_size(LARGEST_POOL, 3.0, false).is_ok());
        assert!(ensure_size(64 << 30, 3.0, true).is_ok());
        let error = ensure_size(64 << 30, 3.0, false).unwrap_err().to_string();
        assert!(error.contains("65536 MB") && error.contains("3 times") && error.contains("--full"), "{error}");
    }
}
