//! What a release needs beyond passing tests: databases of this version for later ones to open,
//! packages of the crates, known dependencies, an older compiler, another processor.
//!
//! What a suite needs from outside (a toolchain, a target, a tool, packages of the system) it
//! fetches by name. If that cannot be had, the suite says what is missing and checks nothing.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::packages::{self, Need};
use crate::run::{behaviours, cargo, check, works};

/// The file that says which version the file format has.
const META: &str = "engine/engine/src/instance/meta.rs";

/// Writes the databases that later versions have to open. Those of a version of the format that
/// are there stay as they are: then this fails.
///
/// # Errors
/// If the databases cannot be written, or are there.
pub fn fixtures() -> anyhow::Result<()> {
    // The one test of this behaviour that is ignored otherwise writes them.
    let test = format!("test {} --ignored", behaviours("holdfast-engine", &["databases_of_releases_open"])?);
    check(cargo(&test).env("HOLDFAST_FORMAT", format_version()?.to_string()))
}

/// The version of the file format that the source writes.
fn format_version() -> anyhow::Result<u32> {
    let source = std::fs::read_to_string(META).context(META)?;
    let number = source.lines().find_map(|line| line.strip_prefix("const FORMAT_VERSION: u32 = "));
    let number = number.with_context(|| format!("{META} has no FORMAT_VERSION"))?;
    Ok(number.trim_end_matches(';').parse()?)
}

/// The packages of the workspace, as cargo describes them.
fn workspace() -> anyhow::Result<Vec<Value>> {
    let output = cargo("metadata --no-deps --format-version 1").output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let mut all: Value = serde_json::from_slice(&output.stdout)?;
    match all["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => anyhow::bail!("cargo metadata lists no packages"),
    }
}

/// Those that a registry may have: their manifests do not say `publish = false`.
fn published() -> anyhow::Result<Vec<Value>> {
    Ok(workspace()?.into_iter().filter(|package| package["publish"].is_null()).collect())
}

/// Makes a package of each crate that is published, and builds the crates from these packages.
///
/// # Errors
/// If a manifest lacks something, or a package does not compile.
pub fn package() -> anyhow::Result<()> {
    let mut arguments = String::new();
    for package in published()? {
        let name = package["name"].as_str().unwrap_or_default();
        for key in ["description", "license", "readme", "rust_version"] {
            ensure!(!package[key].is_null(), "the manifest of {name} has no {key}");
        }
        arguments += &format!(" --package {name}");
    }
    plugin_has_the_version()?;
    // Changes that are not committed are packed as they are.
    let package = format!("package --quiet --locked --allow-dirty --target-dir target/package{arguments}");
    check(&mut cargo(&package))
}

/// The server shows the version of the workspace, which its plugin names in two ways.
fn plugin_has_the_version() -> anyhow::Result<()> {
    const PLUGIN: &str = "mariadb/src/plugin/plugin.cc";
    let source = std::fs::read_to_string(PLUGIN).context(PLUGIN)?;
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let number = format!("0x{:02x}{:02x}", major.parse::<u8>()?, minor.parse::<u8>()?);
    for version in [format!("\"{major}.{minor}\""), number] {
        ensure!(source.contains(&version), "{PLUGIN} does not name version {version}");
    }
    Ok(())
}

/// The workspace with the oldest compiler that it claims to need. `Some` if that cannot be had.
///
/// # Errors
/// If it does not compile.
pub fn oldest_compiler() -> anyhow::Result<Option<String>> {
    let packages = published()?;
    let version = packages[0]["rust_version"].as_str().context("the workspace has no rust-version")?;
    let install = format!("toolchain install {version} --profile minimal");
    let is_there = || works(Command::new("rustup").args(["run", version, "cargo", "--version"]));
    if !is_there() {
        works(Command::new("rustup").args(install.split_whitespace()));
    }
    if !is_there() {
        return Ok(Some(format!("no toolchain of version {version} (`rustup {install}`)")));
    }
    let mut command = Command::new("rustup");
    command.args(["run", version, "cargo", "check", "--quiet", "--locked", "--workspace"]);
    // Set by the cargo that runs this one; they would send the inner one to its toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    check(command.args(["--target-dir", "target/oldest"]))?;
    Ok(None)
}

/// Where tools that are written in Rust are installed.
const TOOLS: &str = ".cache/tools";

/// What `deny.toml` says of the dependencies. `Some` if the tool cannot be had.
///
/// # Errors
/// If a dependency has a licence, a source or a second version that is not allowed, or an advisory.
pub fn dependencies() -> anyhow::Result<Option<String>> {
    let deny = std::env::current_dir()?.join(TOOLS).join("bin/cargo-deny");
    let install = format!("install cargo-deny --quiet --locked --version ^0.20 --root {TOOLS}");
    if !works(Command::new(&deny).arg("--version")) && !works(&mut cargo(&install)) {
        return Ok(Some(format!("no cargo-deny (`cargo {install}`)")));
    }
    check(Command::new(&deny).args(["--locked", "check", "licenses", "bans", "sources"]))?;
    if !works(Command::new(&deny).args(["fetch", "db"])) {
        println!("no database of advisories can be fetched: advisories were not checked");
        return Ok(None);
    }
    check(Command::new(&deny).args(["--locked", "check", "--disable-fetch", "advisories"]))?;
    Ok(None)
}

const ARM: &str = "aarch64-unknown-linux-gnu";
const ARM_LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Unit tests of the lower floors on another processor, emulated. `Some` if something is missing.
///
/// # Errors
/// If they do not compile, or fail.
pub fn other_processor() -> anyhow::Result<Option<String>> {
    let needs = [
        Need {
            package: "gcc-aarch64-linux-gnu",
            reason: "it links programs for aarch64",
            is_there: || works(Command::new("aarch64-linux-gnu-gcc").arg("--version")),
        },
        Need {
            package: "libc6-dev-arm64-cross",
            reason: "the C library of aarch64",
            is_there: || Path::new(ARM_LIBRARIES).join("include/stdio.h").exists(),
        },
        Need {
            package: "qemu-user",
            reason: "it runs programs for aarch64",
            is_there: || works(Command::new("qemu-aarch64").arg("--version")),
        },
    ];
    if let Err(error) = packages::provide(&needs) {
        return Ok(Some(format!("{error:#}")));
    }
    if !works(Command::new("rustup").args(["target", "add", ARM])) {
        return Ok(Some(format!("no standard library for {ARM} (`rustup target add {ARM}`)")));
    }
    let crates = ["base", "latch", "wal", "pool", "tree"].map(|name| format!("--package holdfast-{name}")).join(" ");
    // The emulator leaves pages out of memory that the system is asked to populate.
    let left_out = "--skip frames::tests::populated_frames_are_resident";
    let mut test = cargo(&format!("test --lib --target {ARM} --target-dir target/aarch64 {crates} -- {left_out}"));
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    test.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("qemu-aarch64 -L {ARM_LIBRARIES}"));
    check(&mut test)?;
    Ok(None)
}
