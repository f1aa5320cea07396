//! Changes of several tables are made at once, or none is, if a transaction is in the way for too
//! long. They could not be made when it had ended: what was said of each table was forgotten, and
//! nothing told that. So it was when it was not said of one of them.

use std::time::Duration;

use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase};
use holdfast::{Error, FlushAtCommit};

use crate::common;
use crate::common::rows::{self, begin};

const TABLES: [&str; 2] = ["t", "u"];

/// Two tables with a row each, and a change of each: another index, other options.
fn tables_and_changes() -> (RawDatabase, [RawAlter; 2]) {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    for name in TABLES {
        db.create_table(name, &[], b"old", Lifetime::Lasting).unwrap();
        let mut txn = begin(&db);
        txn.insert(&db.open_table(name).unwrap(), 0, b"row", b"value").unwrap();
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }
    let changes = TABLES.map(|name| {
        let mut alter = db.begin_alter(name, &[("k", false)], true, Duration::ZERO).unwrap();
        alter.push(0, b"keyrow", 6, b"\x03").unwrap();
        alter.finish().unwrap();
        alter
    });
    (db, changes)
}

fn say(alter: &mut RawAlter) {
    alter.become_table(&[IndexSource::Added(0)], b"new").unwrap();
}

fn assert_made(db: &RawDatabase, is_made: bool) {
    let options: &[u8] = if is_made { b"new" } else { b"old" };
    for name in TABLES {
        assert_eq!(db.options(name).unwrap(), options, "{name}");
        assert_eq!(db.open_table(name).unwrap().index_name(1).is_some(), is_made, "{name}");
    }
}

#[test]
fn when_the_transaction_has_ended_that_was_in_the_way() {
    let (db, [mut t, mut u]) = tables_and_changes();
    [&mut t, &mut u].into_iter().for_each(say);
    let mut txn = begin(&db);
    let table = db.open_table("u").unwrap();
    txn.insert(&table, 0, b"later", b"value").unwrap();
    txn.note_entry(&table, 0, b"keylater", Some((8, b"\x03"))).unwrap();
    drop(table);
    let refused = db.commit_alters(&mut [&mut t, &mut u], &[], Duration::ZERO);
    assert!(matches!(refused, Err(Error::LockTimeout)), "{refused:?}");
    assert_made(&db, false);
    txn.commit(FlushAtCommit::Lazy).unwrap();
    drop(txn);
    db.commit_alters(&mut [&mut t, &mut u], &[], Duration::ZERO).unwrap();
    drop((t, u));
    assert_made(&db, true);
    assert_eq!(rows::read(&mut begin(&db), &db.open_table("u").unwrap(), 1).unwrap().len(), 2);
    common::assert_sound(db.database());
}

#[test]
fn when_it_is_said_what_becomes_of_all() {
    let (db, [mut t, mut u]) = tables_and_changes();
    say(&mut t);
    let refused = db.commit_alters(&mut [&mut t, &mut u], &[], Duration::ZERO);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    say(&mut u);
    db.commit_alters(&mut [&mut t, &mut u], &[], Duration::ZERO).unwrap();
    drop((t, u));
    assert_made(&db, true);
    common::assert_sound(db.database());
}
