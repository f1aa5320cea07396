//! A thread that needs a frame never sleeps for a while: the crate has no sleeps and no timed waits
//! at all.

use std::path::Path;

const FORBIDDEN: [&str; 8] = [
    "sleep(",
    "wait_for(",
    "wait_until(",
    "wait_timeout",
    "park_timeout",
    "recv_timeout",
    "try_lock_for",
    "Instant::now() +",
];
/// Names that contain one of these and wait for an event.
const ALLOWED: [&str; 3] = ["waiter.sleep()", "fn sleep(&mut self)", "fn wait_for("];

fn check(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check(&path);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (i, line) in text.lines().enumerate() {
            let bad = FORBIDDEN.iter().any(|f| line.contains(f)) && !ALLOWED.iter().any(|a| line.contains(a));
            assert!(!bad, "{}:{}: {line}", path.display(), i + 1);
        }
    }
}

#[test]
fn no_timers() {
    check(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")));
}
