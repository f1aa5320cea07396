//! The basics: insert, update, upsert, delete, get, ranges, and what transactions see of each
//! other.

use holdfast::{Database, Error};

use crate::common::{self, ROWS};

#[test]
fn statements_do_what_their_names_say() {
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    rows.insert(1, "one").unwrap();
    assert!(matches!(rows.insert(1, "again"), Err(Error::DuplicateKey)));
    assert_eq!(rows.get(1).unwrap().as_deref(), Some("one"));
    assert!(rows.update(1, "uno").unwrap());
    assert!(!rows.update(2, "dos").unwrap());
    assert_eq!(rows.get(2).unwrap(), None);
    assert!(!rows.upsert(2, "two").unwrap());
    assert!(rows.upsert(2, "dos").unwrap());
    assert!(rows.contains(2).unwrap());
    assert!(rows.delete(1).unwrap());
    assert!(!rows.delete(1).unwrap());
    rows.insert(1, "back").unwrap();
    txn.commit().unwrap();

    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let all = rows.iter().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(all, [(1, "back".to_string()), (2, "dos".to_string())]);
}

#[test]
fn a_snapshot_stands_still() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 300);
    let before = db.begin_read().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        for i in (0..300).step_by(2) {
            rows.delete(i)?;
        }
        (300..400).try_for_each(|i| rows.insert(i, "new"))
    })
    .unwrap();
    let rows = before.open_table(&ROWS).unwrap();
    assert_eq!(rows.iter().unwrap().count(), 300);
    assert_eq!(rows.get(10).unwrap(), Some(common::value(10)));
    assert_eq!(rows.get(300).unwrap(), None);
    let after = db.begin_read().unwrap();
    assert_eq!(after.open_table(&ROWS).unwrap().iter().unwrap().count(), 250);
}

#[test]
fn a_dropped_transaction_leaves_nothing() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 10);
    {
        let txn = db.begin_write().unwrap();
        let rows = txn.open_table(&ROWS).unwrap();
        rows.delete(3).unwrap();
        rows.insert(77, "gone").unwrap();
        rows.update(4, "gone").unwrap();
    }
    common::assert_filled(&db, 0, 10);
    let txn = db.begin_write().unwrap();
    txn.open_table(&ROWS).unwrap().delete(3).unwrap();
    txn.rollback().unwrap();
    common::assert_filled(&db, 0, 10);
}

#[test]
fn ranges_go_both_ways_and_meet() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 2_000);
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let keys = |range: holdfast::Range<'_, u64, &'static str>| range.map(|r| r.unwrap().0).collect::<Vec<_>>();
    assert_eq!(keys(rows.range(10..13).unwrap()), [10, 11, 12]);
    assert_eq!(keys(rows.range(10..=13).unwrap()), [10, 11, 12, 13]);
    assert_eq!(
        rows.range(1_990..).unwrap().rev().map(|r| r.unwrap().0).take(3).collect::<Vec<_>>(),
        [1999, 1998, 1997]
    );
    assert!(keys(rows.range(13..13).unwrap()).is_empty());
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = 20..13;
    assert!(keys(rows.range(backwards).unwrap()).is_empty());
    assert!(keys(rows.range(5_000..).unwrap()).is_empty());
    assert_eq!(rows.first().unwrap().unwrap().0, 0);
    assert_eq!(rows.last().unwrap().unwrap().0, 1_999);

    let mut range = rows.range(100..1_100).unwrap();
    let (mut low, mut high) = (100, 1_099);
    for turn in 0..1_000 {
        let found = if turn % 3 == 0 { range.next_back() } else { range.next() };
        let expected = if turn % 3 == 0 { &mut high } else { &mut low };
        assert_eq!(found.unwrap().unwrap().0, *expected);
        if turn % 3 == 0 { high -= 1 } else { low += 1 }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
}

#[test]
fn a_cursor_fills_buffers() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 1_000);
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    let mut cursor = rows.cursor(&holdfast::ReadOptions::new());
    let (mut key, mut value) = (Vec::new(), Vec::new());
    assert!(matches!(cursor.next_into(&mut key, &mut value), Err(Error::InvalidArgument(_))));
    cursor.seek(5..900).unwrap();
    for i in 5u64..900 {
        assert!(cursor.next_into(&mut key, &mut value).unwrap());
        assert_eq!((key.as_slice(), value.as_slice()), (&i.to_be_bytes()[..], common::value(i).as_bytes()));
    }
    assert!(!cursor.next_into(&mut key, &mut value).unwrap());
    cursor.seek_rev(..7).unwrap();
    let mut seen = 0;
    while cursor.next_into(&mut key, &mut value).unwrap() {
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[test]
fn tables_of_one_transaction_are_used_together() {
    let db = Database::in_memory().unwrap();
    let other = holdfast::TableDefinition::<&str, u64>::new("other");
    let txn = db.begin_write().unwrap();
    let (a, b) = (txn.open_table(&ROWS).unwrap(), txn.open_table(&other).unwrap());
    for i in 0..50 {
        a.insert(i, "x").unwrap();
        b.insert(&format!("{i:03}"), i).unwrap();
    }
    for row in a.iter().unwrap() {
        let (i, _) = row.unwrap();
        assert!(b.update(&format!("{i:03}"), i * 2).unwrap());
    }
    txn.commit().unwrap();
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&other).unwrap().get("049").unwrap(), Some(98));
    assert_eq!(txn.list_tables(), ["other", "rows"]);
}

#[test]
fn keys_and_values_out_of_range_are_refused() {
    let db = common::small().in_memory().unwrap();
    let table = holdfast::TableDefinition::<&[u8], &[u8]>::new("bytes");
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table).unwrap();
    rows.insert(&[7; 1024], b"fits").unwrap();
    assert!(matches!(rows.insert(&[7; 1025], b"x"), Err(Error::KeyTooLong { len: 1025, max: 1024 })));
    rows.insert(b"", b"the empty key is a key").unwrap();
    txn.commit().unwrap();
}

#[test]
fn the_wrong_types_are_refused() {
    let db = Database::in_memory().unwrap();
    common::fill(&db, 0, 1);
    let txn = db.begin_read().unwrap();
    let wrong = holdfast::TableDefinition::<u32, &str>::new("rows");
    let error = txn.open_table(&wrong).unwrap_err();
    assert_eq!(error.to_string(), "table `rows`: it was created as u64 -> str, not as u32 -> str");
    let missing = holdfast::TableDefinition::<u32, &str>::new("missing");
    assert!(matches!(txn.open_table(&missing), Err(Error::TableNotFound(name)) if name == "missing"));
    let untyped = txn.open_table(&holdfast::TableDefinition::untyped("rows")).unwrap();
    assert_eq!(untyped.get(&0u64.to_be_bytes()).unwrap(), Some(common::value(0).into_bytes()));
}
