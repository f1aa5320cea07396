//! A backup taken while others write, restored and compared.
//!
//! ```sh
//! cargo run --release -p holdfast-engine --example backup_restore
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast::{BackupOptions, Database, Result, TableDefinition};

/// Two tables that every transaction changes together.
const LEFT: TableDefinition<u64, u64> = TableDefinition::new("left");
const RIGHT: TableDefinition<u64, u64> = TableDefinition::new("right");

fn write(db: &Database, round: u64) -> Result<()> {
    db.transact(|txn| {
        txn.open_table(&LEFT)?.upsert(round % 100, round)?;
        txn.open_table(&RIGHT)?.upsert(round % 100, round)?;
        Ok(())
    })
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Database::create(dir.path().join("db"))?;
    for round in 0..500 {
        write(&db, round)?;
    }

    let stop = AtomicBool::new(false);
    let copy = dir.path().join("copy");
    let report = std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> Result<u64> {
            let mut round = 500;
            while !stop.load(Ordering::Relaxed) {
                write(&db, round)?;
                round += 1;
            }
            Ok(round)
        });
        let options = BackupOptions::new().rate_limit_bytes_per_second(200 << 20);
        let report = db.backup(&copy, &options);
        stop.store(true, Ordering::Relaxed);
        let rounds = writer.join().expect("the writer does not panic")?;
        println!("{rounds} transactions by the end of the backup");
        report
    })?;
    println!("copied {} files, {} bytes, and {} bytes of log", report.files, report.bytes, report.log_bytes);

    // Restoring checks every page; then the copy is a database like any other.
    assert!(Database::restore(&copy)?.is_clean());
    let copy = Database::open(&copy)?;
    let txn = copy.begin_read()?;
    let left = txn.open_table(&LEFT)?.iter()?.collect::<Result<Vec<_>>>()?;
    let right = txn.open_table(&RIGHT)?.iter()?.collect::<Result<Vec<_>>>()?;
    assert_eq!(left.len(), 100);
    assert_eq!(left, right, "the copy is one moment of the database");
    Ok(())
}
