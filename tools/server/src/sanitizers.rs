//! Servers that load the engine compiled with sanitizers.
//!
//! The server itself is the distribution's, without them: AddressSanitizer's runtime has to be
//! loaded before the server, so that it sees every allocation. What the shim does to memory of the
//! server and of the engine is checked as well as what it does to its own; what the server and the
//! engine do is not, but for the functions of the C library that the runtime replaces.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// Checked code has larger frames, and the server counts what a thread may have of them.
pub const STACK: &str = "--thread-stack=2M";

/// What the server's environment needs.
pub fn environment() -> anyhow::Result<[(&'static str, String); 3]> {
    Ok([
        ("LD_PRELOAD", runtime()?),
        // The server does not free all it has when it ends. Inline functions of its headers poison
        // memory in the shim that functions compiled into the server use without unpoisoning it.
        ("ASAN_OPTIONS", "detect_leaks=0:allow_user_poisoning=0:strict_string_checks=1".into()),
        ("UBSAN_OPTIONS", "print_stacktrace=1".into()),
    ])
}

/// Where the compiler has the shared runtime.
fn runtime() -> anyhow::Result<String> {
    let output = Command::new("g++").arg("-print-file-name=libasan.so").output().context("g++ cannot be started")?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_string();
    // A name without a folder is the compiler's way of saying that it has none.
    ensure!(Path::new(&path).is_absolute(), "g++ has no AddressSanitizer (libasan)");
    Ok(path)
}

/// A log from the first finding on.
pub fn finding(log: &str) -> Option<&str> {
    let at = ["ERROR: AddressSanitizer", ": runtime error: "].iter().filter_map(|mark| log.find(mark)).min()?;
    let line = log[..at].rfind('\n').map_or(0, |end| end + 1);
    Some(&log[line..])
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_finding_is_shown_from_its_line_on() {
        let log = "ready\na.cc:1:2: runtime error: shift\n    #0 f\n";
        assert_eq!(super::finding(log), Some("a.cc:1:2: runtime error: shift\n    #0 f\n"));
        assert_eq!(super::finding("==1==ERROR: AddressSanitizer: x\n"), Some("==1==ERROR: AddressSanitizer: x\n"));
        assert_eq!(super::finding("ready\n"), None);
    }
}
