//! Two engines in turns, in one server: what commands that compare them share.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
pub use holdfast_server::process::processor_time;
use serde_json::Value;

/// The server counts as idle once it took at most this share of a moment.
const IDLE_SHARE: u32 = 20;
const MOMENT: Duration = Duration::from_millis(200);
/// For how long to wait for that, where time is not limited.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What is compared: Holdfast's figures are divided by the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Holdfast,
    InnoDb,
}

impl Engine {
    /// Both.
    pub const ALL: [Engine; 2] = [Engine::Holdfast, Engine::InnoDb];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Holdfast => "HOLDFAST",
            Engine::InnoDb => "InnoDB",
        }
    }
}

/// Settings that are to be equal: `name=value`, with the same name behind `holdfast-` and
/// `innodb-`.
pub fn on_both(settings: &[String]) -> Vec<String> {
    ["holdfast", "innodb"].iter().flat_map(|engine| settings.iter().map(move |s| format!("--{engine}-{s}"))).collect()
}

/// Holdfast and InnoDB, measured one after the other; the order changes from pair to pair.
pub fn one_pair<T>(pair: usize, slice: impl Fn(Engine) -> anyhow::Result<T>) -> anyhow::Result<(T, T)> {
    if pair.is_multiple_of(2) {
        let holdfast = slice(Engine::Holdfast)?;
        Ok((holdfast, slice(Engine::InnoDb)?))
    } else {
        let innodb = slice(Engine::InnoDb)?;
        Ok((slice(Engine::Holdfast)?, innodb))
    }
}

/// Waits until the server has nothing left to do, for `patience` at most.
pub fn settle(pid: u32, patience: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < patience {
        let before = processor_time(pid)?;
        sleep(MOMENT);
        if processor_time(pid)? - before <= MOMENT / IDLE_SHARE {
            break;
        }
    }
    Ok(())
}

/// Prints the table, and writes the JSON to a file; to standard output in place of the table if the
/// file is `-`.
pub fn publish(table: &str, json: &Value, to: Option<&Path>) -> anyhow::Result<()> {
    let json = || serde_json::to_string_pretty(json);
    match to {
        Some(to) if to == Path::new("-") => println!("{}", json()?),
        Some(to) => {
            // The table is not lost with the file.
            println!("{table}");
            std::fs::write(to, json()? + "\n").with_context(|| format!("{} cannot be written", to.display()))?;
        }
        None => println!("{table}"),
    }
    Ok(())
}
