//! `compact` and `restore` give the log no more space than it has. They gave it the 96 MiB of a
//! program that sets nothing: a database with a small log was larger after `compact` than before.

use std::path::Path;
use std::process::Command;

use holdfast::{Database, TableDefinition};

const ROWS: TableDefinition<u64, &str> = TableDefinition::new("rows");

fn bytes(dir: &Path) -> u64 {
    dir.read_dir().unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn than_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.hf");
    let db = Database::builder().log_capacity_bytes(8 << 20).page_size(4096).create(&data).unwrap();
    let value = "x".repeat(500);
    for from in 0..10 {
        db.transact(|txn| (0..1_000).try_for_each(|n| txn.open_table(&ROWS)?.insert(from * 1_000 + n, &value)))
            .unwrap();
    }
    db.close().unwrap();
    let before = bytes(&data);
    for command in ["compact", "restore"] {
        let out = Command::new(env!("CARGO_BIN_EXE_holdfast")).arg(command).arg(&data).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let after = bytes(&data);
        assert!(after <= before + (1 << 20), "{command}: {before} bytes before, {after} after");
    }
}
