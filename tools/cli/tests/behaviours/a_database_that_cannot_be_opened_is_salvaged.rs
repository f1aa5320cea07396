//! `check` reports by its exit code and in words that a database cannot be opened because of
//! damage. `--salvage` saves the rows from the tables' files alone: without log, `holdfast.meta`,
//! catalog, or page 0.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast::{Database, TableDefinition};

const ROWS: TableDefinition<u64, &str> = TableDefinition::new("rows");
const OTHER: TableDefinition<&str, u64> = TableDefinition::new("other");
const COUNT: u64 = 3_000;

fn holdfast(args: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_holdfast")).args(args).output().unwrap()
}

/// A closed database with a row that has a large value, one that was deleted, and a secondary
/// table.
fn database(dir: &Path) -> PathBuf {
    let dir = dir.join("data.hf");
    let db = Database::builder().page_size(4096).create(&dir).unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        (0..=COUNT).try_for_each(|n| rows.insert(n, &format!("value {n}")))?;
        rows.upsert(7, &"large ".repeat(5_000))?;
        rows.delete(COUNT)?;
        txn.open_table(&OTHER)?.insert("one", 1)
    })
    .unwrap();
    db.close().unwrap();
    dir
}

fn assert_salvaged(dir: &Path, what: &str, named: bool) {
    let target = dir.with_file_name(format!("rescued after {what}"));
    let out = holdfast(&[Path::new("check"), dir]);
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(3), "{what}: {shown}");
    assert!(shown.contains(what), "{what}: {shown}");
    let out = holdfast(&[Path::new("check"), dir, Path::new("--salvage"), &target, Path::new("--json")]);
    let shown: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &shown["sound"]), (Some(3), &serde_json::json!(false)), "{what}");
    let rows = shown["salvaged"].as_array().unwrap().iter().find(|table| table["rows"] == COUNT);
    let rows = rows.unwrap_or_else(|| panic!("{what}: {shown:#}"));
    let rescued = Database::open(&target).unwrap();
    let txn = rescued.begin_read().unwrap();
    if named {
        let table = txn.open_table(&ROWS).unwrap();
        assert_eq!(table.get(8).unwrap().as_deref(), Some("value 8"), "{what}");
        assert_eq!(table.get(7).unwrap(), Some("large ".repeat(5_000)), "{what}");
        assert_eq!(txn.open_table(&OTHER).unwrap().get("one").unwrap(), Some(1), "{what}");
    } else {
        let table = TableDefinition::<&[u8], &[u8]>::named(rows["table"].as_str().unwrap());
        let table = txn.open_table(&table).unwrap();
        assert_eq!(table.get(&8u64.to_be_bytes()[..]).unwrap().as_deref(), Some(&b"value 8"[..]), "{what}");
    }
}

#[test]
fn whatever_is_lost() {
    for (lost, named) in [("holdfast.meta", true), ("checkpoint", true), ("undo.hf", true), ("system.hf", false)] {
        let dir = tempfile::tempdir().unwrap();
        let data = database(dir.path());
        fs::remove_file(data.join(lost)).unwrap();
        assert_salvaged(&data, lost, named);
    }
}

/// They had no room in the pages of the new database, and their rows were lost.
#[test]
fn with_keys_as_long_as_its_pages_allow() {
    const LONG: TableDefinition<&str, u64> = TableDefinition::new("long");
    let dir = tempfile::tempdir().unwrap();
    let (data, target) = (dir.path().join("data.hf"), dir.path().join("rescued.hf"));
    let db = Database::builder().page_size(65_536).create(&data).unwrap();
    let key = |n: u64| format!("{n}{}", "k".repeat(15_000));
    db.transact(|txn| (0..20).try_for_each(|n| txn.open_table(&LONG)?.insert(&key(n)[..], n))).unwrap();
    db.close().unwrap();
    fs::remove_file(data.join("checkpoint")).unwrap();
    let out = holdfast(&[Path::new("check"), &data, Path::new("--salvage"), &target]);
    assert!(String::from_utf8_lossy(&out.stdout).contains("long: 20 rows rescued"), "{out:?}");
    let rescued = Database::open(&target).unwrap();
    assert_eq!(rescued.stats().cache.page_size, 65_536);
    let txn = rescued.begin_read().unwrap();
    assert_eq!(txn.open_table(&LONG).unwrap().get(&key(7)[..]).unwrap(), Some(7));
}

#[test]
fn from_the_tables_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    let data = database(dir.path());
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('t') {
            // The header, which contains the page size, is lost too.
            let mut bytes = fs::read(&path).unwrap();
            bytes[..4096].fill(0xee);
            fs::write(&path, bytes).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
    }
    let before = fs::read_dir(&data).unwrap().count();
    assert_salvaged(&data, "holdfast.meta", false);
    assert_eq!(fs::read_dir(&data).unwrap().count(), before, "nothing is written there");
}

#[test]
fn what_is_no_database_is_not_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("rescued");
    let out = holdfast(&[Path::new("check"), dir.path(), Path::new("--salvage"), &target]);
    assert_eq!(out.status.code(), Some(1));
    assert!(!target.exists());
}
