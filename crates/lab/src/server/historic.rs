//! The experiments on the servers of the published experiments: downloaded, started, and removed at
//! the end.

use anyhow::Result;
use holdfast_server::{Cache, Historic, HistoricServer, apt};

use super::address::Address;
use super::contender::{Contender, Engine};
use super::foreign;
use super::named::ServerWithSchema;
use super::querycache;
use super::sideload::Options;
use super::turns::Place;
use super::turns::running::{self, What};
use super::turns::side::FOR_MANY_SESSIONS;
use crate::document::Document;
use crate::experiments::sideload::scale::Scale;
use crate::pin::{Cores, Role};
use crate::progress::Progress;

/// Runs sideload on `server` with a pool of `pool_bytes` and all other defaults.
///
/// # Errors
/// If the server is not available or does not start; those of the experiment.
pub fn sideload(
    server: Historic,
    pool_bytes: u64,
    cores: &Cores,
    make: &dyn Fn(Scale, f64, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<(Document, String)> {
    let options = [format!("--innodb-buffer-pool-size={pool_bytes}")];
    let (_running, address) = start(server, &options, cores, progress)?;
    let name = format!("{} with its own defaults", server.name());
    foreign::run(&name, &address, Engine::Innodb, None, make, progress)
}

/// Runs one of the other experiments on `server`, with a cache, a redo log and a query cache of the
/// experiment's size and with O_DIRECT. Every other setting is the default.
///
/// # Errors
/// If the server is not available or does not start; those of the experiment.
pub fn in_turns(server: Historic, mut what: What, progress: &mut Progress) -> Result<(Document, String)> {
    let mut options = vec![format!("--innodb-buffer-pool-size={}", what.pool_bytes())];
    // Its redo log has two files.
    options.extend(what.log_bytes().map(|bytes| format!("--innodb-log-file-size={}", bytes / 2)));
    options.extend(what.query_cache_bytes().into_iter().flat_map(querycache::with_query_cache));
    options.extend(FOR_MANY_SESSIONS.map(str::to_owned));
    options.push("--innodb-flush-method=O_DIRECT".to_owned());
    let (running, address) = start(server, &options, &what.plan().cores, progress)?;
    let place = |on_server: &ServerWithSchema| Place {
        target: server.target(),
        words: format!("on {} with a cache of {} MB", server.name(), on_server.pool_bytes >> 20),
        pool_bytes: Some(on_server.pool_bytes),
        pid: running.pid(),
        ..Place::private()
    };
    running::run_at(what, &address, Engine::Innodb, &place, progress)
}

/// A server that runs until the first value is dropped.
pub(super) fn start(
    server: Historic,
    options: &[String],
    cores: &Cores,
    progress: &mut Progress,
) -> Result<(HistoricServer, Address)> {
    let cache = Cache::of_the_project();
    progress.step(server.name());
    // Its programs need libraries that come with today's server.
    apt::fetch(&cache)?;
    server.fetch(&cache)?;
    let dump = Historic::dump_program(&cache)?;
    cores.pin(Role::Server);
    let running = server.start(&cache, options);
    cores.pin(Role::Clients);
    let running = running?;
    let address = Address::Historic { socket: running.socket_path(), dump };
    Ok((running, address))
}
