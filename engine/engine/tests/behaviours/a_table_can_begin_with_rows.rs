//! `create_table_with`: a table that is created together with its rows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast::{Database, Error, IndexDefinition, TableDefinition, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common;

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

/// The entries of a row that was refused were in the indexes once: a search by one of them found
/// the row of another value.
#[test]
fn a_row_that_is_refused_leaves_nothing() {
    const BY_TEXT: IndexDefinition<&str, &str, &str> =
        IndexDefinition::new("by_text", |_: &String, text: &String, keys| {
            assert_ne!(text, "panic", "the program does not like the text");
            keys.push(text);
        });
    let table = TableDefinition::<&str, &str>::new("t").index(&BY_TEXT);
    let db = common::small().in_memory().unwrap();
    let long = "x".repeat(1_000);
    db.create_table_with(&table, |rows| {
        rows.push("b", "first")?;
        assert!(matches!(rows.push("b", "second"), Err(Error::DuplicateKey)));
        assert!(matches!(rows.push("a", "less"), Err(Error::InvalidArgument(_))));
        // Its key has room in a page, that of its entry has not.
        assert!(matches!(rows.push("c", &"y".repeat(1_022)), Err(Error::KeyTooLong { len: 1_025, max: 1_024 })));
        assert!(matches!(rows.push(&long.repeat(2), "long"), Err(Error::KeyTooLong { .. })));
        assert!(catch_unwind(AssertUnwindSafe(|| rows.push("c", "panic"))).is_err());
        rows.push("d", &long)
    })
    .unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table).unwrap();
    let keys: Vec<_> = rows.iter().unwrap().map(|row| row.unwrap().0).collect();
    assert_eq!(keys, ["b", "d"]);
    let entries: Vec<_> = rows.index(&BY_TEXT).unwrap().keys(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries, [("first".to_string(), "b".to_string()), (long, "d".to_string())]);
    common::assert_sound(&db);
}

/// A large value whose row is refused has no pages.
#[test]
fn a_large_value_that_is_refused_takes_no_room() {
    let table = TableDefinition::<u64, Vec<u8>>::new("t");
    let db = common::small().in_memory().unwrap();
    db.create_table_with(&table, |rows| {
        rows.push(1, &value(100))?;
        assert!(matches!(rows.push(1, &value(200)), Err(Error::DuplicateKey)));
        rows.push(2, &value(1))
    })
    .unwrap();
    assert_eq!(db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap().unreached_pages, 0);
}

/// A program that went on after an error of the disk got a table that lacked the rows of a page.
#[test]
fn a_load_has_failed_after_an_error_that_is_no_refusal() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = common::create_on(&disk);
    let mut failed = None;
    let result = db.create_table_with(&table(), |rows| {
        for n in 0..20_000 {
            if n == 1_000 {
                disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc).sticky());
            }
            if let Err(error) = rows.push(n, &value(n)) {
                disk.clear();
                failed.get_or_insert(error);
            }
        }
        Ok(())
    });
    assert!(matches!(failed, Some(Error::DiskFull(_))), "{failed:?}");
    assert!(matches!(result, Err(Error::DiskFull(_))), "{result:?}");
    assert!(db.list_tables().is_empty());
    common::assert_sound(&db);
    db.create_table_with(&table(), |rows| rows.push(1, &value(1))).unwrap();
}
