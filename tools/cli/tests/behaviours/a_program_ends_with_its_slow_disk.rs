//! The program that `slow-disk` started ends when `slow-disk` is killed. Without its disk all its
//! reads and writes would fail.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Prints that it runs, and then the word that it reads.
const PROGRAM: &str = "echo running; read word; echo $word";

#[test]
fn a_program_ends_with_its_slow_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut slow_disk = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    slow_disk.arg("slow-disk").arg("--dir").arg(dir.path()).args(["--", "sh", "-c", PROGRAM]);
    let mut slow_disk = slow_disk.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(slow_disk.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let mut input = slow_disk.stdin.take().unwrap();
    slow_disk.kill().unwrap();
    slow_disk.wait().unwrap();
    if line.is_empty() {
        let mut why = String::new();
        slow_disk.stderr.take().unwrap().read_to_string(&mut why).unwrap();
        // Where programs cannot be supervised, the command reports that and starts none.
        assert!(why.contains("does not let a program be supervised"), "{why}");
        return;
    }
    assert_eq!(line, "running\n");
    // A program that still runs prints the word; to one that has ended, it cannot be written.
    let _ = input.write_all(b"alive\n");
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
