//! Sessions that wrote large values in a cache of five megabytes stood still within seconds: an
//! allocation waited for a frame with a page latched, and for that very page. Here every kind of
//! change meets every other one in the smallest cache. The number of operations is fixed; a
//! watchdog tells a hang from a slow machine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast::{Database, Error, FlushAtCommit, IndexDefinition, Result, TableDefinition, WriteOptions};

use crate::common;

type Row = (u64, &'static [u8]);
type RowOwned = (u64, Vec<u8>);

const BY_GROUP: IndexDefinition<u64, Row, u64> =
    IndexDefinition::new("by_group", |_: &u64, row: &RowOwned, keys| keys.push(row.0));
const LARGE: TableDefinition<u64, &[u8]> = TableDefinition::new("large");

fn small() -> TableDefinition<u64, Row> {
    TableDefinition::new("small").index(&BY_GROUP)
}

/// Nothing is done for so long: all stand still, or the machine does.
const PATIENCE: Duration = Duration::from_secs(180);

/// Ends the process if `done` does not move for a long time, until `over`.
fn watch(done: &AtomicU64, over: &AtomicBool) {
    let (mut last, mut since) = (0, Instant::now());
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        let now = done.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > PATIENCE {
            eprintln!("nothing is done for {PATIENCE:?}, after {now} operations");
            std::process::abort();
        }
    }
}

/// One operation of session `t`. Each has its own rows.
fn operate(db: &Database, t: u64, i: u64) -> Result<()> {
    let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    let key = t * 10_000 + i % 12;
    match i % 6 {
        0 | 1 => {
            let value = vec![t as u8; 20_000 + (i * 7919 + t * 131) as usize % 60_000];
            db.transact_with(&options, |txn| txn.open_table(&LARGE)?.upsert(key, &value[..]).map(drop))
        }
        2 | 3 => db.transact_with(&options, |txn| {
            let rows = txn.open_table(&small())?;
            (0..40).try_for_each(|n| rows.upsert(t * 10_000 + i * 40 + n, (n, &[t as u8; 300][..])).map(drop))
        }),
        4 => db.transact_with(&options, |txn| {
            let rows = txn.open_table(&small())?;
            (0..60).try_for_each(|n| rows.delete(t * 10_000 + (i - 2) * 40 + n).map(drop))?;
            txn.open_table(&LARGE)?.delete(key - 4).map(drop)
        }),
        _ => {
            let txn = db.begin_read()?;
            let found = txn.open_table(&small())?.index(&BY_GROUP)?.range(t % 40..=t % 40 + 3)?;
            found.take(200).try_for_each(|entry| entry.map(drop))?;
            let Some(value) = txn.open_table(&LARGE)?.get(key - 5)? else { return Ok(()) };
            assert!(value.iter().all(|&b| b == t as u8), "a value of another session");
            Ok(())
        }
    }
}

/// Tables come and go, and files are shortened.
fn administer(db: &Database, i: u64) -> Result<()> {
    let name = ["first", "second"][i as usize % 2];
    let rows: TableDefinition<u64, &[u8]> = TableDefinition::new(name);
    db.transact(|txn| txn.open_table(&rows)?.insert(i, &[7; 30_000][..]))?;
    match db.drop_table(name) {
        Ok(()) | Err(Error::LockTimeout) => {}
        Err(error) => return Err(error),
    }
    if i % 4 == 3 { db.compact().map(drop) } else { Ok(()) }
}

fn run(cache_bytes: u64, page_size: usize, sessions: u64, operations: u64) {
    let db = Database::builder()
        .cache_size_bytes(cache_bytes)
        .page_size(page_size)
        .log_capacity_bytes(64 << 20)
        .in_memory()
        .unwrap();
    db.transact(|txn| txn.open_table(&LARGE).map(drop)).unwrap();
    db.transact(|txn| txn.open_table(&small()).map(drop)).unwrap();
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| watch(&done, &over));
        let workers: Vec<_> = (0..=sessions)
            .map(|t| {
                let (db, done) = (db.clone(), &done);
                scope.spawn(move || {
                    let count = if t == sessions { operations / 2 } else { operations };
                    for i in 0..count {
                        if t == sessions {
                            administer(&db, i).unwrap()
                        } else {
                            operate(&db, t, i).unwrap()
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|result| result.unwrap());
    });
    common::assert_sound(&db);
}

#[test]
fn with_ordinary_pages() {
    run(5 << 20, 16 << 10, 24, 24);
}

/// Eighty frames.
#[test]
fn with_the_largest_pages() {
    run(5 << 20, 64 << 10, 24, 12);
}
