//! An error says what failed, and where: standard output that takes no more, a table that is not
//! there, a log whose checkpoint is lost.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast::Database;
use holdfast_base::checksum;
use holdfast_base::codec::put_u32;

fn database(dir: &Path) -> PathBuf {
    let data = dir.join("data.hf");
    Database::create(&data).unwrap().close().unwrap();
    data
}

fn holdfast(data: &Path, command: &str, more: &[&str]) -> Command {
    let mut holdfast = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    holdfast.arg(command).arg(data).args(more);
    holdfast
}

fn message(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn of_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let data = database(dir.path());
    for (command, more) in
        [("check", &[][..]), ("stat", &["--json"]), ("dump-log", &[]), ("dump-page", &["undo.hf", "0"])]
    {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let out = holdfast(&data, command, more).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{command}");
        assert!(
            message(&out).starts_with("holdfast: write to standard output: No space"),
            "{command}: {}",
            message(&out)
        );
    }
}

#[test]
fn of_a_table_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let data = database(dir.path());
    let out = holdfast(&data, "check", &["--table", "missing"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = format!("holdfast: check {}: table `missing` does not exist\n", data.display());
    assert_eq!(message(&out), said);
}

/// It was called no database, which one is to create.
#[test]
fn of_a_log_whose_checkpoint_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let data = database(dir.path());
    std::fs::remove_file(data.join("checkpoint")).unwrap();
    let out = holdfast(&data, "dump-log", &[]).output().unwrap();
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(3), "{}", message(&out));
    assert!(shown.starts_with("checkpoint is damaged: it is missing"), "{shown}");
}

/// The log of an open database was called damaged where its files were used again, or written to,
/// while they were read. Here it is for good.
#[test]
fn of_a_log_that_another_program_writes() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    let db = Database::create(&data).unwrap();
    let segment = File::options().write(true).open(data.join("wal.000001")).unwrap();
    segment.write_all_at(&[0; 96], 0).unwrap();
    let dump = || holdfast(&data, "dump-log", &[]).output().unwrap();
    let out = dump();
    assert_eq!(out.status.code(), Some(1), "{}", message(&out));
    assert!(message(&out).contains("another program has the database open"), "{}", message(&out));
    let said = format!("{}{}", message(&out), String::from_utf8_lossy(&out.stdout));
    assert!(!said.contains("damaged"), "{said}");
    db.close().unwrap();
    let out = dump();
    assert_eq!(out.status.code(), Some(3), "{}", message(&out));
    assert!(String::from_utf8_lossy(&out.stdout).contains("the log is damaged"));
}

/// It was said instead that another program has the database open.
#[test]
fn of_a_log_of_another_version_that_a_program_has_open() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    let db = Database::create(&data).unwrap();
    let segment = File::options().read(true).write(true).open(data.join("wal.000001")).unwrap();
    let mut header = [0; 100];
    segment.read_exact_at(&mut header, 0).unwrap();
    put_u32(&mut header, 8, 999);
    let sum = checksum(&header[..96]);
    put_u32(&mut header, 96, sum);
    segment.write_all_at(&header, 0).unwrap();
    let out = holdfast(&data, "dump-log", &[]).output().unwrap();
    assert_eq!(out.status.code(), Some(1), "{}", message(&out));
    assert!(message(&out).contains("log format 999"), "{}", message(&out));
    drop(db);
}
