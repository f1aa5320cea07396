//! A statement calls code of the program: what makes index keys of rows. When that panicked, the
//! row was changed and its entries were not, and a program that caught the panic could commit that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast::{Database, IndexDefinition, TableDefinition, VerifyOptions};

const BY_VALUE: IndexDefinition<u64, u64, u64> = IndexDefinition::new("by_value", |_: &u64, value: &u64, keys| {
    assert_ne!(*value, 13, "the program does not like the number");
    keys.push(*value);
});

fn table() -> TableDefinition<u64, u64> {
    TableDefinition::new("t").index(&BY_VALUE)
}

#[test]
fn and_the_transaction_goes_on() {
    let db = Database::in_memory().unwrap();
    db.transact(|txn| txn.open_table(&table())?.insert(1, 1)).unwrap();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    rows.insert(2, 2).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| rows.update(1, 13))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| rows.insert(3, 13))).is_err());
    rows.insert(4, 4).unwrap();
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    let all: Vec<_> = rows.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(all, [(1, 1), (2, 2), (4, 4)]);
    let entries: Vec<_> = rows.index(&BY_VALUE).unwrap().keys(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries, all);
    assert!(db.verify(&VerifyOptions::default(), &mut |_| {}).unwrap().is_clean());
}
