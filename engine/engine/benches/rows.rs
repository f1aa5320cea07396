//! Time per operation through the public interface when all pages are in the pool: `cargo bench -p
//! holdfast-engine`. Files and log in memory; each line is the median of its rounds.
//!
//! ```text
//! RUSTFLAGS="--cfg rustix_use_libc" cargo bench -p holdfast-engine --bench rows --no-run
//! valgrind --tool=callgrind --toggle-collect='*measured*' \
//!     .../rows-<hash> count <operation> <operations>
//! ```
//!
//! Without the flag valgrind meets calls of the kernel's own code, which it cannot run.
//!
//! `lines <operation> <turns> <threads>` lets threads do one operation each in turns, for `cargo
//! xtask bench lines`, which finds in a trace of it which lines of memory go from one thread to
//! another.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use holdfast::raw::{Lifetime, RawDatabase, RawLock, RawOptions};
use holdfast::{Database, FlushAtCommit, Isolation, ReadOptions, TableDefinition, TableLoader, WriteOptions};

const ROWS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("rows");
const COUNT: u64 = 200_000;
const ROUNDS: usize = 7;

/// The rows of the table that an operation chooses from, at random.
#[derive(Clone, Copy)]
struct Rows<'a> {
    db: &'a Database,
    first: u64,
    count: u64,
    /// If threads do operations in turns.
    turns: Option<&'a Turns>,
}

impl Rows<'_> {
    fn key(&self, n: u64) -> [u8; 8] {
        (self.first + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.count).to_be_bytes()
    }

    /// Does `count` operations.
    #[inline]
    fn each(
        &self,
        first: u64,
        count: u64,
        mut operation: impl FnMut(u64) -> holdfast::Result<()>,
    ) -> holdfast::Result<()> {
        for n in first..first + count {
            match self.turns {
                None => operation(n)?,
                Some(turns) => turns.take(|| operation(n))?,
            }
        }
        Ok(())
    }
}

fn database(rows: u64, megabytes: u64) -> holdfast::Result<Database> {
    let bytes = megabytes << 20;
    let db = Database::builder().cache_size_bytes(bytes).log_capacity_bytes(bytes).in_memory()?;
    let load = |table: &mut TableLoader<'_, _, _>| {
        (0..rows).try_for_each(|n| table.push(&n.to_be_bytes()[..], &[n as u8; 100][..]))
    };
    db.create_table_with(&ROWS, load)?;
    RawDatabase::new(db.clone()).create_table("grows", &[("entries", false)], b"", Lifetime::Lasting)?;
    // Until every page is hot.
    for first in 0..4 {
        get(Rows { db: &db, first: 0, count: rows, turns: None }, first * rows, rows)?;
    }
    Ok(db)
}

/// Point reads within one transaction.
fn get(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    let txn = rows.db.begin_read()?;
    let (table, mut value) = (txn.open_table(&ROWS)?, Vec::new());
    rows.each(first, count, |n| {
        assert!(table.get_into(&rows.key(n)[..], &mut value)?);
        Ok(())
    })
}

/// Point reads, a transaction each.
fn get_each(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    let mut value = Vec::new();
    rows.each(first, count, |n| {
        let txn = rows.db.begin_read()?;
        assert!(txn.open_table(&ROWS)?.get_into(&rows.key(n)[..], &mut value)?);
        Ok(())
    })
}

/// Point reads of 16 rows that all threads read, a transaction each.
fn get_hot(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    get_each(Rows { first: 0, count: 16, ..rows }, first, count)
}

/// Ranges of 100 rows, a transaction each.
fn range(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    let (mut read, mut value) = (Vec::new(), Vec::new());
    rows.each(first, count, |n| {
        let txn = rows.db.begin_read()?;
        let mut cursor = txn.open_table(&ROWS)?.cursor(&ReadOptions::new());
        cursor.seek(&rows.key(n)[..]..)?;
        for _ in 0..100 {
            black_box(cursor.next_into(&mut read, &mut value)?);
        }
        Ok(())
    })
}

/// Updates of one row, a transaction each, that do not wait for the disk.
fn update(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    rows.each(first, count, |n| {
        let txn = rows.db.begin_write_with(&options)?;
        assert!(txn.open_table(&ROWS)?.update(&rows.key(n)[..], &[n as u8; 100][..])?);
        txn.commit()?;
        Ok(())
    })
}

fn as_the_server_does() -> RawOptions {
    RawOptions { isolation: Isolation::RepeatableRead, snapshot_isolation: false, read_only: false }
}

/// The same as a MariaDB server asks for it: the row is read with a lock, then changed.
fn update_locked(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    let raw = RawDatabase::new(rows.db.clone());
    let (table, mut value) = (raw.open_table("rows")?, Vec::new());
    rows.each(first, count, |n| {
        let mut txn = raw.begin(&as_the_server_does())?;
        let lock = RawLock { exclusive: true, skip_locked: false, linked: false };
        assert!(txn.get(&table, 0, &rows.key(n), Some(lock), &mut value)?);
        assert!(txn.update(&table, 0, &rows.key(n), &[n as u8; 100])?);
        txn.commit(FlushAtCommit::Lazy)?;
        Ok(())
    })
}

/// Inserts of a row behind the others and of an entry of a secondary index, a transaction each.
fn insert(rows: Rows<'_>, first: u64, count: u64) -> holdfast::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let raw = RawDatabase::new(rows.db.clone());
    let table = raw.open_table("grows")?;
    rows.each(first, count, |_| {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut txn = raw.begin(&as_the_server_does())?;
        txn.insert(&table, 0, &n.to_be_bytes(), &[n as u8; 190])?;
        let entry = [&rows.key(n)[..], &n.to_be_bytes()].concat();
        txn.insert(&table, 1, &entry, &[8])?;
        txn.commit(FlushAtCommit::Lazy)?;
        Ok(())
    })
}

type Operation = fn(Rows<'_>, u64, u64) -> holdfast::Result<()>;

const OPERATIONS_BY_NAME: [(&str, &str, u64, Operation); 7] = [
    ("get", "get, one transaction", 100_000, get),
    ("get-each", "get, a transaction each", 100_000, get_each),
    ("get-hot", "get of one of 16 rows, a transaction each", 100_000, get_hot),
    ("range", "range of 100 rows, a transaction each", 2_000, range),
    ("update", "update, a transaction each, lazy", 20_000, update),
    ("update-locked", "locking read and update, lazy", 20_000, update_locked),
    ("insert", "insert with a secondary entry, lazy", 20_000, insert),
];

/// What callgrind counts, and the clock measures.
#[inline(never)]
fn measured(rows: Rows<'_>, operation: Operation, first: u64, count: u64) {
    operation(black_box(rows), first, count).expect("a database in memory works");
}

/// Median time per operation, in nanoseconds, of each of `threads` threads.
fn time(rows: Rows<'_>, operation: Operation, count: u64, threads: u64) -> f64 {
    let round = |round: usize| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || measured(rows, operation, (round as u64 * threads + thread) * count, count));
            }
        });
        start.elapsed().as_nanos() as f64 / count as f64
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(round).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// A store to element `t` says that thread `t` begins an operation, one to the last element that
/// the operation has ended. The trace shows both.
static MARKS: [AtomicU64; MOST_THREADS + 1] = [const { AtomicU64::new(0) }; MOST_THREADS + 1];
const MOST_THREADS: usize = 64;

thread_local!(static THREAD: Cell<usize> = const { Cell::new(0) });

/// Whose turn it is.
struct Turns {
    threads: usize,
    next: Mutex<usize>,
    taken: Condvar,
}

impl Turns {
    fn take(&self, operation: impl FnOnce() -> holdfast::Result<()>) -> holdfast::Result<()> {
        let thread = THREAD.get();
        let others = |next: &mut usize| *next % self.threads != thread;
        let mut next = self.taken.wait_while(self.next.lock().unwrap(), others).unwrap();
        MARKS[thread].store(1, Ordering::SeqCst);
        let done = operation();
        MARKS[MOST_THREADS].store(1, Ordering::SeqCst);
        *next += 1;
        self.taken.notify_all();
        done
    }
}

/// Lets each thread do one operation after the other's, `turns` times, on rows of its own. Says
/// where the marks are, and waits for a line of input before it begins.
fn lines(db: &Database, operation: Operation, turns: u64, threads: usize) {
    println!("marks {:x} {}", MARKS.as_ptr() as usize, MARKS.len());
    std::io::stdin().read_line(&mut String::new()).expect("the input can be read");
    let count = ROWS_WITH_TURNS / threads as u64;
    let in_turns = Turns { threads, next: Mutex::default(), taken: Condvar::new() };
    let work = |thread: usize| {
        THREAD.set(thread);
        let rows = Rows { db, first: thread as u64 * count, count, turns: Some(&in_turns) };
        measured(rows, operation, 0, turns);
    };
    let work = &work;
    std::thread::scope(|scope| (0..threads).for_each(|thread| drop(scope.spawn(move || work(thread)))));
}

/// Few, since the trace has every instruction of the loading.
const ROWS_WITH_TURNS: u64 = 1_024;

fn find(name: &str) -> holdfast::Result<Operation> {
    let found = OPERATIONS_BY_NAME.iter().find(|(short, ..)| *short == name);
    let names = OPERATIONS_BY_NAME.map(|(short, ..)| short).join(", ");
    let unknown = || holdfast::Error::invalid(format!("no operation is called {name}; there are {names}"));
    found.map(|(.., operation)| *operation).ok_or_else(unknown)
}

fn number(text: &str) -> holdfast::Result<u64> {
    text.parse().map_err(|error| holdfast::Error::invalid(format!("{text}: {error}")))
}

fn main() -> holdfast::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["count", name, count] => {
            let db = database(COUNT, 256)?;
            measured(Rows { db: &db, first: 0, count: COUNT, turns: None }, find(name)?, 0, number(count)?);
            db.close()
        }
        ["lines", name, turns, threads] => {
            let db = database(ROWS_WITH_TURNS, 16)?;
            lines(&db, find(name)?, number(turns)?, (number(threads)? as usize).clamp(1, MOST_THREADS));
            db.close()
        }
        ["count" | "lines", ..] => {
            Err(holdfast::Error::invalid("usage: count OPERATION OPERATIONS, or lines OPERATION TURNS THREADS"))
        }
        _ => times(),
    }
}

fn times() -> holdfast::Result<()> {
    let db = database(COUNT, 256)?;
    for (_, name, count, operation) in OPERATIONS_BY_NAME {
        let rows = Rows { db: &db, first: 0, count: COUNT, turns: None };
        let (one, two) = (time(rows, operation, count, 1), time(rows, operation, count, 2));
        println!("{name:<40} 1 thread {one:>9.1} ns, 2 threads {two:>9.1} ns each");
    }
    db.close()
}
