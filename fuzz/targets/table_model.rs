//! A table against a `BTreeMap`: any sequence of calls gives the same answers.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use holdfast::{Database, Error, TableDefinition};
use libfuzzer_sys::fuzz_target;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("t");

#[derive(Arbitrary, Debug)]
enum Op {
    Insert { key: Vec<u8>, value_len: u16, fill: u8 },
    Upsert { key: Vec<u8>, value_len: u16, fill: u8 },
    Delete { key: Vec<u8> },
    Get { key: Vec<u8> },
    Range { from: Vec<u8>, to: Vec<u8>, backwards: bool },
    SavepointAndBack { keys: Vec<Vec<u8>> },
    Commit,
    Rollback,
}

fuzz_target!(|ops: Vec<Op>| {
    let db = Database::builder().page_size(4096).cache_size_bytes(5 << 20).in_memory().expect("a database in memory");
    let mut committed: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut model = committed.clone();
    let mut txn = db.begin_write().expect("begin");
    for op in ops {
        let table = txn.open_table(&TABLE).expect("open");
        match op {
            Op::Insert { key, value_len, fill } => {
                let value = vec![fill; usize::from(value_len)];
                match table.insert(&key, &value) {
                    Ok(()) => assert!(model.insert(key, value).is_none()),
                    Err(Error::DuplicateKey) => assert!(model.contains_key(&key)),
                    Err(Error::KeyTooLong { .. }) => assert!(key.len() > 1024),
                    Err(error) => panic!("insert: {error}"),
                }
            }
            Op::Upsert { key, value_len, fill } => {
                let value = vec![fill; usize::from(value_len)];
                match table.upsert(&key, &value) {
                    Ok(existed) => assert_eq!(model.insert(key, value).is_some(), existed),
                    Err(Error::KeyTooLong { .. }) => assert!(key.len() > 1024),
                    Err(error) => panic!("upsert: {error}"),
                }
            }
            Op::Delete { key } => match table.delete(&key) {
                Ok(existed) => assert_eq!(model.remove(&key).is_some(), existed),
                Err(Error::KeyTooLong { .. }) => assert!(key.len() > 1024),
                Err(error) => panic!("delete: {error}"),
            },
            Op::Get { key } => match table.get(&key) {
                Ok(value) => assert_eq!(value.as_ref(), model.get(&key)),
                Err(Error::KeyTooLong { .. }) => assert!(key.len() > 1024),
                Err(error) => panic!("get: {error}"),
            },
            Op::Range { from, to, backwards } => {
                if from <= to && to.len() <= 1024 && from.len() <= 1024 {
                    let range = table.range(&from[..]..&to[..]).expect("range");
                    let mut rows: Vec<_> =
                        if backwards { range.rev().collect() } else { range.collect::<Result<Vec<_>, _>>() }
                            .expect("rows");
                    if backwards {
                        rows.reverse();
                    }
                    let expected: Vec<_> =
                        model.range(from..to).map(|(key, value)| (key.clone(), value.clone())).collect();
                    assert_eq!(rows, expected);
                }
            }
            Op::SavepointAndBack { keys } => {
                let savepoint = txn.savepoint().expect("savepoint");
                for key in keys.iter().filter(|key| key.len() <= 1024) {
                    table.upsert(key, b"to be undone").expect("upsert");
                }
                txn.rollback_to(&savepoint).expect("rollback to the savepoint");
            }
            Op::Commit => {
                drop(table);
                txn.commit().expect("commit");
                committed = model.clone();
                txn = db.begin_write().expect("begin");
            }
            Op::Rollback => {
                drop(table);
                txn.rollback().expect("rollback");
                model = committed.clone();
                txn = db.begin_write().expect("begin");
            }
        }
    }
});
