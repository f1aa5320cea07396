//! `check`, `stat` and `backup` do not change the database, report the same each time, and accept a
//! reader that closes the pipe. They report what a copy lacks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use holdfast::{Database, TableDefinition};

const ROWS: TableDefinition<u64, &str> = TableDefinition::new("rows");

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(args);
    command
}

fn holdfast(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

fn json(out: &Output) -> serde_json::Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)))
}

/// A database that was not closed: with rows to purge, and a transaction to roll back.
fn crashed(dir: &Path) -> PathBuf {
    let live = dir.join("live.hf");
    let db = Database::builder().page_size(4096).create(&live).unwrap();
    db.transact(|txn| (0..2_000).try_for_each(|n| txn.open_table(&ROWS)?.insert(n, "value"))).unwrap();
    let snapshot = db.begin_read().unwrap();
    db.transact(|txn| (0..500).try_for_each(|n| txn.open_table(&ROWS)?.delete(n * 3).map(drop))).unwrap();
    let unfinished = db.begin_write().unwrap();
    (3_000..3_500).for_each(|n| unfinished.open_table(&ROWS).unwrap().insert(n, "not committed").unwrap());
    db.transact(|txn| txn.open_table(&ROWS)?.upsert(1, "the last one").map(drop)).unwrap();
    let copy = dir.join("data.hf");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&live).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    drop((unfinished, snapshot));
    copy
}

fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let data = crashed(dir.path());
    let before = files(&data);
    let name = data.to_str().unwrap();
    for _ in 0..3 {
        let out = holdfast(&["check", name, "--json"]);
        assert_eq!(out.status.code(), Some(0));
        assert_eq!(json(&out)["rows"], 1_500);
    }
    assert_eq!(json(&holdfast(&["stat", name, "--json"]))["tables"][0]["name"], "rows");
    let copy = dir.path().join("copy.hf");
    let out = holdfast(&["backup", name, copy.to_str().unwrap(), "--json"]);
    assert_eq!(json(&out)["left_out"], serde_json::json!([]));
    assert!(files(&data) == before, "nothing was recovered in place");
    let out = holdfast(&["restore", copy.to_str().unwrap(), "--json"]);
    assert_eq!((out.status.code(), &json(&out)["sound"]), (Some(0), &serde_json::json!(true)));
    assert_eq!(json(&holdfast(&["check", copy.to_str().unwrap(), "--json"]))["rows"], 1_500);
}

#[test]
fn a_copy_that_lacks_a_table_is_bad_news() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    let db = Database::create(&data).unwrap();
    db.transact(|txn| txn.open_table(&ROWS)?.insert(1, "one")).unwrap();
    let file = db.list_tables()[0].file.clone();
    db.close().unwrap();
    fs::remove_file(data.join(file)).unwrap();
    let (name, copy) = (data.to_str().unwrap(), dir.path().join("copy.hf"));
    let out = holdfast(&["backup", name, copy.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("rows") && !copy.exists());
    let out = holdfast(&["backup", name, copy.to_str().unwrap(), "--leave-out-damaged"]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stdout).contains("left out rows"));
    assert_eq!(holdfast(&["compact", name]).status.code(), Some(3));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    Database::create(&data).unwrap().close().unwrap();
    for subcommand in ["stat", "check", "dump-log"] {
        let mut child = command(&[subcommand, data.to_str().unwrap()]);
        let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{subcommand}: {}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{subcommand}");
    }
}

#[test]
fn a_message_has_the_path_as_it_was_given_and_each_cause_once() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    let out = holdfast(&["check", name]);
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(message, format!("holdfast: open {name}: {name} is not a Holdfast database; create it first\n"));
    let out = holdfast(&["dump-page", &format!("{name}/missing"), "t16.hf", "0"]);
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(message.matches("No such file").count(), 1, "{message}");
}
