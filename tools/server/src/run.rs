//! Starts commands; prints each first, on standard error: standard output is for results.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
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
    say(&format!("$ {}", shown(command)));
    let status = command.status().with_context(|| format!("could not start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// As [`check`], for a command that prints no result: what it prints goes to standard error.
pub fn check_aside(command: &mut Command) -> anyhow::Result<()> {
    check(aside(command))
}

/// `command` with standard error in the place of its standard output.
pub(crate) fn aside(command: &mut Command) -> &mut Command {
    command.stdout(std::io::stderr())
}

/// Prints a line on standard error. A reader that goes away (`2>&1 | head`) does not end the
/// program, as it would with `eprintln!`.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
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
pub(crate) mod tests {
    use super::*;

    /// Names the command that a test passes to what it tests, in a process of its own.
    const SCRIPT: &str = "HOLDFAST_TEST_SCRIPT";

    /// Writes a script that can be executed. A file that this process has open for writing cannot
    /// be, so another one writes it.
    pub(crate) fn write_program(program: &Path, text: &str) {
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        let write = "printf '%s\\n' \"$1\" > \"$0\" && chmod +x \"$0\"";
        assert!(Command::new("sh").args(["-c", write]).arg(program).arg(text).status().unwrap().success());
    }

    /// What this program prints on standard output and standard error if it runs `test` alone,
    /// which passes a command that prints `word` to `tested`. `None` in that process.
    pub(crate) fn printed_by(test: &str, word: &str, tested: impl FnOnce(&mut Command)) -> Option<[String; 2]> {
        if let Some(script) = std::env::var_os(SCRIPT) {
            tested(Command::new("sh").arg("-c").arg(script));
            return None;
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", test, "--nocapture"]).env(SCRIPT, format!("echo {word}"));
        let output = again.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Some([output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// What apt-get printed stood before the document on standard output.
    #[test]
    fn what_a_command_prints_aside_is_no_result() {
        let test = "run::tests::what_a_command_prints_aside_is_no_result";
        let printed = printed_by(test, "packages", |command| check_aside(command).unwrap());
        let Some([out, err]) = printed else { return };
        assert!(!out.contains("packages"), "{out}");
        assert!(err.lines().any(|line| line == "packages"), "{err}");
    }

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
