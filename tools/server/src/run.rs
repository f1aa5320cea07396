//! Starts commands; prints each first, on standard error: standard output is for results.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Names the folder that stands for the workspace where a program runs on another machine.
pub const ROOT: &str = "HOLDFAST_ROOT";

/// The workspace's root, or the folder that [`ROOT`] names.
pub fn root() -> PathBuf {
    if let Some(root) = std::env::var_os(ROOT) {
        return root.into();
    }
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
    eprintln!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// True if `command` can be started and succeeds; it prints nothing.
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

/// `command` as a process that gets `signal` when the thread that started it ends, for whatever
/// reason.
#[must_use]
pub fn bound_to_us(command: &Command, signal: &str) -> Command {
    behind(command, "setpriv".as_ref(), &[format!("--pdeathsig={signal}").into(), "--".into()])
}

/// `command` as the last arguments of `program`, in the same environment and folder.
#[must_use]
pub fn behind(command: &Command, program: &OsStr, arguments: &[OsString]) -> Command {
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        outer.current_dir(dir);
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_behind_another_keeps_arguments_and_environment() {
        let mut command = Command::new("a");
        command.args(["-b", "c"]).env("D", "e").current_dir("/");
        let outer = bound_to_us(&command, "KILL");
        let words: Vec<_> = outer.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(
            (outer.get_program().to_str(), words.join(" ").as_str()),
            (Some("setpriv"), "--pdeathsig=KILL -- a -b c")
        );
        assert_eq!(outer.get_envs().collect::<Vec<_>>(), [(OsStr::new("D"), Some(OsStr::new("e")))]);
        assert_eq!(outer.get_current_dir(), Some(Path::new("/")));
    }
}
