//! The experiments on other servers as they were released: downloaded, started, and removed at the
//! end.
//!
//! The servers of the published experiments run with their own defaults. Those of today get what
//! makes them comparable: files past the system's cache, no binary log, no warm-up, and the share
//! of a small pool that InnoDB keeps free. The report lists every option.

use anyhow::Result;
use holdfast_server::{Cache, Release};
use serde_json::json;

use super::contender::{Contender, Engine};
use super::named::ServerWithSchema;
use super::options::{self, size, with_pool};
use super::own::OwnServer;
use super::turns::Place;
use super::turns::running::{self, OnServer};
use crate::document::Document;
use crate::experiments::sideload::scale::Scale;
use crate::experiments::sideload::servers::foreign;
use crate::experiments::sideload::servers::runs::Options;
use crate::pin::Cores;
use crate::progress::Progress;

/// The default `innodb_old_blocks_time`, in milliseconds.
const OLD_BLOCKS_TIME_MS: f64 = 1000.0;

/// Runs sideload on `server` with a pool of `pool_bytes`. `scale` is the divisor of sizes that was
/// asked for; without one, it is derived from the pool.
pub fn sideload(
    server: Release,
    (pool_bytes, scale): (u64, Option<f64>),
    cores: &Cores,
    make: &dyn Fn(Scale, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<Document> {
    let mut options = with_pool(server, pool_bytes);
    if !server.is_historic() {
        // The dump takes less time too.
        options.push(format!("--innodb-old-blocks-time={:.0}", OLD_BLOCKS_TIME_MS / size(pool_bytes)));
    }
    let mut running = OwnServer::released(&Cache::of_the_project(), server, progress)?;
    running.start(&options, cores, None)?;
    let done = foreign::run((server.name(), server.target()), &running.address, Engine::Innodb, scale, make, progress)?;
    Ok(with_options(done, server, &[options]))
}

/// Runs one of the other experiments on `server`, with a cache, a redo log and a query cache of the
/// experiment's size and with O_DIRECT.
pub fn in_turns(server: Release, what: &mut dyn OnServer, progress: &mut Progress) -> Result<Document> {
    let options = options::of_release(server, &what.settings());
    let mut running = OwnServer::released(&Cache::of_the_project(), server, progress)?;
    running.start(&options, &what.plan().cores, None)?;
    let place = |on_server: &ServerWithSchema| Place {
        target: server.target(),
        words: format!("on {} with a cache of {} MB", server.name(), on_server.pool_bytes >> 20),
        pool_bytes: Some(on_server.pool_bytes),
        pid: running.pid(),
        ..Place::private()
    };
    let done = running::run_at(what, &running.address, Engine::Innodb, &place, progress)?;
    Ok(with_options(done, server, &[options]))
}

/// Adds the options of the starts of a server to a document.
pub(crate) fn with_options(mut document: Document, server: Release, starts: &[Vec<String>]) -> Document {
    let options = in_words(starts);
    let words = format!("{} was started with {options}; all other settings are its defaults.", server.name());
    document.figures.words.push(words);
    document.settings["options_of_the_server"] = json!(options);
    document
}

/// The options that all starts have; then those of each start that not all have.
fn in_words(starts: &[Vec<String>]) -> String {
    let is_common = |option: &&String| starts.iter().all(|start| start.contains(option));
    let join = |options: Vec<&String>| options.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let common = join(starts.iter().take(1).flatten().filter(is_common).collect());
    let own = |start: &Vec<String>| join(start.iter().filter(|option| !is_common(option)).collect());
    let own: Vec<String> = starts.iter().map(own).filter(|own| !own.is_empty()).collect();
    if own.is_empty() { common } else { format!("{common}, and one after the other with {}", own.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_several_starts_are_told_apart() {
        let start = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(in_words(&[start("a b")]), "a b");
        assert_eq!(in_words(&[start("p=1 b m"), start("p=2 b m")]), "b m, and one after the other with p=1; p=2");
    }
}
