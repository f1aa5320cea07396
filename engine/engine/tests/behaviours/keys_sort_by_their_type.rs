//! Rows come back in the order of their keys' type, not of their bytes.

use holdfast::{Database, Key, Result, TableDefinition};

fn sorted<K: Key>(name: &'static str, keys: &[K::Owned]) -> Vec<K::Owned> {
    let db = Database::in_memory().unwrap();
    let table = TableDefinition::<K, u32>::new(name);
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        keys.iter().try_for_each(|key| rows.insert(K::borrow(key), 1))
    })
    .unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table).unwrap();
    rows.iter().unwrap().map(|row| row.map(|(key, _)| key)).collect::<Result<Vec<_>>>().unwrap()
}

#[test]
fn signed_integers() {
    assert_eq!(sorted::<i64>("t", &[0, -1, i64::MAX, i64::MIN, 256, 255]), [i64::MIN, -1, 0, 255, 256, i64::MAX]);
}

#[test]
fn floats() {
    assert_eq!(sorted::<f64>("t", &[1.5, -2.0, 0.0, f64::INFINITY, -0.5]), [-2.0, -0.5, 0.0, 1.5, f64::INFINITY]);
}

#[test]
fn tuples_with_text_in_front() {
    let key = |text: &str, n: i32| (text.to_string(), n);
    let keys = [key("ab", -1), key("a", 5), key("a\0", 0), key("a", -5), key("", 9)];
    let expected = [key("", 9), key("a", -5), key("a", 5), key("a\0", 0), key("ab", -1)];
    assert_eq!(sorted::<(&str, i32)>("t", &keys), expected);
}

#[test]
fn options_and_unit() {
    assert_eq!(sorted::<Option<u8>>("t", &[Some(3), None, Some(0)]), [None, Some(0), Some(3)]);
    assert_eq!(sorted::<()>("u", &[()]), [()]);
}

#[test]
fn ranges_over_a_prefix_of_a_tuple() {
    let db = Database::in_memory().unwrap();
    let table = TableDefinition::<(&str, u64), ()>::new("t");
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        for user in ["ann", "anna", "bob"] {
            (0..10).try_for_each(|i| rows.insert((user, i), ()))?;
        }
        Ok(())
    })
    .unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table).unwrap();
    assert_eq!(rows.range(("ann", 0)..=("ann", u64::MAX)).unwrap().count(), 10);
    let last = rows.range(..("b", 0)).unwrap().next_back().unwrap().unwrap();
    assert_eq!(last.0, ("anna".to_string(), 9));
}
