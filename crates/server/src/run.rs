//! Starting commands, with what is run printed first.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The workspace's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this crate lies in the workspace").to_path_buf()
}

/// `cargo` with arguments split at spaces.
pub fn cargo(args: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args.split_whitespace());
    command
}

/// Runs `command` and fails unless it succeeds.
pub fn check(command: &mut Command) -> anyhow::Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Whether `command` can be started and succeeds; it prints nothing.
pub fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={:?}", name.to_string_lossy(), value?.to_string_lossy())))
        .collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    words.push(program.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}
