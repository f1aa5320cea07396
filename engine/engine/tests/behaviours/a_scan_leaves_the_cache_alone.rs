//! A table that is in use stays cached while a table several times the cache is read from end to
//! end: without a word about it, with one, and not at all if the program says that it is no scan.

use holdfast::metrics::Counter;
use holdfast::{Database, ReadOptions, Scan, TableDefinition};

use crate::common;

const HOT: TableDefinition<u64, &[u8]> = TableDefinition::new("hot");
const BIG: TableDefinition<u64, &[u8]> = TableDefinition::new("big");

/// Rows of the big table between two readings of the hot one: 500 pages, so that a hot page that
/// has not proved itself yet is still remembered when it is wanted again. (At 2,500 pages, more
/// than the cache and its ghost hold, how many hot pages stayed was the luck of the first reading:
/// 66 to 102 of 570 were read again each time, or none.)
const EVERY: u64 = 2_000;

fn database() -> Database {
    let db = common::small().in_memory().unwrap();
    db.create_table_with(&BIG, |loader| (0..40_000).try_for_each(|i| loader.push(i, &[3; 900]))).unwrap();
    db.create_table_with(&HOT, |loader| (0..4_000).try_for_each(|i| loader.push(i, &[1; 500]))).unwrap();
    db
}

fn read_hot(db: &Database) {
    let txn = db.begin_read().unwrap();
    let hot = txn.open_table(&HOT).unwrap();
    (0..4_000).for_each(|i| assert!(hot.get(i * 7 % 4_000).unwrap().is_some()));
}

fn hot_misses(db: &Database) -> u64 {
    db.stats().tables.iter().find(|t| t.name == "hot").unwrap().misses()
}

/// Pages of the hot table read from disk beside three passes over the big one.
fn misses_beside(scan: Scan) -> u64 {
    let db = database();
    (0..3).for_each(|_| read_hot(&db));
    let before = hot_misses(&db);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let txn = db.begin_read().unwrap();
        let big = txn.open_table(&BIG).unwrap();
        let mut cursor = big.cursor(&ReadOptions::new().scan(scan));
        cursor.seek(..).unwrap();
        let mut rows = 0;
        while cursor.next_into(&mut key, &mut value).unwrap() {
            rows += 1;
            if rows % EVERY == 0 {
                read_hot(&db);
            }
        }
        assert_eq!(rows, 40_000);
    }
    hot_misses(&db) - before
}

/// The pages of large values are most of such a table. It was taken for as large as its leaves, so
/// that no pass over it was a scan, or none of a table that counts.
#[test]
fn large_values_are_a_part_of_the_scan() {
    const VALUES: TableDefinition<u64, &[u8]> = TableDefinition::new("values");
    let db = common::small().in_memory().unwrap();
    db.create_table_with(&VALUES, |loader| (0..300).try_for_each(|i| loader.push(i, &[9; 100_000]))).unwrap();
    for scan in [Scan::Auto, Scan::Yes] {
        let before = db.metrics_snapshot();
        let txn = db.begin_read().unwrap();
        let table = txn.open_table(&VALUES).unwrap();
        let mut cursor = table.cursor(&ReadOptions::new().scan(scan));
        cursor.seek(..).unwrap();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while cursor.next_into(&mut key, &mut value).unwrap() {
            assert_eq!(value.len(), 100_000);
        }
        let after = db.metrics_snapshot();
        let counted = |counter| after.get(counter) - before.get(counter);
        let (read, through_ring) = (counted(Counter::PagesRead), counted(Counter::PagesEvictedRing));
        assert!(read > 5_000 && through_ring > read / 2, "{read} pages were read, {through_ring} through the ring");
    }
}

#[test]
fn that_is_found_out() {
    assert_eq!(misses_beside(Scan::Auto), 0);
}

#[test]
fn that_is_declared() {
    assert_eq!(misses_beside(Scan::Yes), 0);
}

/// The policy alone, from the references: what it may lose, once, is what has not left small, a
/// tenth of the frames.
#[test]
fn that_is_denied() {
    let misses = misses_beside(Scan::No);
    assert!(misses <= 204, "{misses}");
}
