//! Throughput of many sessions in one place: `cargo bench -p holdfast-engine --bench contention
//! [SECONDS]`.
//!
//! What each session does is a transaction of one statement, made durable in memory, so that no
//! disk is involved. The sessions all want the same row, four rows, or the end of one table. With
//! the number of sessions throughput falls by what waking a thread costs; where it falls with the
//! square of it, a thread visits all waiters whenever one goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdfast::{Database, TableDefinition, WriteTransaction};

const ROWS: TableDefinition<u64, u64> = TableDefinition::new("rows");
const SESSIONS: [usize; 6] = [1, 8, 32, 128, 512, 1024];
/// Beyond the rows that are updated.
const FIRST_INSERTED: u64 = 1 << 32;

/// A statement; the number is another one each time.
type Statement = fn(&WriteTransaction, u64) -> holdfast::Result<()>;

fn update(txn: &WriteTransaction, row: u64, value: u64) -> holdfast::Result<()> {
    txn.open_table(&ROWS)?.update(row, value).map(|_| ())
}

const PLACES: [(&str, Statement); 3] = [
    ("one row", |txn, n| update(txn, 0, n)),
    ("four rows", |txn, n| update(txn, n % 4, n)),
    ("end of a table", |txn, n| txn.open_table(&ROWS)?.insert(FIRST_INSERTED + n, n)),
];

/// What the sessions did.
#[derive(Default)]
struct Done {
    /// Sessions that have begun.
    sessions: AtomicU64,
    transactions: AtomicU64,
    /// Transactions that found their row changed since they began, and are run again.
    again: AtomicU64,
    longest_us: AtomicU64,
}

/// Runs transactions until `stop`.
fn session(db: &Database, statement: Statement, next: &AtomicU64, done: &Done, stop: &AtomicBool) {
    done.sessions.fetch_add(1, Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let txn = db.begin_write().expect("a database in memory works");
        match statement(&txn, next.fetch_add(1, Ordering::Relaxed)).and_then(|()| txn.commit()) {
            Ok(_) => done.transactions.fetch_add(1, Ordering::Relaxed),
            Err(e) if e.is_retryable() => done.again.fetch_add(1, Ordering::Relaxed),
            Err(e) => panic!("{e}"),
        };
        done.longest_us.fetch_max(begin.elapsed().as_micros() as u64, Ordering::Relaxed);
    }
}

fn measure(db: &Database, name: &str, statement: Statement, sessions: usize, next: &AtomicU64, turn: Duration) {
    let (done, stop) = (Done::default(), AtomicBool::new(false));
    let (transactions, seconds) = std::thread::scope(|scope| {
        for _ in 0..sessions {
            scope.spawn(|| session(db, statement, next, &done, &stop));
        }
        // What is done before the last of them has a core does not count.
        while done.sessions.load(Ordering::Relaxed) < sessions as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (begin, before) = (Instant::now(), done.transactions.load(Ordering::Relaxed));
        std::thread::sleep(turn);
        let seen = (done.transactions.load(Ordering::Relaxed) - before, begin.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        seen
    });
    let (all, again) = (done.transactions.into_inner() as f64, done.again.into_inner() as f64);
    println!(
        "{name:<16} {sessions:>5} sessions {:>10.0} transactions/s, {:>4.1} % again, longest {:>8.1} ms",
        transactions as f64 / seconds,
        again / (all + again) * 100.0,
        done.longest_us.into_inner() as f64 / 1e3,
    );
}

fn main() -> holdfast::Result<()> {
    let seconds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(2.0);
    let next = AtomicU64::new(0);
    for (name, statement) in PLACES {
        let db = Database::builder().cache_size_bytes(512 << 20).in_memory()?;
        db.create_table(&ROWS)?;
        let txn = db.begin_write()?;
        (0..1000).try_for_each(|n| txn.open_table(&ROWS)?.insert(n, 0))?;
        txn.commit()?;
        for sessions in SESSIONS {
            measure(&db, name, statement, sessions, &next, Duration::from_secs_f64(seconds));
        }
        db.close()?;
    }
    Ok(())
}
