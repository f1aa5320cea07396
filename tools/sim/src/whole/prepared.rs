//! What a prepared transaction keeps locked that has read rows with a locking cursor, behind the
//! release of its reads: the rows, and no key between them.
//!
//! Beside sessions a key may be another transaction's to keep. So this is looked at where no other
//! one is open.

use std::ops::Bound;
use std::time::Duration;

use anyhow::{Context, ensure};
use holdfast::raw::{Direction, Lifetime, RawDatabase, RawLock, RawOptions, RawRead, RawTable, RawTransaction};
use holdfast::{Error, FlushAtCommit, Isolation, Result};

use super::history::Coverage;
use super::plan::Dice;

/// Begins with what [`super::temporary::drop_left`] drops.
const NAME: &str = "z prepared";

const XID: &[u8] = b"a transaction that has read rows";

/// How long a change of a table that nothing uses waits at most.
const WAIT: Duration = Duration::from_secs(10);

const LOCK: RawLock = RawLock { exclusive: true, skip_locked: false, linked: false };

/// The rows have even numbers.
fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Prepares a transaction that has read and changed rows, and asks for the rows, and the keys
/// between them, as another one.
///
/// # Errors
/// What is locked that must not be, or the other way round; the errors of the engine.
pub(super) fn check(raw: &RawDatabase, dice: &mut Dice, coverage: &Coverage) -> anyhow::Result<()> {
    coverage.count("xa: rows that a prepared transaction has read");
    raw.create_table(NAME, &[], &[], Lifetime::Lasting)?;
    let rows = 3 + dice.below(30);
    let table = raw.open_table(NAME)?;
    fill(raw, &table, rows)?;
    let mut reader = prepare(raw, &table, rows, dice)?;
    ask(raw, &table, rows)?;
    if dice.percent(50) {
        reader.commit(FlushAtCommit::Sync)?;
    } else {
        reader.txn().rollback()?;
    }
    drop((reader, table));
    Ok(raw.drop_table(NAME, WAIT)?)
}

fn begin(raw: &RawDatabase, isolation: Isolation) -> Result<RawTransaction> {
    let mut txn = raw.begin(&RawOptions { isolation, snapshot_isolation: false, read_only: false })?;
    txn.statement(Duration::ZERO)?;
    Ok(txn)
}

fn fill(raw: &RawDatabase, table: &RawTable, rows: u64) -> Result<()> {
    let mut txn = begin(raw, Isolation::RepeatableRead)?;
    (0..rows).try_for_each(|n| txn.insert(table, 0, &key(2 * n), &b"a row"[..]))?;
    txn.commit(FlushAtCommit::Lazy)
}

/// A prepared transaction that has read all rows with locks, and changed one, and has released what
/// it has only read.
fn prepare(raw: &RawDatabase, table: &RawTable, rows: u64, dice: &mut Dice) -> anyhow::Result<RawTransaction> {
    let mut txn = begin(raw, dice.one_of(&[Isolation::RepeatableRead, Isolation::Serializable]))?;
    let direction = dice.one_of(&[Direction::Forward, Direction::Reverse]);
    let read = RawRead { direction, lock: Some(LOCK), ..RawRead::default() };
    let mut cursor = txn.cursor(table, 0, (Bound::Unbounded, Bound::Unbounded), read)?;
    let mut found = 0;
    while cursor.next()?.is_some() {
        found += 1;
    }
    drop(cursor);
    ensure!(found == rows, "a locking cursor shows {found} rows of {rows}");
    // Without a change it would not be prepared.
    txn.update(table, 0, &key(2 * dice.below(rows)), &b"changed"[..])?;
    txn.prepare(XID, FlushAtCommit::Sync)?;
    txn.release_reads()?;
    Ok(txn)
}

fn ask(raw: &RawDatabase, table: &RawTable, rows: u64) -> anyhow::Result<()> {
    let mut other = begin(raw, Isolation::ReadCommitted)?;
    let mut value = Vec::new();
    for n in 0..rows {
        let key_between = key(2 * n + 1);
        let inserted = other.insert(table, 0, &key_between, &b"between"[..]);
        inserted.with_context(|| format!("a key behind row {n} of {rows} that a prepared transaction has read"))?;
        let got = other.get(table, 0, &key(2 * n), Some(LOCK), &mut value);
        ensure!(
            matches!(got, Err(Error::WouldBlock)),
            "row {n} of {rows} is not locked, though a prepared transaction has read it for update: {got:?}"
        );
    }
    Ok(other.txn().rollback()?)
}
