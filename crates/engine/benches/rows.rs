//! Time per operation through the public interface when all pages are in the pool: `cargo bench -p
//! holdfast-engine`. Files and log in memory; each line is the median of its rounds.
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*measured*' \
//!     .../rows-<hash> count <operation> <operations>
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use holdfast::raw::{Lifetime, RawDatabase, RawLock, RawOptions};
use holdfast::{Database, FlushAtCommit, Isolation, ReadOptions, TableDefinition, TableLoader, WriteOptions};

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
const COUNT: u64 = 200_000;
const ROUNDS: usize = 7;

fn key(n: u64) -> [u8; 8] {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % COUNT).to_be_bytes()
}

fn database() -> holdfast::Result<Database> {
    let db = Database::builder().cache_size_bytes(256 << 20).log_capacity_bytes(256 << 20).in_memory()?;
    let load = |table: &mut TableLoader<'_, _, _>| {
        (0..COUNT).try_for_each(|n| table.push(&n.to_be_bytes()[..], &[n as u8; 100][..]))
    };
    db.create_table_with(&ROWS, load)?;
    RawDatabase::new(db.clone()).create_table("grows", &[("entries", false)], b"", Lifetime::Lasting)?;
    // Until every page is hot.
    for first in 0..4 {
        get(&db, first * COUNT, COUNT)?;
    }
    Ok(db)
}

/// Point reads within one transaction.
fn get(db: &Database, first: u64, count: u64) -> holdfast::Result<()> {
    let txn = db.begin_read()?;
    let (rows, mut value) = (txn.open_table(&ROWS)?, Vec::new());
    for n in first..first + count {
        assert!(rows.get_into(&key(n)[..], &mut value)?);
    }
    Ok(())
}

/// Point reads, a transaction each.
fn get_each(db: &Database, first: u64, count: u64) -> holdfast::Result<()> {
    let mut value = Vec::new();
    for n in first..first + count {
        let txn = db.begin_read()?;
        assert!(txn.open_table(&ROWS)?.get_into(&key(n)[..], &mut value)?);
    }
    Ok(())
}

/// Ranges of 100 rows, a transaction each.
fn range(db: &Database, first: u64, count: u64) -> holdfast::Result<()> {
    let (mut read, mut value) = (Vec::new(), Vec::new());
    for n in first..first + count {
        let txn = db.begin_read()?;
        let mut cursor = txn.open_table(&ROWS)?.cursor(&ReadOptions::new());
        cursor.seek(&key(n)[..]..)?;
        for _ in 0..100 {
            black_box(cursor.next_into(&mut read, &mut value)?);
        }
    }
    Ok(())
}

/// Updates of one row, a transaction each, that do not wait for the disk.
fn update(db: &Database, first: u64, count: u64) -> holdfast::Result<()> {
    let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    for n in first..first + count {
        let txn = db.begin_write_with(&options)?;
        assert!(txn.open_table(&ROWS)?.update(&key(n)[..], &[n as u8; 100][..])?);
        txn.commit()?;
    }
    Ok(())
}

fn as_the_server_does() -> RawOptions {
    RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false }
}

/// The same as a MariaDB server asks for it: the row is read with a lock, then changed.
fn update_locked(db: &Database, first: u64, count: u64) -> holdfast::Result<()> {
    let raw = RawDatabase::new(db.clone());
    let (rows, mut value) = (raw.open_table("rows")?, Vec::new());
    for n in first..first + count {
        let mut txn = raw.begin(&as_the_server_does())?;
        let lock = RawLock { exclusive: true, skip_locked: false, any_age: false };
        assert!(txn.get(&rows, 0, &key(n), Some(lock), &mut value)?);
        assert!(txn.update(&rows, 0, &key(n), &[n as u8; 100])?);
        txn.commit(FlushAtCommit::Lazy)?;
    }
    Ok(())
}

/// Inserts of a row behind the others and of an entry of a secondary index, a transaction each.
fn insert(db: &Database, _: u64, count: u64) -> holdfast::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let raw = RawDatabase::new(db.clone());
    let table = raw.open_table("grows")?;
    for _ in 0..count {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut txn = raw.begin(&as_the_server_does())?;
        txn.insert(&table, 0, &n.to_be_bytes(), &[n as u8; 190])?;
        let entry = [&key(n)[..], &n.to_be_bytes()].concat();
        txn.insert(&table, 1, &entry, &[8])?;
        txn.commit(FlushAtCommit::Lazy)?;
    }
    Ok(())
}

type Operation = fn(&Database, u64, u64) -> holdfast::Result<()>;

const OPERATIONS_BY_NAME: [(&str, &str, u64, Operation); 6] = [
    ("get", "get, one transaction", 100_000, get),
    ("get-each", "get, a transaction each", 100_000, get_each),
    ("range", "range of 100 rows, a transaction each", 2_000, range),
    ("update", "update, a transaction each, lazy", 20_000, update),
    ("update-locked", "locking read and update, lazy", 20_000, update_locked),
    ("insert", "insert with a secondary entry, lazy", 20_000, insert),
];

/// What callgrind counts, and the clock measures.
#[inline(never)]
fn measured(db: &Database, operation: Operation, first: u64, count: u64) {
    operation(black_box(db), first, count).expect("a database in memory works");
}

/// Median time per operation, in nanoseconds, of each of `threads` threads.
fn time(db: &Database, operation: Operation, count: u64, threads: u64) -> f64 {
    let round = |round: usize| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || measured(db, operation, (round as u64 * threads + thread) * count, count));
            }
        });
        start.elapsed().as_nanos() as f64 / count as f64
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(round).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn main() -> holdfast::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let db = database()?;
    if let [command, name, count] = &args[..]
        && command == "count"
    {
        let found = OPERATIONS_BY_NAME.iter().find(|(short, ..)| short == name);
        let (Some((.., operation)), Ok(count)) = (found, count.parse()) else {
            return Err(holdfast::Error::invalid(
                "usage: count get|get-each|range|update|update-locked|insert OPERATIONS",
            ));
        };
        measured(&db, *operation, 0, count);
        return db.close();
    }
    for (_, name, count, operation) in OPERATIONS_BY_NAME {
        let (one, two) = (time(&db, operation, count, 1), time(&db, operation, count, 2));
        println!("{name:<40} 1 thread {one:>9.1} ns, 2 threads {two:>9.1} ns each");
    }
    db.close()
}
