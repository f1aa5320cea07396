//! The experiments on real servers: real sysbench and real mariadb-dump against MariaDB.
//!
//! | module | what |
//! |---|---|
//! | [`address`] | the address of a server, for its clients |
//! | [`contender`] | the engines and settings that are compared |
//! | [`data`] | the tables |
//! | [`load`] | sysbench and mariadb-dump as processes that can be stopped for a while |
//! | [`probe`] | a server's own counters |
//! | [`instance`] | a private server under load, sampled |
//! | [`sideload`] | the experiment on private servers |
//! | [`scan`] | the experiment `scan` on private servers |
//! | [`querycache`] | the experiment `querycache` |
//! | [`turns`] | engines on private servers in turns, sampled |
//! | [`sessions`], [`overflow`], [`iobound`] | these experiments in turns |
//! | `slow_disk` | a server on a modelled disk |
//! | `named` | a server that the user names, with the schema of the lab |
//! | [`health`] | findings from a server's counters, and settings that help |
//! | [`foreign`] | sideload on a server that the user names |
//! | [`released`] | the experiments on other servers as they were released |
//! | [`outcome`] | its results as document and text, with verdicts |

pub mod address;
pub mod contender;
pub mod data;
mod diagnosis;
pub mod foreign;
pub mod health;
pub mod instance;
pub mod iobound;
pub mod load;
pub(crate) mod named;
pub mod outcome;
pub mod overflow;
pub mod probe;
pub mod querycache;
pub mod released;
pub mod scan;
pub mod sessions;
pub mod sideload;
mod slow_disk;
mod statements;
pub mod turns;

use anyhow::Result;
use serde_json::{Value, json};

use crate::claims::Claim;
use crate::document::{Document, metrics};
use crate::machine::Machine;
use crate::progress::Progress;

/// Runs the experiment. Returns the document and what is printed.
///
/// # Errors
/// If packages are not available, a server does not start, or a client fails.
pub fn run(options: &sideload::Options, progress: &mut Progress) -> Result<(Document, String)> {
    let outcomes = sideload::run(options, progress)?;
    let claims = outcome::claims(&outcomes);
    Ok(report("sideload-mariadb", &in_words(options), options, &outcomes, claims))
}

/// Document and text of the results.
fn report(
    name: &str,
    introduction: &str,
    options: &sideload::Options,
    outcomes: &[outcome::Outcome],
    claims: Vec<Claim>,
) -> (Document, String) {
    let machine = Machine::this(Some(&holdfast_server::run::root()));
    let mut document = Document::new(name, settings(introduction, options), machine);
    document.runs = outcomes.iter().map(outcome::Outcome::run).collect();
    for run in &mut document.runs {
        run.metrics.insert("rate_tps".to_owned(), json!(options.oltp.rate));
    }
    document.claims = claims;
    let mut text = format!("{introduction}\n\n{}\n", outcome::text(outcomes));
    for outcome in outcomes {
        text.push_str(&format!("{}, {}: {}\n", outcome.contender, outcome.start.name(), diagnosis::of(outcome)));
    }
    text.push('\n');
    (document, text)
}

fn in_words(options: &sideload::Options) -> String {
    format!(
        "MariaDB with equal caches, O_DIRECT, a sync at every commit, no binary log, no query cache; real sysbench \
         oltp_read_only with {} thread(s) and real mariadb-dump{}. Tables and pool are {} times smaller than published, and \
         with them InnoDB's old_blocks_time and lru_scan_depth. The ceiling is the same engine with a pool that holds both \
         tables, measured in turns. Disk: {}.",
        options.oltp.threads,
        if options.cores.pins() { ", the server and its clients on cores of their own" } else { "" },
        options.size,
        if options.modelled {
            let (seek, rate) = (options.scale.seek().as_secs_f64() * 1e3, options.scale.bytes_per_second() / 1_000_000);
            format!("modelled, one arm, {seek} ms to seek, {rate} MB/s")
        } else {
            "real".to_owned()
        }
    )
}

fn settings(introduction: &str, options: &sideload::Options) -> Value {
    let scale = options.scale;
    let disk = if options.modelled {
        json!({
            "model": "single actuator",
            "seek_ms": scale.seek().as_secs_f64() * 1e3,
            "mb_per_s": scale.bytes_per_second() as f64 / 1e6,
        })
    } else {
        json!("real")
    };
    let mut settings = metrics(json!({
        "scale": introduction,
        "sizes_divided_by": options.size,
        "hot_rows": scale.hot_rows(),
        "big_rows": scale.big_rows(),
        "pool_bytes": scale.pool_bytes(),
        "ceiling_pool_bytes": scale.ceiling_bytes(),
        "oltp_threads": options.oltp.threads,
        "rate_tps": options.oltp.rate,
        "distribution": options.oltp.distribution,
        "turns": options.times.rounds.least,
        "turn_s": options.times.turn.as_secs_f64(),
        "patience_s": options.times.patience.as_secs_f64(),
        "disk": disk,
        "pinned": options.cores.pins(),
        "seed": options.oltp.seed,
    }));
    for contender in &options.contenders {
        let list = contender.options(scale.pool_bytes(), options.size);
        settings.insert(format!("{contender}"), json!(list.join(" ")));
    }
    Value::Object(settings)
}
