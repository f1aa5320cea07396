//! A wait that the scheduler of the simulation does not see would stop a simulated run forever. A
//! moment or a random number that does not come from the scheduler would make two runs of a seed
//! differ.

use std::path::{Path, PathBuf};

/// What the engine takes from `holdfast_base` instead.
const NOT_SEEN: [&str; 9] = [
    "parking_lot::",
    "std::time::Instant",
    "std::time::{Duration, Instant}",
    "std::thread::spawn",
    "std::thread::sleep",
    "std::thread::yield_now",
    "std::sync::Mutex",
    "std::collections::HashMap",
    "rand::",
];

/// Where they are meant to be: on the other side of the switch.
const EXCEPT: [&str; 1] = ["latch/src/parking.rs"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_engine_waits_only_where_the_scheduler_sees_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine");
    let mut files = Vec::new();
    for name in ["latch", "lock", "wal", "pool", "tree", "txn", "engine"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 100, "the sources are there");
    let mut wrong = Vec::new();
    for file in files.iter().filter(|f| !EXCEPT.iter().any(|except| f.ends_with(except))) {
        let text = std::fs::read_to_string(file).unwrap();
        // Unit tests stand at the end of a file and run without the scheduler.
        let code = text.split("#[cfg(test)]").next().unwrap().split("#[cfg(all(test").next().unwrap();
        for (no, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for name in NOT_SEEN.iter().filter(|name| line.contains(**name)) {
                wrong.push(format!("{}:{}: {name}", file.display(), no + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "take these from holdfast_base (blocking, thread, time, HashMap, random_number):\n{}",
        wrong.join("\n")
    );
}
