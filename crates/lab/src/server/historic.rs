//! The experiment on the servers that it was published about: downloaded, started with their own defaults, gone at the end.

use anyhow::Result;
use holdfast_server::{Cache, Historic, apt};

use super::address::Address;
use super::contender::{Contender, Engine};
use super::foreign;
use super::sideload::Options;
use crate::document::Document;
use crate::experiments::sideload::scale::Scale;
use crate::pin::{Cores, Role};
use crate::progress::Progress;

/// Runs the experiment on `server` with a pool of `pool_bytes`, everything else as it was delivered.
///
/// # Errors
/// If the server cannot be had or does not come up; those of the experiment.
pub fn run(
    server: Historic,
    pool_bytes: u64,
    cores: &Cores,
    make: &dyn Fn(Scale, f64, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<(Document, String)> {
    let cache = Cache::of_the_project();
    progress.step(server.name());
    // Its programs need libraries that come with those of today.
    apt::fetch(&cache)?;
    server.fetch(&cache)?;
    let dump = Historic::dump_program(&cache)?;
    cores.pin(Role::Server);
    let running = server.start(&cache, &[format!("--innodb-buffer-pool-size={pool_bytes}")]);
    cores.pin(Role::Clients);
    let running = running?;
    let address = Address::Historic { socket: running.socket_path(), dump };
    let name = format!("{} with its own defaults", server.name());
    foreign::run(&name, &address, Engine::Innodb, None, make, progress)
}
