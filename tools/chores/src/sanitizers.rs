//! Checks that compilers add to running code: the shim and the C interface under AddressSanitizer
//! and UndefinedBehaviorSanitizer, the engine's threads under ThreadSanitizer.
//!
//! A finding ends the run. A part is skipped, with a reason, on a machine that lacks a tool for it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::run::{behaviours, cargo, cargo_nightly, check, works};

/// Where programs and Rust code with sanitizers are built.
const FOLDER: &str = "target/sanitizers";

/// ThreadSanitizer's findings that are meant, with the reasons.
const MEANT: &str = "tools/chores/thread-sanitizer.supp";

/// The tests in which threads meet, by package: behaviours, then unit tests; all unit tests if
/// none is named.
const THREADS: [(&str, &[&str], &str); 7] = [
    (
        "holdfast-wal",
        &[
            "threads_append_and_flush",
            "space_is_promised_before_use",
            "a_failed_sync_poisons",
            "commits_wait_for_what_the_setting_says",
            "backups_follow_the_live_log",
        ],
        "",
    ),
    ("holdfast-latch", &[], ""),
    (
        "holdfast-pool",
        &["stress", "close_space", "reservation", "resize", "checkpoint", "freed_pages"],
        "translation::",
    ),
    (
        "holdfast-tree",
        &[
            "concurrent_changes_and_walks",
            "allocation_waits_without_a_latch",
            "redo_after_a_crash_with_threads",
            "redo_applies_batches_with_threads",
        ],
        "",
    ),
    ("holdfast-lock", &[], ""),
    (
        "holdfast-txn",
        &[
            "concurrent_transfers_keep_the_sum",
            "scans_lock_rows_as_one",
            "rows_come_and_go_under_snapshots",
            "a_check_meets_purge",
            "a_late_shared_lock_is_given_back",
        ],
        "",
    ),
    (
        "holdfast-engine",
        &[
            "many_sessions_share_a_small_cache",
            "definitions_change_while_others_wait",
            "rows_change_while_an_index_is_built",
            "a_backup_is_one_moment",
            "writers_conflict",
        ],
        "",
    ),
];

/// The C interface, used by a C program that is compiled with sanitizers; a leak is a finding, too.
pub fn c_interface() -> anyhow::Result<()> {
    check(&mut cargo("build --quiet --package holdfast-capi"))?;
    std::fs::create_dir_all(FOLDER)?;
    let program = PathBuf::from(FOLDER).join("interface");
    check(
        Command::new("cc")
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O1"])
            .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"])
            .args(["-I", "engine/capi/include", "engine/capi/tests/c/interface.c"])
            .arg(target().join("debug/libholdfast_capi.a"))
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program),
    )?;
    let folder = PathBuf::from(FOLDER).join("database");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let options = "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1";
    check(Command::new(&program).arg(folder.join("db")).env("ASAN_OPTIONS", options))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Whether the C compiler can check memory accesses; if not, why.
pub fn lacks_c_sanitizers() -> Option<String> {
    let finds = |name: &str| {
        let output = Command::new("cc").arg(format!("-print-file-name={name}")).output();
        // A name without a folder is the compiler's way of saying that it has none.
        output.is_ok_and(|found| found.stdout.starts_with(b"/"))
    };
    (!finds("libasan.so") || !finds("libubsan.so")).then(|| "the C compiler has no libasan and libubsan".to_string())
}

/// The tests with several threads, with every access to memory checked. The standard library is
/// built in the same way.
pub fn threads() -> anyhow::Result<()> {
    let suppressions = std::env::current_dir()?.join(MEANT);
    let options = format!("suppressions={}:halt_on_error=1:second_deadlock_stack=1", suppressions.display());
    let host = "x86_64-unknown-linux-gnu";
    for (package, tests, units) in THREADS {
        // Not the examples in comments, for which the library would be built again without checks.
        let lib = format!("--package {package} --lib -- {units}");
        let mut runs = vec![if tests.is_empty() { lib.clone() } else { behaviours(package, tests)? }];
        if !units.is_empty() {
            runs.push(lib);
        }
        for run in runs {
            // One test at a time: frames are mapped by calls that the sanitizer does not see.
            // Two databases that had the same address one after the other would race.
            let alone = "--test-threads=1";
            let line = format!("test -Zbuild-std --target {host} --target-dir {FOLDER} {run} {alone}");
            let mut command = cargo_nightly(&line);
            command.env("RUSTFLAGS", "-Zsanitizer=thread").env("TSAN_OPTIONS", &options);
            check(&mut command).with_context(|| format!("threads of {package}"))?;
        }
    }
    Ok(())
}

/// Checks that the nightly toolchain has the source of the standard library, and installs it if
/// not. Returns the reason if it cannot.
pub fn lacks_library_source() -> Option<String> {
    if has_library_source() {
        return None;
    }
    let install = "toolchain install nightly --profile minimal --component rust-src";
    if works(Command::new("rustup").args(install.split_whitespace())) && has_library_source() {
        return None;
    }
    Some(format!("no nightly toolchain with the library's source (`rustup {install}`)"))
}

fn has_library_source() -> bool {
    let sysroot = Command::new("rustup").args(["run", "nightly", "rustc", "--print", "sysroot"]).output();
    let lock = |path: &str| PathBuf::from(path.trim()).join("lib/rustlib/src/rust/library/Cargo.lock").exists();
    sysroot.is_ok_and(|output| output.status.success() && lock(&String::from_utf8_lossy(&output.stdout)))
}

#[cfg(test)]
mod tests {
    use super::{THREADS, behaviours};

    #[test]
    fn the_tests_are_there() {
        for (package, tests, _) in THREADS {
            behaviours(package, tests).unwrap();
        }
    }
}
