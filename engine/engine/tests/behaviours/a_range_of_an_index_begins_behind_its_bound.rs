//! A range of an index that begins behind a key. Behind the greatest key of a type there is no
//! byte string that a search could begin at, and the search once began at the start of the index:
//! a program that went on behind the last key that it had seen read the whole index again, for
//! ever.

use std::ops::Bound;

use holdfast::{Database, IndexDefinition, Key, Result, TableDefinition};

fn index<I: Key>(extract: holdfast::Extractor<u64, u64, I>) -> IndexDefinition<u64, u64, I> {
    IndexDefinition::new("by_value", extract)
}

/// The rows of a table with `values`, whose index keys lie behind `key` and, the other way round,
/// before it.
fn around<'k, I: Key>(index: &IndexDefinition<u64, u64, I>, values: &[u64], key: I::Ref<'k>) -> (Vec<u64>, Vec<u64>) {
    let db = Database::in_memory().unwrap();
    let table = TableDefinition::new("t").index(index);
    db.transact(|txn| {
        let rows = txn.open_table(&table)?;
        values.iter().zip(0..).try_for_each(|(value, row)| rows.insert(row, *value))
    })
    .unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table).unwrap();
    let index = rows.index(index).unwrap();
    let read = |bounds: (Bound<I::Ref<'k>>, Bound<I::Ref<'k>>)| {
        let forward: Vec<_> = index.range(bounds).unwrap().map(|row| Ok(row?.1)).collect::<Result<_>>().unwrap();
        let mut backward: Vec<_> = index.keys(bounds).unwrap().rev().map(|e| Ok(e?.1)).collect::<Result<_>>().unwrap();
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    };
    (read((Bound::Excluded(key), Bound::Unbounded)), read((Bound::Unbounded, Bound::Excluded(key))))
}

#[test]
fn of_numbers() {
    let by_value = index::<u64>(|_: &u64, value: &u64, keys| keys.push(*value));
    let values = [0, 7, u64::MAX - 1, u64::MAX, u64::MAX];
    assert_eq!(around(&by_value, &values, u64::MAX), (vec![], vec![0, 1, 2]));
    assert_eq!(around(&by_value, &values, u64::MAX - 1), (vec![3, 4], vec![0, 1]));
    assert_eq!(around(&by_value, &values, 0), (vec![1, 2, 3, 4], vec![]));
}

#[test]
fn of_signed_numbers_and_bytes() {
    let signed = index::<i8>(|_: &u64, value: &u64, keys| keys.push(*value as i8));
    assert_eq!(around(&signed, &[127, 0, 128], i8::MAX), (vec![], vec![2, 1]));
    assert_eq!(around(&signed, &[127, 0, 128], i8::MIN), (vec![1, 0], vec![]));
    let bytes = index::<[u8; 2]>(|_: &u64, value: &u64, keys| keys.push(&(*value as u16).to_be_bytes()));
    assert_eq!(around(&bytes, &[0xffff, 0xff00, 3], &[0xff, 0xff]), (vec![], vec![2, 1]));
}

/// All rows have the one key that there is.
#[test]
fn of_no_bytes() {
    let unit = index::<()>(|_: &u64, _: &u64, keys| keys.push(()));
    assert_eq!(around(&unit, &[1, 2, 3], ()), (vec![], vec![]));
}
