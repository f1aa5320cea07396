//! A backup taken while others write holds the database as it was at one moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use holdfast::{BackupOptions, Database, Error, TableDefinition};

use crate::common;

const LEFT: TableDefinition<u64, u64> = TableDefinition::new("left");
const RIGHT: TableDefinition<u64, u64> = TableDefinition::new("right");

fn write(db: &Database, round: u64) {
    db.transact(|txn| {
        txn.open_table(&LEFT)?.upsert(round * 7 % 501, round)?;
        txn.open_table(&RIGHT)?.upsert(round * 7 % 501, round).map(drop)
    })
    .unwrap();
}

#[test]
fn while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path().join("db")).unwrap();
    (0..1_000).for_each(|round| write(&db, round));
    common::fill(&db, 0, 3_000);

    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(1_000));
    let copy = dir.path().join("copy");
    let calls = std::sync::Arc::new(AtomicU64::new(0));
    let started = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                write(&db, round);
                if round % 50 == 0 {
                    let table = TableDefinition::<u64, u64>::named(format!("new {round}"));
                    db.transact(|txn| txn.open_table(&table)?.insert(round, round)).unwrap();
                }
                if round % 50 == 25 && round > 1_050 {
                    let _ = db.drop_table(&format!("new {}", round - 75));
                }
            }
        });
        let started = rounds.load(Ordering::Relaxed);
        let counted = std::sync::Arc::clone(&calls);
        let options = BackupOptions::new().on_progress(move |p| {
            assert!(p.bytes_done <= p.bytes_total);
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let result = db.backup(&copy, &options);
        stop.store(true, Ordering::Relaxed);
        result.unwrap();
        started
    });
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert!(matches!(db.backup(&copy, &BackupOptions::new()), Err(Error::AlreadyExists(_))));

    assert!(Database::restore(&copy).unwrap().is_clean());
    let copy = common::small().open(&copy).unwrap();
    common::assert_filled(&copy, 0, 3_000);
    let txn = copy.begin_read().unwrap();
    let all = |table| txn.open_table(table).unwrap().iter().unwrap().map(|r| r.unwrap()).collect::<Vec<_>>();
    let (left, right) = (all(&LEFT), all(&RIGHT));
    assert_eq!(left, right);
    // Everything that was committed before it began is in it.
    assert!(left.iter().map(|(_, round)| *round).max().unwrap() + 1 >= started);
    // Tables made meanwhile are there as a whole or not at all.
    for table in txn.list_tables().iter().filter(|name| name.starts_with("new ")) {
        txn.open_table(&TableDefinition::<u64, u64>::named(table)).unwrap();
    }
}

/// One that a user does not want any more, at a rate at which it would take for ever.
#[test]
fn it_can_be_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path().join("db")).unwrap();
    common::fill(&db, 0, 100);
    let copy = dir.path().join("copy");
    let asked = std::sync::Arc::new(AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&asked);
    let stop = move || counted.fetch_add(1, Ordering::Relaxed) > 0;
    let options = BackupOptions::new().rate_limit_bytes_per_second(1).stop_when(stop);
    assert!(matches!(db.backup(&copy, &options), Err(Error::Interrupted)));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    // What it has copied is not taken for a database, nor for an empty directory.
    assert!(Database::open(&copy).unwrap_err().is_damage());
    assert!(Database::create_or_open(&copy).unwrap_err().is_damage());
    assert!(db.backup(dir.path().join("another"), &BackupOptions::new()).is_ok());
}

/// That of all backups holds directories only, and was taken for an empty one.
#[test]
fn it_is_not_put_beside_other_directories() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path().join("db")).unwrap();
    let all = dir.path().join("all");
    db.backup(all.join("monday"), &BackupOptions::new()).unwrap();
    assert!(matches!(db.backup(&all, &BackupOptions::new()), Err(Error::AlreadyExists(_))));
    assert_eq!(std::fs::read_dir(&all).unwrap().count(), 1);
}

/// What is told of the progress creates tables: the backup once called it while it held definitions
/// still, and both waited for ever.
#[test]
fn what_is_told_of_the_progress_may_use_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let db = common::small().create(dir.path().join("db")).unwrap();
    common::fill(&db, 0, 100);
    let (calls, program) = (AtomicU64::new(0), db.clone());
    let options = BackupOptions::new().on_progress(move |progress| {
        let table = TableDefinition::<u64, u64>::named(format!("call {}", calls.fetch_add(1, Ordering::Relaxed)));
        program.transact(|txn| txn.open_table(&table)?.insert(1, progress.bytes_done)).unwrap();
    });
    let copy = dir.path().join("copy");
    db.backup(&copy, &options).unwrap();
    drop(options);
    assert!(Database::restore(&copy).unwrap().is_clean());
    let copy = common::small().open(&copy).unwrap();
    common::assert_filled(&copy, 0, 100);
    assert!(copy.list_tables().len() > 1);
    assert!(copy.list_tables().len() <= db.list_tables().len());
}
