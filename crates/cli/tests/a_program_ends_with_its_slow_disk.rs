//! A lab on the modelled disk that was killed left a server behind, whose reads and writes failed
//! from then on and which ran until somebody noticed: the program that `slow-disk` started went on
//! without its disk.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Says that it runs, and what it is told after that.
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
        // Where programs cannot be supervised, it says so and starts none.
        assert!(why.contains("does not let a program be supervised"), "{why}");
        return;
    }
    assert_eq!(line, "running\n");
    // One that is still there says the word; to one that is not, it cannot be said.
    let _ = input.write_all(b"alive\n");
    drop(input);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
