//! Faults that are planted in the engine, one at a time: the judge has to find each.
//!
//! The engine's code names them (`holdfast_base::planted!`). The server's engine is of
//! [`Profile::Planted`].

use anyhow::bail;
use holdfast_server::server::SOCKET_ONLY;
use holdfast_server::{Cache, Profile, Server, build_as};

use super::engine::Engine;
use super::finding::forbidden;
use super::judge::judge;
use super::round::{OPTIONS, Round, Size};

/// A fault.
struct Planted {
    /// As the code calls it.
    name: &'static str,
    what: &'static str,
    /// The number of rounds in which it is found at the latest: several times what it takes on
    /// average.
    within: u64,
}

const ALL: [Planted; 9] = [
    Planted {
        name: "snapshot-taken-anew",
        what: "a statement of a transaction that has changed something takes a new snapshot",
        within: 100,
    },
    Planted { name: "uncommitted-seen", what: "a read sees versions that are not committed", within: 100 },
    Planted {
        name: "own-rows-at-the-view",
        what: "a row that a transaction has changed behind its snapshot is read at the snapshot",
        within: 300,
    },
    Planted {
        name: "locking-read-of-an-old-version",
        what: "a read that locks for sharing shows the committed version of a locked row",
        within: 100,
    },
    Planted { name: "writer-not-waited-for", what: "a change does not wait for the writer of the row", within: 100 },
    Planted { name: "conflict-not-noticed", what: "snapshot isolation does not find the first updater", within: 100 },
    Planted { name: "ranges-not-asked", what: "an insert does not ask for the ranges that are locked", within: 300 },
    Planted { name: "read-range-given-up", what: "a range is unlocked when its statement ends", within: 300 },
    Planted {
        name: "undone-row-not-locked",
        what: "a rollback to a savepoint gives up the locks of the rows that it puts back",
        within: 300,
    },
];

/// Plants each, and fails unless all are found. The plugin is as `profile` says afterwards.
pub fn run(cache: &Cache, seed: u64, size: Size, profile: Profile) -> anyhow::Result<()> {
    build_as(cache, Profile::Planted)?;
    let mut missed = Vec::new();
    for planted in &ALL {
        if !find(cache, seed, size, planted)? {
            missed.push(planted.name);
        }
    }
    build_as(cache, profile)?;
    if !missed.is_empty() {
        bail!("not found: {}", missed.join(", "));
    }
    Ok(())
}

/// True if the fault is found, on a server of its own.
fn find(cache: &Cache, seed: u64, size: Size, planted: &Planted) -> anyhow::Result<bool> {
    let server = Server::new(cache, "isolation").bound_to_us().with_planted(planted.name);
    server.up(SOCKET_ONLY, true, &OPTIONS.map(String::from))?;
    let found = (0..planted.within).find_map(|n| {
        let round = Round::of(Engine::Holdfast, seed, n, size);
        let found = match round.run(&server.socket_path()) {
            Ok(history) => {
                let findings = judge(&history, Engine::Holdfast);
                let worst = forbidden(&findings).min_by_key(|finding| (finding.anomaly, finding.txns.len()))?;
                format!("{} at {}", worst.anomaly.name(), worst.level.name())
            }
            Err(error) => error.root_cause().to_string().lines().next().unwrap_or_default().to_owned(),
        };
        Some((n, found))
    });
    // The fault may have ended it.
    let _ = server.kill();
    match &found {
        Some((n, found)) => println!("{}: found in round {n}: {found}", planted.what),
        None => println!("{}: not found in {} rounds of seed {seed}", planted.what, planted.within),
    }
    Ok(found.is_some())
}
