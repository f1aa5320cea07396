//! The exit codes are those that `--help` lists, and an error names the remedy.

use std::process::{Command, Output};

fn holdfast(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_succeeds_and_lists_the_codes() {
    let out = holdfast(&["--help"]);
    assert_eq!(out.status.code(), Some(0));
    for code in ["3  a claim of an experiment cannot be told", "4  a claim of an experiment fails"] {
        assert!(text(&out.stdout).contains(code), "{code}");
    }
    for command in ["lab", "sim", "check", "stat", "backup", "restore", "compact", "dump-page", "dump-log"] {
        assert_eq!(holdfast(&[command, "--help"]).status.code(), Some(0), "{command}");
    }
}

#[test]
fn wrong_arguments_are_2() {
    let of_lab = [&["lab", "sideload", "--scale", "0"][..], &["lab", "scan", "--disk"]];
    let others = [&["no-such-command"][..], &["check"], &["sim", "--policy", "nope", "trace.lis"]];
    for args in of_lab.into_iter().chain(others) {
        assert_eq!(holdfast(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn what_cannot_be_done_is_1_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().to_str().unwrap();
    for command in ["check", "stat", "compact", "dump-log"] {
        let out = holdfast(&[command, dir]);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{command}: {message}");
        assert!(message.starts_with("holdfast: ") && message.contains(dir), "{command}: {message}");
    }
}

#[test]
fn what_an_experiment_does_not_take_is_said_before_anything_runs() {
    for (args, said) in [
        (&["lab", "sessions", "--log-mib", "32"][..], "--log-mib is for flush"),
        (&["lab", "flush", "--workload", "dbt2"], "--workload is for flush and sessions on servers"),
        (&["lab", "soak", "--target", "mysql55"], "runs on the embedded engine only"),
        (&["lab", "purge", "--target", "mysql56", "--disk", "model"], "the disk of that server is what it is"),
    ] {
        let out = holdfast(args);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {message}");
        assert!(message.contains(said), "{args:?}: {message}");
    }
    for wrong in [&["--target", "mysql57"], &["--log-mib", "0"]] {
        let args = [&["lab", "flush"], &wrong[..]].concat();
        assert_eq!(holdfast(&args).status.code(), Some(2), "{args:?}");
    }
}
