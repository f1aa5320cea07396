//! An index is added while rows change: the transactions that change them note what that does to
//! its entries. In the end it has what the rows say.

use std::collections::BTreeMap;
use std::ops::Bound;

use holdfast::metrics::Counter;
use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase, RawRead, RawTable, RawTransaction};
use holdfast::{Builder, Error, FlushAtCommit, Result, VerifyOptions};
use holdfast_testkit::SplitMix64;

use crate::common;
use crate::common::rows::{begin, covering, entry};

/// The rows: what they are indexed by.
type Rows = BTreeMap<u32, u32>;

/// The value of an entry; what it covers changes with `a`.
fn covered(id: u32, a: u32) -> Vec<u8> {
    covering(&vec![id as u8; (a % 7) as usize])
}

/// A database with the table `t` of rows, one in three of 0..300.
fn filled() -> (RawDatabase, Rows) {
    filled_with(common::small())
}

fn filled_with(settings: Builder) -> (RawDatabase, Rows) {
    let db = RawDatabase::new(settings.in_memory().unwrap());
    db.create_table("t", &[], b"old", Lifetime::Lasting).unwrap();
    let (table, mut txn, mut rows) = (db.open_table("t").unwrap(), begin(&db), Rows::new());
    for id in (0..300u32).step_by(3) {
        txn.insert(&table, 0, &id.to_be_bytes(), &id.to_be_bytes()).unwrap();
        rows.insert(id, id);
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    (db, rows)
}

/// Changes a row, with its note; `rows` is what the transaction sees.
fn put(txn: &mut RawTransaction, table: &RawTable, rows: &mut Rows, id: u32, a: Option<u32>, prefix: usize) {
    let before = rows.remove(&id);
    let key = id.to_be_bytes();
    match (before, a) {
        (None, None) => return,
        (None, Some(a)) => txn.insert(table, 0, &key, &a.to_be_bytes()).unwrap(),
        (Some(_), Some(a)) => assert!(txn.update(table, 0, &key, &a.to_be_bytes()).unwrap()),
        (Some(_), None) => assert!(txn.delete(table, 0, &key).unwrap()),
    }
    if let Some(before) = before {
        txn.note_entry(table, 0, &entry(before, id), None).unwrap();
    }
    if let Some(a) = a {
        txn.note_entry(table, 0, &entry(a, id), Some((prefix, &covered(id, a)))).unwrap();
        rows.insert(id, a);
    }
}

/// Runs a transaction of random changes; some are taken back.
fn change(db: &RawDatabase, rows: &mut Rows, random: &mut SplitMix64) {
    let (table, mut txn) = (db.open_table("t").unwrap(), begin(db));
    let mut seen = rows.clone();
    for _ in 0..random.below(12) {
        let (place, saved) = (txn.txn().savepoint(), seen.clone());
        for _ in 0..random.below(4) {
            let (id, a) = (random.below(300) as u32, random.below(50) as u32);
            let a = if random.below(3) == 0 { None } else { Some(a) };
            put(&mut txn, &table, &mut seen, id, a, 8);
        }
        if random.below(4) == 0 {
            txn.txn().rollback_to(place).unwrap();
            seen = saved;
        }
    }
    if random.below(4) == 0 {
        txn.txn().rollback().unwrap();
    } else {
        txn.commit(FlushAtCommit::Lazy).unwrap();
        *rows = seen;
    }
}

/// The entries of the new index, if it is filled and followed as it should be.
fn wanted(rows: &Rows) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut wanted: Vec<_> = rows.iter().map(|(&id, &a)| (entry(a, id), covered(id, a))).collect();
    wanted.sort();
    wanted
}

fn read(db: &RawDatabase, index: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (table, mut txn) = (db.open_table("t").unwrap(), begin(db));
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut cursor = txn.cursor(&table, index, all, RawRead::default()).unwrap();
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        found.push((key.to_vec(), value.to_vec()));
    }
    found
}

fn commit(db: &RawDatabase, alter: &mut RawAlter) -> Result<()> {
    alter.become_table(&[IndexSource::Added(0)], b"new").unwrap();
    db.commit_alters(&mut [alter], &[], common::WAIT)
}

fn assert_sound(db: &RawDatabase) {
    let report = db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(report.unreached_pages, 0);
}

#[test]
fn the_index_has_what_the_rows_say() {
    for seed in 0..200 {
        let (mut random, (db, mut rows)) = (SplitMix64::new(seed), filled());
        let mut alter = db.begin_alter("t", &[("second", false)], true, common::WAIT).unwrap();
        for _ in 0..random.below(6) {
            change(&db, &mut rows, &mut random);
        }
        // The view from which the index is filled may be any one since.
        let filled_from = rows.clone();
        for _ in 0..random.below(6) {
            change(&db, &mut rows, &mut random);
        }
        for (&id, &a) in &filled_from {
            alter.push(0, &entry(a, id), 8, &covered(id, a)).unwrap();
        }
        alter.finish().unwrap();
        for _ in 0..random.below(6) {
            change(&db, &mut rows, &mut random);
        }
        if seed % 10 == 0 {
            drop(alter);
            // A session that has not heard of that may go on with notes.
            change(&db, &mut rows, &mut random);
            assert_sound(&db);
            continue;
        }
        commit(&db, &mut alter).unwrap();
        drop(alter);
        assert_eq!(read(&db, 1), wanted(&rows), "seed {seed}");
        assert_eq!(read(&db, 0).len(), rows.len());
        assert_sound(&db);
    }
}

/// Begins to add a unique index, fills it from the rows as they are now.
fn build_unique(db: &RawDatabase, rows: &Rows) -> RawAlter {
    let mut alter = db.begin_alter("t", &[("second", true)], true, common::WAIT).unwrap();
    for (&id, &a) in rows {
        alter.push(0, &entry(a, id), 4, &covered(id, a)).unwrap();
    }
    alter.finish().unwrap();
    alter
}

/// Changes the rows in one transaction.
fn put_all(db: &RawDatabase, rows: &mut Rows, changes: &[(u32, Option<u32>)]) {
    let (table, mut txn) = (db.open_table("t").unwrap(), begin(db));
    for &(id, a) in changes {
        put(&mut txn, &table, rows, id, a, 4);
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
}

#[test]
fn only_what_is_there_twice_in_the_end_is_refused() {
    let (db, mut rows) = filled();
    let mut alter = build_unique(&db, &rows);
    // Two rows change places, one goes and comes again, a key is there twice for a while.
    put_all(&db, &mut rows, &[(3, Some(1_000)), (6, Some(3)), (3, Some(6)), (9, None), (9, Some(9)), (12, Some(15))]);
    put_all(&db, &mut rows, &[(12, Some(16))]);
    commit(&db, &mut alter).unwrap();
    drop(alter);
    assert_eq!(read(&db, 1).len(), rows.len());
    assert_sound(&db);

    let (db, mut rows) = filled();
    let mut alter = build_unique(&db, &rows);
    put_all(&db, &mut rows, &[(3, Some(6))]);
    assert!(matches!(commit(&db, &mut alter), Err(Error::DuplicateKey)));
    let refused = alter.duplicate().map(|d| (d.index, d.key.clone(), d.value.clone()));
    assert_eq!(refused, Some((0, entry(6, 3), covered(3, 6))));
    assert_eq!(db.database().compact().unwrap().pages_reclaimed, 0);
    put_all(&db, &mut rows, &[(9, Some(10))]);
    drop(alter);
    assert_eq!(db.open_table("t").unwrap().index_name(1), None);
    assert_eq!(read(&db, 0).len(), rows.len());
    assert_sound(&db);
}

/// The first round that puts notes into the index meets it.
#[test]
fn an_entry_may_be_there_twice_when_the_index_is_filled() {
    let (db, mut rows) = filled();
    let mut alter = db.begin_alter("t", &[("second", true)], true, common::WAIT).unwrap();
    let filled_from = rows.clone();
    put_all(&db, &mut rows, &[(3, Some(6)), (9, None), (12, Some(1_000))]);
    for (&id, &a) in &filled_from {
        alter.push(0, &entry(a, id), 4, &covered(id, a)).unwrap();
    }
    alter.finish().unwrap();
    put_all(&db, &mut rows, &[(6, Some(3)), (12, Some(9))]);
    commit(&db, &mut alter).unwrap();
    drop(alter);
    assert_eq!(read(&db, 1), wanted(&rows));
    assert_sound(&db);
}

/// Another table changes so much that the view of the round before is given up.
#[test]
fn a_round_follows_all_notes_if_the_view_of_the_one_before_is_given_up() {
    let (db, mut rows) = filled_with(common::small().version_limit_bytes(1 << 20));
    let value = "x".repeat(1_000);
    let write = |id| db.database().transact(|txn| txn.open_table(&common::ROWS)?.upsert(id, &value).map(drop));
    let write_all = || (0..2_000).try_for_each(write).unwrap();
    write_all();
    let mut alter = db.begin_alter("t", &[("second", true)], true, common::WAIT).unwrap();
    let filled_from = rows.clone();
    put_all(&db, &mut rows, &[(3, Some(1_000)), (6, Some(1_001)), (9, None)]);
    for (&id, &a) in &filled_from {
        alter.push(0, &entry(a, id), 4, &covered(id, a)).unwrap();
    }
    alter.finish().unwrap();
    while db.database().metrics().get(Counter::TrxSnapshotTooOld) == 0 {
        write_all();
    }
    put_all(&db, &mut rows, &[(3, None), (12, Some(1_002))]);
    commit(&db, &mut alter).unwrap();
    drop(alter);
    assert_eq!(read(&db, 1), wanted(&rows));
    assert_sound(&db);
}

/// It is not known what it will be.
#[test]
fn a_prepared_transaction_is_in_the_way() {
    let (db, rows) = filled();
    let mut alter = build_unique(&db, &rows);
    let (table, mut txn) = (db.open_table("t").unwrap(), begin(&db));
    put(&mut txn, &table, &mut rows.clone(), 3, Some(5_000), 4);
    txn.prepare(b"x", FlushAtCommit::Lazy).unwrap();
    drop(txn);
    assert!(matches!(commit(&db, &mut alter), Err(Error::LockTimeout)));
    drop(alter);
    db.adopt(b"x").unwrap().commit(FlushAtCommit::Lazy).unwrap();
    assert_eq!(read(&db, 0).len(), rows.len());
    assert_sound(&db);
}

#[test]
fn a_table_changes_one_after_the_other() {
    let (db, rows) = filled();
    let alter = build_unique(&db, &rows);
    assert!(matches!(db.begin_alter("t", &[("third", false)], false, common::WAIT), Err(Error::InvalidArgument(_))));
    drop(alter);
    commit(&db, &mut build_unique(&db, &rows)).unwrap();
    assert_eq!(read(&db, 1).len(), rows.len());
}
