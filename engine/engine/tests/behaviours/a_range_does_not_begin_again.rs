//! A range of an index whose key panics when it is decoded gives nothing more. To a program that
//! catches the panic and goes on, it gave all rows again from the first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use holdfast::{Database, IndexDefinition, Key, TableDefinition, Value};

/// A byte that cannot be decoded if it is 3.
struct Unlucky;

impl Value for Unlucky {
    type Ref<'a> = u8;
    type Owned = u8;

    fn encode(value: u8, last: bool, out: &mut Vec<u8>) {
        u8::encode(value, last, out);
    }

    fn decode(input: &mut &[u8], last: bool) -> Option<u8> {
        let value = u8::decode(input, last)?;
        assert_ne!(value, 3, "planned");
        Some(value)
    }

    fn borrow(owned: &u8) -> u8 {
        *owned
    }

    fn type_name() -> String {
        "test::Unlucky".into()
    }
}

impl Key for Unlucky {
    fn encode_key(value: u8, last: bool, out: &mut Vec<u8>) {
        u8::encode_key(value, last, out);
    }

    fn decode_key(input: &mut &[u8], last: bool) -> Option<u8> {
        Unlucky::decode(input, last)
    }
}

const BY_VALUE: IndexDefinition<u64, u8, Unlucky> =
    IndexDefinition::new("by_value", |_: &u64, value: &u8, keys| keys.push(*value));

#[test]
fn after_a_panic_in_the_middle() {
    let db = Database::in_memory().unwrap();
    let table = TableDefinition::<u64, u8>::new("t").index(&BY_VALUE);
    let insert = |key: u8| db.transact(|txn| txn.open_table(&table)?.insert(u64::from(key), key));
    (0..6).try_for_each(insert).unwrap();
    let txn = db.begin_read().unwrap();
    let mut range = txn.open_table(&table).unwrap().index(&BY_VALUE).unwrap().range(..).unwrap();
    let before: Vec<u8> = range.by_ref().take(3).map(|row| row.unwrap().0).collect();
    assert_eq!(before, [0, 1, 2]);
    assert!(catch_unwind(AssertUnwindSafe(|| range.next())).is_err());
    assert!(range.next().is_none() && range.next_back().is_none());
}
