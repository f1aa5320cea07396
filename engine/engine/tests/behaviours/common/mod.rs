//! What several tests use.

pub mod redo;
pub mod rows;
pub mod script;

use std::sync::Arc;
use std::time::Duration;

use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Builder, Database, TableDefinition};
use holdfast_testkit::CrashDisk;

/// For how long a change of definitions waits for transactions: longer than any test lasts.
pub const WAIT: Duration = Duration::from_secs(600);

/// True if the long form of a test is wanted: every case instead of a sample.
pub fn exhaustive() -> bool {
    std::env::var_os("HOLDFAST_EXHAUSTIVE").is_some()
}

/// The table that most tests write to.
pub const ROWS: TableDefinition<u64, &str> = TableDefinition::new("rows");

/// A small database's settings: everything is reached quickly.
pub fn small() -> Builder {
    Database::builder().cache_size_bytes(8 << 20).log_capacity_bytes(8 << 20).page_size(4096)
}

/// A cache and a log on `disk` so small that both are always short, and what an open does is the
/// same each time.
pub fn tight_on(disk: &(impl Disk + Clone + 'static)) -> Builder {
    Database::builder()
        .cache_size_bytes(5 << 20)
        .log_capacity_bytes(4 << 20)
        .log_buffer_bytes(64 << 10)
        .page_size(4096)
        .warm_up(false)
        .disk(Arc::new(disk.clone()))
}

/// The files of a disk on another one, in memory.
pub fn copy(from: &dyn Disk) -> MemoryDisk {
    let to = MemoryDisk::new();
    for name in from.list().unwrap() {
        let file = from.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        to.open(&name, OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap().write_at(0, &bytes).unwrap();
    }
    to
}

/// A database on `disk`, created.
pub fn create_on(disk: &(impl Disk + Clone + 'static)) -> Database {
    small().disk(Arc::new(disk.clone())).create("test").expect("an empty disk takes a database")
}

/// The database on `disk`, opened.
pub fn open_on(disk: &(impl Disk + Clone + 'static)) -> Database {
    small().disk(Arc::new(disk.clone())).open("test").expect("the database opens")
}

/// A database in memory whose disk can be looked at.
pub fn on_memory_disk() -> (MemoryDisk, Database) {
    let disk = MemoryDisk::new();
    let db = create_on(&disk);
    (disk, db)
}

/// A database on a disk that can lose power.
pub fn on_crash_disk() -> (CrashDisk, Database) {
    let disk = CrashDisk::new();
    let db = create_on(&disk);
    (disk, db)
}

/// Inserts rows `from..to` with values that name them.
pub fn fill(db: &Database, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let end = (at + 500).min(to);
        db.transact(|txn| {
            let rows = txn.open_table(&ROWS)?;
            (at..end).try_for_each(|i| rows.insert(i, &value(i)))
        })
        .expect("rows are inserted");
        at = end;
    }
}

/// The value that [`fill`] gives row `i`.
pub fn value(i: u64) -> String {
    format!("value {i} {}", "x".repeat((i % 97) as usize))
}

/// Checks that `db` has exactly the rows `from..to`.
pub fn assert_filled(db: &Database, from: u64, to: u64) {
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let mut expected = from;
    for row in rows.iter().unwrap() {
        assert_eq!(row.unwrap(), (expected, value(expected)));
        expected += 1;
    }
    assert_eq!(expected, to);
}

/// Checks that nothing is wrong with `db`.
pub fn assert_sound(db: &Database) {
    let report = db.verify(&holdfast::VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
