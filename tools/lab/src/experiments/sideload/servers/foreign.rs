//! The experiment on a server that the user names, in a schema that the lab creates and drops.
//!
//! Nothing of the server is changed: the tables are sized for its cache. There is no second server
//! to compare with, so the references are OLTP and dump alone. The cold run comes first: after the
//! big table was loaded, nothing of the small one is resident.

use anyhow::{Context, Result, bail};
use holdfast_server::{Cache, apt};
use mysql::prelude::Queryable;
use serde_json::json;

use super::runs::{ContenderOutcome, Options, bench, parts};
use crate::document::Document;
use crate::experiments::sideload::Start;
use crate::experiments::sideload::scale::{POOL_BYTES, Scale};
use crate::experiments::sideload::scenario::Run;
use crate::progress::Progress;
use crate::server::address::Address;
use crate::server::contender::{Contender, Engine};
use crate::server::data::{self, SCHEMA};
use crate::server::instance::{Instance, Spec};
use crate::server::named::{NamedServer, ServerWithSchema};
use crate::server::turns::running;

/// The largest pool for which tables are made without `--scale`: the big one has eight times its
/// size.
const LARGEST_POOL: u64 = 1 << 30;

/// Runs the experiment on the server at `address`, called `name` and by `--target` `target`, with
/// the tables in `engine`. `size` is the divisor of sizes; it is derived from the server's pool if
/// not given.
pub fn run(
    (name, target): (&str, &str),
    address: &Address,
    engine: Engine,
    size: Option<f64>,
    make: &dyn Fn(Scale, Vec<Contender>) -> Options,
    progress: &mut Progress,
) -> Result<Document> {
    let cache = Cache::of_the_project();
    let named = NamedServer::reach(address, engine)?;
    let (contender, pool) = (named.contender, named.pool_bytes);
    let size = match size {
        Some(size) => size,
        None if pool <= LARGEST_POOL => POOL_BYTES / pool as f64,
        None => bail!(
            "the server's cache has {} MB, and the table to be dumped would have eight times that; --scale S makes the \
             tables S times smaller than published (0.2 and 2.8 GB)",
            pool >> 20
        ),
    };
    let options = make(Scale::new(size, 1.0), vec![contender]);
    apt::fetch(&cache).context("sysbench and mariadb-dump are fetched by apt")?;
    apt::fetch_sysbench(&cache)?;
    let on_server = named.begin()?;
    let outcomes = measure(&cache, &on_server, &options, progress);
    let findings = on_server.findings();
    let of_server = running::settings(&on_server.before, contender);
    on_server.end()?;
    let findings = findings?;
    let text = format!(
        "{name} ({contender}, cache {} MB), with tables sized for that; real sysbench oltp_read_only with {} thread(s) \
         and real mariadb-dump. Nothing else should use the server meanwhile: transactions are its Com_commit.",
        pool >> 20,
        options.oltp.threads
    );
    let mut settings = super::settings(&text, &options);
    settings["pool_bytes"] = json!(pool);
    settings["server"] = of_server;
    settings["findings"] = json!(findings.join(" "));
    Ok(super::report(target, &text, settings, &outcomes?, findings))
}

fn measure(
    cache: &Cache,
    on_server: &ServerWithSchema,
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<ContenderOutcome>> {
    let (scale, contender, pool_bytes) = (options.scale, on_server.contender, on_server.pool_bytes);
    progress.step("loading the tables");
    let mut conn = on_server.connect()?;
    conn.query_drop(format!("USE {SCHEMA}"))?;
    let rows = [scale.hot_rows(), scale.big_rows()];
    let mut told = |done: u32| progress.show_part((done.into(), (rows[0] + rows[1]).into()), "rows");
    data::load(&mut conn, contender.engine(), options.oltp.seed, rows, &mut told)?;
    let mut outcomes = Vec::new();
    progress.plan(options.times.of_start(contender) * 2);
    for start in [Start::Cold, Start::Warm] {
        let (big_rows, oltp) = (scale.big_rows(), options.oltp.clone());
        let spec = Spec { contender, pool_bytes, big_rows, listed: true, oltp };
        let own = Instance::attach(cache, &options.cores, on_server.address.clone(), spec)?;
        progress.step(start.name());
        let (parts, own) = (parts(options, contender, start), bench(own, contender));
        outcomes.push((contender, Run { parts, own, ceiling: None, progress }.run()?));
        progress.did(options.times.of_start(contender));
    }
    Ok(outcomes)
}
