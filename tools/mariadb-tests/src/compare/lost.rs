//! What is kept of a server that has ended by itself. The next start on its data begins a new
//! error log, and the scenario alone may not show the fault again: those before it on the same
//! server may have a part in it.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use holdfast_server::{Cache, Server};

use super::super::pairs::Engine;
use super::script::{self, Step};

/// Keeps the error log, and which scenarios of the seed the server has played since its data was
/// made, the last of them with its steps. Returns the folder.
///
/// # Errors
/// If files cannot be written.
pub fn keep(cache: &Cache, server: &Server<'_>, seed: u64, numbers: &[u64], steps: &[Step]) -> anyhow::Result<PathBuf> {
    let last = numbers.last().copied().unwrap_or_default();
    let folder = cache.path(format!("compare/lost/{seed}-{last}"));
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    fs::copy(server.log(), folder.join("error.log")).context("copy the server's error log")?;
    fs::write(folder.join("scenarios"), told(&server.end(), seed, numbers, steps))?;
    Ok(folder)
}

/// True if InnoDB has ended the server.
pub fn is_of_innodb(server: &Server<'_>) -> bool {
    let log = fs::read(server.log()).unwrap_or_default();
    is_told_of_innodb(&String::from_utf8_lossy(&log))
}

/// What the server calls an engine through: a handler, or what ends a transaction.
const CALLS: [&str; 3] = ["(_ZN7handler", "(_Z15ha_commit_trans", "(_Z17ha_rollback_trans"];

/// True if an assertion of InnoDB has failed, or a signal came in what the server has called of an
/// engine and is part of the server itself: this engine is a library beside it.
fn is_told_of_innodb(log: &str) -> bool {
    if log.contains("InnoDB: Assertion failure in file ") {
        return true;
    }
    let Some((_, trace)) = log.split_once(" got signal ") else { return false };
    let calls = |line: &str| CALLS.iter().any(|call| line.contains(call));
    let mut called = trace.lines().take_while(|line| !calls(line));
    calls(trace) && called.all(|line| !line.contains("ha_holdfast"))
}

fn told(end: &str, seed: u64, numbers: &[u64], steps: &[Step]) -> String {
    let numbers = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let mut text = format!("{end}\nscenarios of seed {seed} since its data was made, the last one last: {numbers}\n");
    for engine in Engine::ALL.into_iter().filter(|_| !steps.is_empty()) {
        let _ = write!(text, "\n---- the last one for a client, {}:\n{}", engine.name(), script::text(steps, engine));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_below_a_call_of_an_engine_is_innodbs_unless_this_engine_is_there() {
        let log = |called: &str, call: &str| {
            format!(
                "[ERROR] mariadbd got signal 11 ;\nserver/mariadbd(handle_fatal_signal+0x1a7)[0x1]\n{called}\n\
                 server/mariadbd({call}+0xe2)[0x3]\nquery of ha_holdfast\n"
            )
        };
        for call in ["_ZN7handler13ha_update_rowEPKhS1_", "_Z17ha_rollback_transP3THDb"] {
            assert!(is_told_of_innodb(&log("server/mariadbd(+0xd11f89)[0x2]", call)));
            assert!(!is_told_of_innodb(&log("plugin/ha_holdfast.so(+0x11f89)[0x2]", call)));
        }
        assert!(!is_told_of_innodb(&log("server/mariadbd(+0xd11f89)[0x2]", "_Z14trans_rollbackP3THD")));
        assert!(!is_told_of_innodb("mariadbd got signal 11 ;\nserver/mariadbd(+0xd11f89)[0x2]\n"));
        assert!(is_told_of_innodb("InnoDB: Assertion failure in file row0ins.cc line 1\n"));
        assert!(!is_told_of_innodb("ready for connections"));
    }

    #[test]
    fn it_is_told_how_the_server_ended_and_what_it_had_played() {
        let text = told("signal: 11", 7, &[3, 12], &[Step::say(0, "DELETE FROM t1")]);
        assert!(text.starts_with("signal: 11\nscenarios of seed 7 since its data was made, the last one last: 3 12\n"));
        assert_eq!(text.matches("DELETE FROM t1;").count(), 2, "{text}");
        assert!(!told("signal: 11", 7, &[3], &[]).contains("client"));
    }
}
