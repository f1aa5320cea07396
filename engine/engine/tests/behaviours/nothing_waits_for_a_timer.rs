//! In 2016 a release of a server lost 95 % of its throughput when the active set was a little
//! larger than the pool: the thread that refilled the free list slept between two passes, and
//! adapted its sleep in steps of 50 ms. A thread that needs a frame here waits for an event and for
//! nothing else. So that this stays true, every sleep, timed wait and spin in the source of the
//! engine is listed here with its reason; one that is not listed fails the test, and so does a line
//! of the list that has lost its place in the source.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates that a row passes on its way between the disk and the user.
const CRATES: [&str; 11] = ["base", "metrics", "latch", "lock", "policy", "io", "wal", "pool", "tree", "txn", "engine"];

/// Ways to let time pass.
const WAITS: [&str; 16] = [
    "sleep(",
    "sleep_ms(",
    "sleep_until(",
    "park_timeout(",
    "wait_for(",
    "wait_until(",
    "wait_while_for(",
    "wait_while_until(",
    "wait_timeout(",
    "wait_timeout_while(",
    "recv_timeout(",
    "recv_deadline(",
    "try_lock_for(",
    "try_lock_until(",
    "yield_now(",
    "spin_loop(",
];

/// (file, wait, how often, why it may be there).
const ALLOWED: [(&str, &str, usize, &str); 27] = [
    ("base/src/lib.rs", "sleep(", 1, "a planted fault stands still, in the simulation alone"),
    ("base/src/sync.rs", "wait_for(", 1, "the wrapper of a timed wait; its callers stand in this list"),
    ("base/src/sim/primitives.rs", "wait_for(", 2, "the same for the seeded scheduler's waits, under --cfg sim"),
    ("base/src/sim/primitives.rs", "sleep(", 1, "simulated time passes, under --cfg sim"),
    ("base/src/mutex.rs", "spin_loop(", 1, "a bounded number of looks at a mutex that is held for a microsecond"),
    ("base/src/mutex.rs", "yield_now(", 1, "a bounded number of yields to a holder of such a mutex that was preempted"),
    ("io/src/clock.rs", "sleep(", 1, "the clock that sleeps when it is told to"),
    ("io/src/clock.rs", "spin_loop(", 1, "the end of the clock's sleep, for models of fast disks"),
    (
        "io/src/batch/uring.rs",
        "yield_now(",
        1,
        "the ring refuses requests while others are in flight: lets their results in",
    ),
    (
        "wal/src/wal/write.rs",
        "yield_now(",
        2,
        "another thread is in the middle of copying its group into the log buffer",
    ),
    ("wal/src/wal/write.rs", "spin_loop(", 1, "the same, for the first moments"),
    ("wal/src/group_commit.rs", "spin_loop(", 1, "a bounded number of looks at a leader that was quick last time"),
    ("wal/src/group_commit.rs", "yield_now(", 1, "a bounded number of yields to such a leader that was preempted"),
    ("wal/src/slots.rs", "yield_now(", 1, "all writer slots are taken, each for the time of one append"),
    ("wal/src/flusher.rs", "wait_for(", 1, "syncs the log once a second for commits that asked for no more"),
    ("latch/src/latch.rs", "spin_loop(", 2, "a bounded number of looks at a latch before its thread parks"),
    (
        "txn/src/entry/change.rs",
        "sleep(",
        1,
        "a writer pays for log that the checkpoint cannot keep up with, holding nothing",
    ),
    ("lock/src/owner.rs", "wait_for(", 1, "a row lock, with the timeout that the user has set"),
    (
        "txn/src/purge/background.rs",
        "wait_for(",
        1,
        "an idle purge thread looks again, so that a few commits do not lie for ever",
    ),
    ("txn/src/mvcc/clock.rs", "spin_loop(", 1, "an earlier commit is being published: a few stores"),
    ("txn/src/mvcc/clock.rs", "yield_now(", 1, "a bounded number of yields to such a committer that was preempted"),
    ("txn/src/purge/worker.rs", "yield_now(", 1, "purge yields between two batches while committers help it"),
    (
        "txn/src/purge/logs.rs",
        "try_lock_for(",
        1,
        "a committer waits a moment for a purge that is far behind, holding nothing",
    ),
    (
        "txn/src/wait.rs",
        "wait_while_until(",
        1,
        "a change of a definition waits for writers, and for rollbacks that are under way, with the user's timeout",
    ),
    ("tree/src/tree/verify.rs", "yield_now(", 1, "a check gives splits that wait for the tree's structure their turn"),
    ("engine/src/maintenance/verify.rs", "yield_now(", 1, "reads a page again that another thread may be writing"),
    ("engine/src/maintenance/backup.rs", "sleep(", 1, "a backup with a rate limit"),
];

fn source_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// The lines of code of a file: no comments, no tests.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.find("#[cfg(test)]\nmod ").or_else(|| text.find("#[cfg(all(test")).unwrap_or(text.len());
    text[..tests].lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// True if `wait` is called in `line` with something to wait for: `sleep()` of the pool waits for
/// an event.
fn calls(line: &str, wait: &str) -> bool {
    let timed = !wait.starts_with("sleep");
    line.match_indices(wait).any(|(at, _)| {
        let before = line[..at].trim_end();
        let whole = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let event = !timed && line[at + wait.len()..].starts_with(')');
        whole && !event && !before.ends_with("fn")
    })
}

#[test]
fn nothing_waits_for_a_timer() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found: Vec<(String, &str, usize)> = Vec::new();
    for name in CRATES {
        let mut files = Vec::new();
        source_files(&crates.join(name).join("src"), &mut files);
        for file in files.iter().filter(|f| !f.file_stem().unwrap().to_string_lossy().ends_with("tests")) {
            let text = fs::read_to_string(file).unwrap();
            let short = file.strip_prefix(crates).unwrap().to_string_lossy().replace('\\', "/");
            for wait in WAITS {
                let count = code(&text).filter(|line| calls(line, wait)).count();
                if count > 0 {
                    found.push((short.clone(), wait, count));
                }
            }
        }
    }
    found.sort();
    let mut allowed: Vec<(String, &str, usize)> = ALLOWED.iter().map(|a| (a.0.to_owned(), a.1, a.2)).collect();
    allowed.sort();
    assert_eq!(found, allowed, "left: what the source does; right: what this test allows, with a reason each");
    assert!(ALLOWED.iter().all(|a| !a.3.is_empty()));
}

#[test]
fn the_search_finds_what_it_looks_for() {
    assert!(calls("    std::thread::sleep(delay);", "sleep("));
    assert!(calls("let t = c.wait_for(&mut g, d);", "wait_for("));
    assert!(!calls("    waiter.sleep();", "sleep("), "the pool's wait for an event");
    assert!(!calls("    fn sleep(&self, d: Duration);", "sleep("), "a declaration");
    assert!(!calls("    self.may_wait_for(x)", "wait_for("), "another name");
    assert_eq!(code("a\n// sleep(1)\nb\n#[cfg(test)]\nmod tests { sleep(1) }").collect::<Vec<_>>(), ["a", "b"]);
}
