//! The experiments on other servers as they were released: downloaded, started, and removed at the
//! end.
//!
//! The servers of the published experiments run with their own defaults, but for the size of the
//! pool and the room for many sessions. Those of today get what makes them comparable, too: files
//! past the system's cache, no binary log, no warm-up, and the share of a small pool that InnoDB
//! keeps free. The report lists every option.

use anyhow::Result;
use holdfast_server::{Cache, Release};
use serde_json::json;

use super::contender::{Contender, Engine};
use super::named::ServerWithSchema;
use super::options::{self, size};
use super::own::OwnServer;
use super::turns::Place;
use super::turns::running::{self, OnServer};
use crate::document::Document;
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::servers::foreign;
use crate::experiments::sideload::servers::runs::Options;
use crate::pin::Cores;
use crate::progress::Progress;

/// Runs sideload on `server` with a pool of `pool_bytes`. `scale` is the divisor of sizes that was
/// asked for; without one, it is derived from the pool.
pub fn sideload(
    server: Release,
    (pool_bytes, scale): (u64, Option<f64>),
    cores: &Cores,
    make: &dyn Fn(Scale, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<Document> {
    let options = options::of_sideload(Contender::Released(server), pool_bytes, size(pool_bytes));
    let mut running = OwnServer::temporary(&Cache::of_the_project(), server, progress)?;
    running.start(&options, cores, None)?;
    let done = foreign::run((server.name(), server.target()), &running.address, Engine::Innodb, scale, make, progress)?;
    Ok(with_options(done, server, &options.join(" ")))
}

/// Runs one of the other experiments on `server`, with a cache, a redo log and a query cache of the
/// experiment's size and with O_DIRECT.
pub fn in_turns(server: Release, what: &mut dyn OnServer, progress: &mut Progress) -> Result<Document> {
    let options = options::of_release(server, &what.settings());
    let mut running = OwnServer::temporary(&Cache::of_the_project(), server, progress)?;
    running.start(&options, &what.plan().cores, None)?;
    let place = |on_server: &ServerWithSchema| Place {
        target: server.target(),
        words: format!("on {} with a cache of {} MB", server.name(), on_server.pool_bytes >> 20),
        pool_bytes: Some(on_server.pool_bytes),
        pid: running.pid(),
        ..Place::private()
    };
    let done = running::run_at(what, &running.address, Engine::Innodb, &place, progress)?;
    Ok(with_options(done, server, &options.join(" ")))
}

/// Adds the options of the starts of a server, in words, to a document.
pub(crate) fn with_options(mut document: Document, server: Release, options: &str) -> Document {
    let words = format!("{} was started with {options}; all other settings are its defaults.", server.name());
    document.figures.words.push(words);
    document.settings["options_of_the_server"] = json!(options);
    document
}
