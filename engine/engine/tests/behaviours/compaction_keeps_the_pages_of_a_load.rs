//! The pages of a tree that is being built belong to nothing before the tree is complete. A
//! compaction once took them for lost and gave them away: two trees then had the same pages.

use std::time::Duration;

use holdfast::raw::{IndexSource, Lifetime, RawDatabase, RawLoad, RawTable};
use holdfast::{Database, VerifyOptions};

use crate::common::rows::{begin, read};

const KEYS: u64 = 4_000;

fn push(load: &mut RawLoad, keys: std::ops::Range<u64>) {
    for key in keys {
        load.push(0, &key.to_be_bytes(), 8, &[7; 100]).unwrap();
    }
}

fn rows(database: &RawDatabase, table: &RawTable, index: u32) -> u64 {
    read(&mut begin(database), table, index).unwrap().len() as u64
}

fn assert_clean(database: &RawDatabase) {
    let report = database.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(report.unreached_pages, 0);
}

fn database() -> RawDatabase {
    RawDatabase::new(Database::in_memory().unwrap())
}

fn loaded(database: &RawDatabase, name: &str) -> RawTable {
    database.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
    let table = database.open_table(name).unwrap();
    let mut load = RawLoad::new(&table).unwrap();
    push(&mut load, 0..KEYS / 2);
    let report = database.database().compact().unwrap();
    assert_eq!(report.pages_reclaimed, 0);
    push(&mut load, KEYS / 2..KEYS);
    load.finish().unwrap();
    table
}

#[test]
fn of_a_table() {
    let database = database();
    let table = loaded(&database, "a");
    assert_eq!(rows(&database, &table, 0), KEYS);
    assert_clean(&database);
}

#[test]
fn of_an_index_that_is_added() {
    let database = database();
    drop(loaded(&database, "a"));
    let mut alter = database.begin_alter("a", &[("k", false)], false, Duration::ZERO).unwrap();
    for key in 0..KEYS {
        let entry = [key.to_be_bytes(), key.to_be_bytes()].concat();
        alter.push(0, &entry, entry.len(), &[8]).unwrap();
    }
    alter.finish().unwrap();
    assert_eq!(database.database().compact().unwrap().pages_reclaimed, 0);
    alter.become_table(&[IndexSource::Added(0)], b"").unwrap();
    database.commit_alters(&mut [&mut alter], &[], Duration::ZERO).unwrap();
    drop(alter);
    assert_eq!(rows(&database, &database.open_table("a").unwrap(), 1), KEYS);
    assert_clean(&database);
}

#[test]
fn until_the_load_is_given_up() {
    let database = database();
    database.create_table("a", &[], b"", Lifetime::Lasting).unwrap();
    let table = database.open_table("a").unwrap();
    let mut load = RawLoad::new(&table).unwrap();
    push(&mut load, 0..KEYS);
    drop(load);
    assert!(database.database().compact().unwrap().pages_reclaimed > 0);
    assert_clean(&database);
}
