//! At SERIALIZABLE an insert that is refused has read the row that is in the way, as a look for it
//! would have. The row was not locked: another transaction deleted it and committed, and no order
//! of the two gave what both had seen.

use std::time::Duration;

use holdfast::{Database, Error, IndexDefinition, Isolation, TableDefinition, WriteOptions, WriteTransaction};

const BY_NAME: IndexDefinition<u64, &str, &str> =
    IndexDefinition::unique("by_name", |_: &u64, name: &String, keys| keys.push(name));

/// One row for all: the entry of the row whose key is empty has an empty key itself.
const ALONE: IndexDefinition<&str, u64, ()> =
    IndexDefinition::unique("alone", |_: &String, _: &u64, keys| keys.push(()));

fn people() -> TableDefinition<u64, &'static str> {
    TableDefinition::new("people").index(&BY_NAME)
}

fn begin(db: &Database, isolation: Isolation) -> WriteTransaction {
    let options = WriteOptions::new().isolation(isolation).lock_wait_timeout(Duration::from_millis(20));
    db.begin_write_with(&options).unwrap()
}

#[test]
fn it_stays_until_the_transaction_ends() {
    for (isolation, stays) in
        [(Isolation::ReadCommitted, false), (Isolation::RepeatableRead, false), (Isolation::Serializable, true)]
    {
        // Refused for its own key, and for that of the index.
        for key in [1, 2] {
            let db = Database::in_memory().unwrap();
            db.transact(|txn| txn.open_table(&people())?.insert(1, "Ada")).unwrap();
            let refused = begin(&db, isolation);
            let inserted = refused.open_table(&people()).unwrap().insert(key, "Ada");
            assert!(matches!(inserted, Err(Error::DuplicateKey)), "{isolation:?}, {key}: {inserted:?}");
            let other = begin(&db, Isolation::ReadCommitted);
            let rows = other.open_table(&people()).unwrap();
            let deleted = rows.delete(1);
            assert_eq!(matches!(deleted, Err(Error::LockTimeout)), stays, "{isolation:?}, {key}: {deleted:?}");
            refused.rollback().unwrap();
            if stays {
                assert!(rows.delete(1).unwrap());
            }
        }
    }
}

#[test]
fn an_entry_without_a_byte_is_found_in_the_way() {
    let table = TableDefinition::<&str, u64>::new("alone").index(&ALONE);
    let db = Database::in_memory().unwrap();
    let txn = begin(&db, Isolation::Serializable);
    let rows = txn.open_table(&table).unwrap();
    rows.insert("", 1).unwrap();
    assert!(matches!(rows.insert("other", 2), Err(Error::DuplicateKey)));
    assert!(matches!(rows.insert("", 2), Err(Error::DuplicateKey)));
    assert_eq!(rows.get("other").unwrap(), None);
}
