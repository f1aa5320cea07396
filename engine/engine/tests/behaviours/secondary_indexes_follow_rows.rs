//! Secondary indexes: kept up by every statement, unique if asked, and as old as the snapshot that
//! reads them.

use holdfast::{Database, Error, IndexDefinition, Result, TableDefinition};

use crate::common;

const BY_COLOUR: IndexDefinition<u64, &str, &str> =
    IndexDefinition::new("by_colour", |_: &u64, v: &String, keys| keys.push(v));
const BY_WORD: IndexDefinition<u64, &str, &str> =
    IndexDefinition::new("by_word", |_: &u64, v: &String, keys| v.split(' ').for_each(|word| keys.push(word)));

fn table() -> TableDefinition<u64, &'static str> {
    TableDefinition::new("t").index(&BY_COLOUR).index(&BY_WORD)
}

fn ids(db: &Database, colour: &str) -> Vec<u64> {
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    let found = rows.index(&BY_COLOUR).unwrap().range(colour..=colour).unwrap();
    found.map(|r| r.map(|(_, id, _)| id)).collect::<Result<Vec<_>>>().unwrap()
}

#[test]
fn entries_follow_inserts_updates_and_deletes() {
    let db = Database::in_memory().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&table())?;
        (0..600).try_for_each(|i| rows.insert(i, ["red", "green", "blue"][i as usize % 3]))
    })
    .unwrap();
    assert_eq!(ids(&db, "red").len(), 200);
    let before = db.begin_read().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&table())?;
        for i in 0..300 {
            if i % 3 == 0 {
                rows.update(i, "green")?;
            } else if i % 3 == 1 {
                rows.delete(i)?;
            }
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(ids(&db, "red"), (300..600).step_by(3).collect::<Vec<_>>());
    assert_eq!(ids(&db, "green").len(), 200);
    // The snapshot's index is as old as its rows.
    let rows = before.open_table(&table()).unwrap();
    let index = rows.index(&BY_COLOUR).unwrap();
    assert_eq!(index.keys("red"..="red").unwrap().count(), 200);
    assert_eq!(index.keys("green"..="green").unwrap().rev().count(), 200);
    assert_eq!(index.range(..).unwrap().count(), 600);
    common::assert_sound(&db);
}

#[test]
fn a_row_may_have_several_keys_or_none() {
    let db = Database::in_memory().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&table())?;
        rows.insert(1, "the quick brown fox")?;
        rows.insert(2, "the lazy dog the lazy dog")?;
        Ok(())
    })
    .unwrap();
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&table()).unwrap();
    let words = rows.index(&BY_WORD).unwrap();
    assert_eq!(words.keys("the"..="the").unwrap().count(), 2);
    assert_eq!(words.get("lazy").unwrap().unwrap().0, 2);
    assert_eq!(words.keys(..).unwrap().count(), 7);
}

#[test]
fn a_unique_key_is_free_again_after_its_row_is_gone() {
    const NAME: IndexDefinition<u64, &str, &str> =
        IndexDefinition::unique("name", |_: &u64, v: &String, keys| keys.push(v));
    let table = TableDefinition::<u64, &str>::new("t").index(&NAME);
    let db = Database::in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table).unwrap();
    rows.insert(1, "ann").unwrap();
    assert!(matches!(rows.insert(2, "ann"), Err(Error::DuplicateKey)));
    rows.delete(1).unwrap();
    rows.insert(2, "ann").unwrap();
    rows.update(2, "bob").unwrap();
    rows.insert(3, "ann").unwrap();
    txn.commit().unwrap();
    assert!(matches!(db.transact(|t| t.open_table(&table)?.insert(4, "bob")), Err(Error::DuplicateKey)));
    common::assert_sound(&db);
}

#[test]
fn a_definition_that_lacks_an_index_may_not_write() {
    let db = Database::in_memory().unwrap();
    db.create_table(&table()).unwrap();
    let lacking = TableDefinition::<u64, &str>::new("t").index(&BY_COLOUR);
    let txn = db.begin_write().unwrap();
    let error = txn.open_table(&lacking).unwrap_err();
    assert!(matches!(&error, Error::TableMismatch { .. }) && error.to_string().contains("by_word"), "{error}");
    assert!(db.begin_read().unwrap().open_table(&lacking).is_ok());
}

/// The message named the type of the keys only, which was the same.
#[test]
fn a_definition_with_another_uniqueness_is_told_so() {
    const COLOUR_ONCE: IndexDefinition<u64, &str, &str> =
        IndexDefinition::unique("by_colour", |_: &u64, v: &String, keys| keys.push(v));
    let db = Database::in_memory().unwrap();
    db.create_table(&table()).unwrap();
    let once = TableDefinition::<u64, &str>::new("t").index(&COLOUR_ONCE).index(&BY_WORD);
    let error = db.begin_write().unwrap().open_table(&once).unwrap_err().to_string();
    assert!(error.contains("with repeatable keys of type str, not with unique keys of type str"), "{error}");
}

#[test]
fn a_refusal_names_the_index() {
    const LENGTH: IndexDefinition<&str, &str, u64> =
        IndexDefinition::unique("length", |_: &String, v: &String, keys| keys.push(v.len() as u64));
    const TEXT: IndexDefinition<&str, &str, &str> =
        IndexDefinition::unique("text", |_: &String, v: &String, keys| keys.push(v));
    let table = TableDefinition::<&str, &str>::new("t").index(&LENGTH).index(&TEXT);
    let db = common::small().in_memory().unwrap();
    let txn = db.begin_write().unwrap();
    let rows = txn.open_table(&table).unwrap();
    let refused = || txn.refused_key().map(|key| (key.table, key.index));
    rows.insert("a", "1").unwrap();
    assert_eq!(refused(), None);
    assert!(matches!(rows.insert("a", "22"), Err(Error::DuplicateKey)));
    assert_eq!(refused(), Some(("t".into(), None)));
    assert!(matches!(rows.upsert("b", "2"), Err(Error::DuplicateKey)));
    assert_eq!(refused(), Some(("t".into(), Some("length".into()))));
    // A row of that length has room, and an entry of it has not.
    assert!(matches!(rows.insert("b", &"x".repeat(1_024)), Err(Error::KeyTooLong { .. })));
    assert_eq!(refused(), Some(("t".into(), Some("text".into()))));
    assert!(matches!(rows.insert(&"k".repeat(1_025), "333"), Err(Error::KeyTooLong { .. })));
    assert_eq!(refused(), Some(("t".into(), None)));
    txn.commit().unwrap();
    common::assert_sound(&db);
}
