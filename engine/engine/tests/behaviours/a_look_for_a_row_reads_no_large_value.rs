//! Whether there is a row can be told without its value, of which `contains` once read all pages.

use holdfast::metrics::Counter;
use holdfast::{Database, Isolation, TableDefinition, WriteOptions};

use crate::common;

const VALUES: TableDefinition<u64, Vec<u8>> = TableDefinition::new("values");

/// Pages that `body` asks for.
fn pages(db: &Database, body: impl FnOnce()) -> u64 {
    let asked = || db.metrics_snapshot().get(Counter::BufferPoolReadRequests);
    let before = asked();
    body();
    asked() - before
}

#[test]
fn at_each_level_of_isolation() {
    let db = common::small().in_memory().unwrap();
    db.transact(|txn| {
        let values = txn.open_table(&VALUES)?;
        values.insert(1, &vec![1; 1 << 20])?;
        values.insert(2, &[2; 10])?;
        values.insert(3, &vec![3; 1 << 20])
    })
    .unwrap();
    db.transact(|txn| txn.open_table(&VALUES)?.delete(3)).unwrap();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let txn = db.begin_write_with(&WriteOptions::new().isolation(isolation)).unwrap();
        let values = txn.open_table(&VALUES).unwrap();
        let looks = pages(&db, || {
            let there: Vec<_> = (0..5).filter(|key| values.contains(*key).unwrap()).collect();
            assert_eq!(there, [1, 2]);
        });
        let read = pages(&db, || assert_eq!(values.get(1).unwrap().map(|value| value.len()), Some(1 << 20)));
        assert!(read > 250, "{read} pages of 4 KiB have 1 MiB");
        assert!(looks < 50, "{isolation:?}: five looks asked for {looks} pages");
    }
    // An older version is looked for, too.
    let snapshot = db.begin_read().unwrap();
    db.transact(|txn| {
        let values = txn.open_table(&VALUES)?;
        values.update(1, &vec![4; 1 << 20])?;
        values.delete(2)
    })
    .unwrap();
    let values = snapshot.open_table(&VALUES).unwrap();
    let looks = pages(&db, || assert!(values.contains(1).unwrap() && values.contains(2).unwrap()));
    assert!(looks < 50, "{looks} pages");
    assert_eq!(values.get(1).unwrap(), Some(vec![1; 1 << 20]));
}
