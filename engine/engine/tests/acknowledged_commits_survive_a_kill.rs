//! A child process writes and is killed without warning; what it had acknowledged is there, and
//! nothing is half there.

#[expect(dead_code, reason = "it is for the tests of the folder, too")]
#[path = "behaviours/common/mod.rs"]
mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use holdfast::{Database, TableDefinition};

const DIRECTORY: &str = "HOLDFAST_TEST_DIRECTORY";
const LEFT: TableDefinition<u64, u64> = TableDefinition::new("left");
const RIGHT: TableDefinition<u64, u64> = TableDefinition::new("right");

/// The process that is killed; passes when it is run by itself.
#[test]
fn writer() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let db = common::small().create_or_open(dir).unwrap();
    let start = last(&db);
    let mut out = std::io::stdout();
    for i in start + 1.. {
        db.transact(|txn| {
            txn.open_table(&LEFT)?.insert(i, i)?;
            txn.open_table(&RIGHT)?.insert(i, i)?;
            txn.open_table(&LEFT)?.delete(i.wrapping_sub(100)).map(drop)
        })
        .unwrap();
        writeln!(out, "committed {i}").unwrap();
    }
}

fn last(db: &Database) -> u64 {
    let txn = db.begin_read().unwrap();
    txn.open_table(&RIGHT).ok().and_then(|t| t.last().unwrap()).map_or(0, |(i, _)| i)
}

/// Starts the writer, waits for `commits` acknowledgements, kills it; the last that was
/// acknowledged.
fn kill_after(dir: &Path, commits: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let number = |line: String| line.split_once("committed ").and_then(|(_, n)| n.parse::<u64>().ok());
    let last = lines.filter_map(number).take(commits).last().expect("the writer commits");
    child.kill().unwrap();
    child.wait().unwrap();
    last
}

#[test]
fn rounds() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let acknowledged = kill_after(dir.path(), 20 + round * 37);
        let db = common::small().open(dir.path()).unwrap();
        let last = last(&db);
        assert!(last >= acknowledged, "round {round}: {acknowledged} was acknowledged, {last} is there");
        let txn = db.begin_read().unwrap();
        let right = txn.open_table(&RIGHT).unwrap();
        let keys: Vec<_> = right.iter().unwrap().map(|row| row.unwrap().0).collect();
        assert_eq!(keys, (1..=last).collect::<Vec<_>>());
        let left = txn.open_table(&LEFT).unwrap();
        let keys: Vec<_> = left.iter().unwrap().map(|row| row.unwrap().0).collect();
        assert_eq!(keys, (last.saturating_sub(99).max(1)..=last).collect::<Vec<_>>());
        common::assert_sound(&db);
    }
}
