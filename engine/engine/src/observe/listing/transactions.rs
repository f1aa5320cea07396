//! Open transactions, their locks, and their waits for each other.

use std::time::SystemTime;

use holdfast_base::{HashMap, IndexId};
use holdfast_txn::{Isolation, KeyRange, LockInfo, LockKind, LockWaitInfo, Serial, TrxInfo};

use super::cells::{Cell, Column, EachRow, NAME};
use crate::instance::Instance;
use crate::observe::names::{Names, lock_data, lock_id};

/// Characters of a lock's id: numbers, and the shown bytes of two keys.
const LOCK_ID: u32 = 256;
/// Characters of a statement; InnoDB shows as many.
const QUERY: usize = 1024;

pub(super) const TRX: &[Column] = &[
    Column::number("trx_id"),
    Column::text("trx_state", 13),
    Column::time("trx_started"),
    Column::text("trx_requested_lock_id", LOCK_ID).or_null(),
    Column::time("trx_wait_started").or_null(),
    Column::number("trx_weight"),
    Column::number("trx_mysql_thread_id"),
    Column::text("trx_query", QUERY as u32).or_null(),
    Column::number("trx_rows_locked"),
    Column::number("trx_rows_modified"),
    Column::text("trx_isolation_level", 16),
    Column::number("trx_is_read_only"),
    Column::number("trx_row_id").or_null(),
];

pub(super) const LOCKS: &[Column] = &[
    Column::text("lock_id", LOCK_ID),
    Column::number("lock_trx_id"),
    Column::text("lock_mode", 32),
    Column::text("lock_type", 32),
    Column::text("lock_status", 7),
    Column::text("lock_table", NAME).or_null(),
    Column::text("lock_index", NAME).or_null(),
    Column::number("lock_space").or_null(),
    Column::text("lock_data", LOCK_ID).or_null(),
];

pub(super) const LOCK_WAITS: &[Column] = &[
    Column::number("requesting_trx_id"),
    Column::text("requested_lock_id", LOCK_ID),
    Column::number("blocking_trx_id"),
    Column::text("blocking_lock_id", LOCK_ID),
];

fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}

pub(super) fn transactions(instance: &Instance, each: &mut EachRow<'_>) {
    let now = SystemTime::now();
    instance.txns.transactions().iter().all(|trx| transaction(trx, now, each));
}

fn transaction(trx: &TrxInfo, now: SystemTime, each: &mut EachRow<'_>) -> bool {
    let ago = |age| Cell::Time(now.checked_sub(age).unwrap_or(now));
    let requested = trx.waiting.as_ref().map(|(wanted, _)| lock_id(trx.serial, wanted.index, &wanted.kind));
    let query = trx.session.as_ref().map(|s| shortened(&s.query)).filter(|q| !q.is_empty());
    each(&[
        Cell::Unsigned(trx.serial),
        Cell::Text(if trx.waiting.is_some() { "LOCK WAIT" } else { "RUNNING" }),
        ago(trx.age),
        Cell::text(requested.as_deref()),
        trx.waiting.as_ref().map_or(Cell::Null, |(_, waited)| ago(*waited)),
        Cell::Unsigned(trx.undo_records + trx.row_locks as u64),
        Cell::Unsigned(trx.session.as_ref().map_or(0, |s| s.id)),
        Cell::text(query),
        Cell::Unsigned(trx.row_locks as u64),
        Cell::Unsigned(trx.undo_records),
        Cell::Text(isolation_name(trx.isolation)),
        Cell::flag(trx.read_only),
        if trx.txn.0 == 0 { Cell::Null } else { Cell::Unsigned(trx.txn.0) },
    ])
}

/// The beginning of a statement.
fn shortened(query: &str) -> &str {
    query.char_indices().nth(QUERY).map_or(query, |(end, _)| &query[..end])
}

pub(super) fn locks(instance: &Instance, each: &mut EachRow<'_>) {
    let names = Names::of(instance);
    instance.txns.locks().locks().iter().all(|lock| row_of_lock(lock, &names, each));
}

fn row_of_lock(lock: &LockInfo, names: &Names, each: &mut EachRow<'_>) -> bool {
    let name = names.get(lock.index);
    let table = name.map(|n| n.sql_table());
    each(&[
        Cell::Text(&lock_id(lock.owner, lock.index, &lock.kind)),
        Cell::Unsigned(lock.owner),
        Cell::Text(lock.mode),
        Cell::Text(match lock.kind {
            LockKind::Row(_) => "RECORD",
            LockKind::Range(_) => "RANGE",
            LockKind::Table => "TABLE",
        }),
        Cell::Text(if lock.granted { "GRANTED" } else { "WAITING" }),
        Cell::text(table.as_deref()),
        Cell::text(name.map(|n| n.index.as_str())),
        name.map_or(Cell::Null, |n| Cell::Unsigned(u64::from(n.space))),
        Cell::text(lock_data(&lock.kind).as_deref()),
    ])
}

pub(super) fn lock_waits(instance: &Instance, each: &mut EachRow<'_>) {
    let locks = instance.txns.locks();
    let mut ranges = None;
    locks.each_wait(|wait| {
        let blocking = match &wait.wanted.kind {
            LockKind::Range(point) => {
                let ranges = ranges.get_or_insert_with(|| by_owner(locks.range_locks()));
                blocking_range(wait, point, ranges)
            }
            kind => lock_id(wait.blocking, wait.wanted.index, kind),
        };
        each(&[
            Cell::Unsigned(wait.waiting),
            Cell::Text(&lock_id(wait.waiting, wait.wanted.index, &wait.wanted.kind)),
            Cell::Unsigned(wait.blocking),
            Cell::Text(&blocking),
        ])
    });
}

/// The ranges that are locked, by transaction and index.
type Ranges = HashMap<(Serial, IndexId), Vec<KeyRange>>;

fn by_owner(locks: Vec<LockInfo>) -> Ranges {
    let mut ranges = Ranges::default();
    for lock in locks.into_iter().filter(|lock| lock.granted) {
        if let LockKind::Range(range) = lock.kind {
            ranges.entry((lock.owner, lock.index)).or_default().push(range);
        }
    }
    ranges
}

/// The lock that is in the way of an insert at `point`: the range that covers it. (In the way of a
/// lock on a row or a table is that of the same place.)
fn blocking_range(wait: &LockWaitInfo, point: &KeyRange, ranges: &Ranges) -> String {
    let (owner, index) = (wait.blocking, wait.wanted.index);
    let mut held = ranges.get(&(owner, index)).into_iter().flatten();
    let range = held.find(|range| range.covers(point)).unwrap_or(point);
    lock_id(owner, index, &LockKind::Range(range.clone()))
}
