//! Starting commands, with what is run printed first.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

pub use holdfast_server::run::{ROOT, cargo, check, root, works};

/// `cargo` of the nightly toolchain.
pub fn cargo_nightly(args: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(args.split_whitespace());
    // Set by the cargo that runs us; they would send the inner one back to its toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// A program of the workspace, built with what the tests of the workspace are built of: Cargo
/// chooses features of dependencies for all packages that it builds at once, and a package that is
/// built alone may get others, and all below it once more.
///
/// # Errors
/// If it does not compile.
pub fn program_of_the_tests(name: &str) -> anyhow::Result<Command> {
    let build = format!("build --quiet --workspace --bin {name} --message-format json-render-diagnostics");
    let output = cargo(&build).stderr(Stdio::inherit()).output().context("could not start cargo")?;
    if !output.status.success() {
        bail!("{name} does not compile ({})", output.status);
    }
    let built = executable(&String::from_utf8_lossy(&output.stdout), name);
    built.map(Command::new).with_context(|| format!("cargo does not say where {name} is"))
}

/// What `cargo test` is told to run the tests of some behaviours of a crate of the engine: of files
/// of its folder `tests/behaviours`.
///
/// # Errors
/// If there is no such file: of a name that is none no test would run, which counts as passed.
pub fn behaviours(package: &str, names: &[&str]) -> anyhow::Result<String> {
    let folder = root().join("engine").join(package.trim_start_matches("holdfast-")).join("tests/behaviours");
    for name in names {
        ensure!(folder.join(name).with_extension("rs").is_file(), "{} has no {name}", folder.display());
    }
    let filters: Vec<String> = names.iter().map(|name| format!("{name}::")).collect();
    Ok(format!("--package {package} --test behaviours -- {}", filters.join(" ")))
}

/// Builds, and returns the executable that Cargo's messages name last.
///
/// # Errors
/// If it does not compile, or is no program.
pub fn built(build: &mut Command) -> anyhow::Result<PathBuf> {
    let output = build.stderr(Stdio::inherit()).output().context("could not start cargo")?;
    ensure!(output.status.success(), "the build ends with {}", output.status);
    let messages = output.stdout.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let name = |message: Value| Some(message["executable"].as_str()?.into());
    messages.filter_map(name).next_back().context("Cargo names no executable")
}

/// Where a program is, as Cargo's messages say it.
fn executable(messages: &str, name: &str) -> Option<String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = messages.filter(|message| message["target"]["name"] == name);
    named.find_map(|message| message["executable"].as_str().map(String::from))
}

#[cfg(test)]
mod tests {
    use super::{behaviours, executable};

    #[test]
    fn a_behaviour_has_to_be_there() {
        let arguments = behaviours("holdfast-wal", &["torn_tail_or_damage"]).unwrap();
        assert_eq!(arguments, "--package holdfast-wal --test behaviours -- torn_tail_or_damage::");
        assert!(behaviours("holdfast-wal", &["torn_tail_or_damage", "gone"]).is_err());
    }

    #[test]
    fn cargo_says_where_a_program_is() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"sim\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/target/other\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"sim\"},\"executable\":\"/target/sim\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages, "sim").as_deref(), Some("/target/sim"));
        assert_eq!(executable(messages, "none"), None);
    }
}
