//! The output of the commands, as text or as JSON.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use holdfast::Finding;
use serde_json::{Value, json};

/// Prints a line. A reader that closed the pipe (`holdfast check data.hf | head`) does not end the
/// command.
///
/// # Errors
/// If standard output cannot be written to for another reason.
pub(crate) fn line(text: fmt::Arguments<'_>) -> io::Result<()> {
    match writeln!(Stdout::lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Standard output, whose errors say that it is this which cannot be written to.
pub(crate) struct Stdout(io::StdoutLock<'static>);

impl Stdout {
    pub(crate) fn lock() -> Stdout {
        Stdout(io::stdout().lock())
    }
}

fn unprinted(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("write to standard output: {error}"))
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(unprinted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unprinted)
    }
}

/// Prints a line on standard error. A reader that closed the pipe does not change how the command
/// ends, as it would with `eprintln!`.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a line, as [`line()`] does.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// How a command prints its result.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Findings as JSON.
pub(crate) fn findings(findings: &[Finding]) -> Value {
    findings.iter().map(|finding| json!({ "table": finding.table, "what": finding.what })).collect()
}

/// A path as JSON.
pub(crate) fn path(path: &Path) -> Value {
    json!(path.display().to_string())
}

/// The message of an error and of its causes. Each is printed once, since some messages end with
/// that of their cause.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &cause;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = holdfast::Error::io("read", "t16.hf", io::Error::other("the disk is gone"));
        let error = anyhow::Error::from(cause).context("open data.hf");
        assert_eq!(message(&error), "open data.hf: read t16.hf: the disk is gone");
    }
}
