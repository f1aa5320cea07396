//! Fuzzing with libFuzzer on the stable toolchain: the coverage instrumentation is an LLVM pass
//! that needs no nightly flag, and the crate `libfuzzer-sys` contains libFuzzer.

use std::process::Command;

use anyhow::bail;

use crate::packages::{self, Need};
use crate::run::{cargo, check, works};

/// What the targets are compiled with, beside Rust.
pub const NEEDS: [Need; 1] = [Need {
    package: "g++",
    reason: "libFuzzer is compiled with it",
    is_there: || works(Command::new("g++").arg("--version")),
}];

const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=on -Coverflow-checks=on -Ccodegen-units=1";

/// Runs `targets` (all when empty) for `seconds` each. An input that crashes one is stored in
/// `fuzz/artifacts`.
pub fn run(seconds: u32, targets: &[String]) -> anyhow::Result<()> {
    let known = targets_in("fuzz/targets")?;
    if let Some(unknown) = targets.iter().find(|name| !known.contains(name)) {
        bail!("there is no fuzz target `{unknown}`; there are: {}", known.join(", "));
    }
    packages::provide(&NEEDS)?;
    let host = "x86_64-unknown-linux-gnu";
    // With an explicit --target, RUSTFLAGS apply to the targets only, not to build scripts and
    // derive macros.
    let build = format!("build --quiet --release --manifest-path fuzz/Cargo.toml --target {host} --bins");
    check(cargo(&build).env("RUSTFLAGS", COVERAGE))?;
    for name in if targets.is_empty() { &known } else { targets } {
        let corpus = format!("fuzz/corpus/{name}");
        let artifacts = format!("fuzz/artifacts/{name}/");
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&artifacts)?;
        check(
            Command::new(format!("fuzz/target/{host}/release/{name}"))
                .arg(format!("-max_total_time={seconds}"))
                .arg(format!("-artifact_prefix={artifacts}"))
                .args(["-rss_limit_mb=4096", "-timeout=10", "-print_final_stats=1", "-verbosity=0", "-max_len=20000"])
                .arg(&corpus),
        )?;
    }
    Ok(())
}

fn targets_in(folder: &str) -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}
