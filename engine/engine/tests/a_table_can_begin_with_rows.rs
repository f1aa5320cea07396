//! `create_table_with`: a table that is created together with its rows.

use holdfast::{Database, Error, IndexDefinition, TableDefinition, VerifyOptions};

const BY_REST: IndexDefinition<u64, Vec<u8>, u64> = IndexDefinition::new("by_rest", |n, _, keys| keys.push(n % 7));
const UNIQUE: IndexDefinition<u64, Vec<u8>, u64> = IndexDefinition::unique("unique", |n, _, keys| keys.push(n / 2));

fn table() -> TableDefinition<u64, Vec<u8>> {
    TableDefinition::new("t").index(&BY_REST)
}

/// Every hundredth value fills several pages.
fn value(n: u64) -> Vec<u8> {
    vec![n as u8; if n.is_multiple_of(100) { 30_000 } else { 50 }]
}

#[test]
fn rows_and_entries_are_there_and_can_be_changed() {
    let db = Database::builder().page_size(4096).cache_size_bytes(5 << 20).in_memory().unwrap();
    db.create_table_with(&table(), |rows| (0..5_000).try_for_each(|n| rows.push(n, &value(n)))).unwrap();
    let txn = db.begin_write().unwrap();
    {
        let table = txn.open_table(&table()).unwrap();
        assert_eq!(table.get(300).unwrap(), Some(value(300)));
        assert_eq!(table.iter().unwrap().count(), 5_000);
        assert!(table.delete(300).unwrap());
        assert!(table.update(7, &value(8)).unwrap());
        table.insert(9_999, &value(1)).unwrap();
    }
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    let rest = txn.open_table(&table()).unwrap().index(&BY_REST).unwrap();
    let expected = (0..5_000).chain([9_999]).filter(|n| n % 7 == 3 && *n != 300).count();
    assert_eq!(rest.range(3..=3).unwrap().count(), expected);
    let report = db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn a_load_that_fails_leaves_no_table() {
    let db = Database::in_memory().unwrap();
    let unsorted = db.create_table_with(&table(), |rows| {
        rows.push(2, &value(1))?;
        rows.push(1, &value(1))
    });
    assert!(matches!(unsorted, Err(Error::InvalidArgument(_))), "{unsorted:?}");
    let twice = TableDefinition::new("t").index(&UNIQUE);
    let twice = db.create_table_with(&twice, |rows| (0..10).try_for_each(|n| rows.push(n, &value(1))));
    assert!(matches!(twice, Err(Error::DuplicateKey)), "{twice:?}");
    assert!(db.list_tables().is_empty());
    db.create_table(&table()).unwrap();
}
