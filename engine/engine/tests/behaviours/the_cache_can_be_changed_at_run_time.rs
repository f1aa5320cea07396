//! Size and policy of the cache change beside readers and writers, and rows stay what they are.

use std::sync::atomic::{AtomicBool, Ordering};

use holdfast::{Error, FlushAtCommit, ReplacementPolicy, WriteOptions};

use crate::common::{self, ROWS};

#[test]
fn size_and_policy() {
    let db = common::small().cache_size_max_bytes(16 << 20).in_memory().unwrap();
    common::fill(&db, 0, 20_000);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| common::assert_filled(&db, 0, 20_000)));
        for bytes in [16 << 20, 5 << 20, 12 << 20] {
            db.set_cache_size_bytes(bytes).unwrap();
            assert_eq!(db.stats().cache.size_bytes, bytes);
        }
        let midpoint = ReplacementPolicy::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 0 };
        for (policy, name) in
            [(ReplacementPolicy::Lru, "lru"), (midpoint, "midpoint_lru"), (ReplacementPolicy::Holdfast, "holdfast")]
        {
            db.set_replacement_policy(policy).unwrap();
            assert_eq!(db.stats().cache.policy, name);
        }
    });
    for bytes in [1 << 20, 17 << 20] {
        let error = db.set_cache_size_bytes(bytes).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(m) if m.contains("cache_size_bytes")), "{error}");
    }
    common::assert_filled(&db, 0, 20_000);
}

/// Rows of about 8 MB, more than the smallest cache: every session evicts.
const COUNT: u64 = 25_000;

fn padded(i: u64, round: u64) -> String {
    format!("{i} {round} {}", "p".repeat(300))
}

#[test]
fn under_load() {
    let db = common::small().cache_size_bytes(5 << 20).cache_size_max_bytes(16 << 20).in_memory().unwrap();
    db.create_table_with(&ROWS, |rows| (0..COUNT).try_for_each(|i| rows.push(i, &padded(i, 0)))).unwrap();
    let midpoint = |time| ReplacementPolicy::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: time };
    let policies = [midpoint(0), ReplacementPolicy::Lru, midpoint(1_000), ReplacementPolicy::Holdfast];
    let done = AtomicBool::new(false);
    let rounds: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let lazily = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
                    let mut round = 0;
                    // Each has its own half of the rows and visits all of it over and over.
                    while !done.load(Ordering::Relaxed) {
                        round += 1;
                        for at in (thread..COUNT).step_by(2).collect::<Vec<_>>().chunks(500) {
                            db.transact_with(&lazily, |txn| {
                                let rows = txn.open_table(&ROWS)?;
                                at.iter().try_for_each(|&i| rows.update(i, &padded(i, round)).map(drop))
                            })
                            .unwrap();
                        }
                    }
                    round
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let txn = db.begin_read().unwrap();
                        let mut expected = 0;
                        for row in txn.open_table(&ROWS).unwrap().iter().unwrap() {
                            let (i, value) = row.unwrap();
                            assert_eq!((i, value.split(' ').next()), (expected, Some(i.to_string().as_str())));
                            expected += 1;
                        }
                        assert_eq!(expected, COUNT);
                    }
                })
            })
            .collect();
        for (n, bytes) in
            [16 << 20, 5 << 20, 9 << 20, 5 << 20, 12 << 20, 6 << 20].into_iter().cycle().take(24).enumerate()
        {
            db.set_replacement_policy(policies[n % policies.len()]).unwrap();
            db.set_cache_size_bytes(bytes).unwrap();
            assert_eq!(db.stats().cache.size_bytes, bytes);
            // A look at some rows between two changes, so that there is something to evict under
            // each.
            let txn = db.begin_read().unwrap();
            let rows = txn.open_table(&ROWS).unwrap();
            (0..COUNT).step_by(37).for_each(|i| assert!(rows.get(i).unwrap().is_some()));
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let txn = db.begin_read().unwrap();
    for row in txn.open_table(&ROWS).unwrap().iter().unwrap() {
        let (i, value) = row.unwrap();
        assert_eq!(value, padded(i, rounds[(i % 2) as usize]));
    }
    drop(txn);
    common::assert_sound(&db);
}
