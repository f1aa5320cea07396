//! 1,024 open cursors and 64 writers on the smallest pool: each makes progress.

use holdfast::{Database, ReadOptions};

use crate::common::{self, ROWS};

#[test]
fn with_writers_beside_them() {
    let db = Database::builder().cache_size_bytes(5 << 20).log_capacity_bytes(16 << 20).in_memory().unwrap();
    common::fill(&db, 0, 40_000);
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let mut cursors: Vec<_> = (0..1_024u64)
        .map(|i| {
            let mut cursor = rows.cursor(&ReadOptions::new());
            cursor.seek(i * 39..).unwrap();
            cursor
        })
        .collect();
    std::thread::scope(|scope| {
        for writer in 0..64u64 {
            let db = db.clone();
            scope.spawn(move || {
                for i in 0..10 {
                    let key = writer * 625 + i * 61;
                    db.transact(|txn| txn.open_table(&ROWS)?.update(key, "changed").map(drop)).unwrap();
                }
            });
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for step in 0..20 {
            for (i, cursor) in (0u64..).zip(&mut cursors) {
                assert!(cursor.next_into(&mut key, &mut value).unwrap());
                let at = i * 39 + step;
                assert_eq!((key.as_slice(), value.as_slice()), (&at.to_be_bytes()[..], common::value(at).as_bytes()));
            }
        }
    });
}
