//! Without snapshot isolation a change acts on the newest committed row, which the snapshot need
//! not see. The row is the transaction's own from then on; through an index it was still found
//! where the snapshot had it, or twice, or not at all.

use holdfast::{Database, IndexDefinition, Isolation, Result, TableDefinition, WriteOptions, WriteTransaction};

const BY_MAIL: IndexDefinition<u64, (&str, u64), &str> =
    IndexDefinition::unique("by_mail", |_: &u64, (mail, _): &(String, u64), keys| keys.push(mail));
const BY_VISITS: IndexDefinition<u64, (&str, u64), u64> =
    IndexDefinition::new("by_visits", |_: &u64, (_, visits): &(String, u64), keys| keys.push(*visits));

fn people() -> TableDefinition<u64, (&'static str, u64)> {
    TableDefinition::new("people").index(&BY_MAIL).index(&BY_VISITS)
}

/// Three people, each with as many visits as their number says.
fn database() -> Database {
    let db = Database::in_memory().unwrap();
    db.transact(|txn| {
        let rows = txn.open_table(&people())?;
        [(1, "ann"), (2, "bob"), (3, "cid")].into_iter().try_for_each(|(id, mail)| rows.insert(id, (mail, id)))
    })
    .unwrap();
    db
}

fn begin(db: &Database, isolation: Isolation) -> WriteTransaction {
    db.begin_write_with(&WriteOptions::new().isolation(isolation).snapshot_isolation(false)).unwrap()
}

/// A transaction whose snapshot has the three people.
fn with_snapshot(db: &Database) -> WriteTransaction {
    let txn = begin(db, Isolation::RepeatableRead);
    assert_eq!(txn.open_table(&people()).unwrap().iter().unwrap().count(), 3);
    txn
}

fn commit(db: &Database, id: u64, row: Option<(&'static str, u64)>) {
    db.transact(|txn| {
        let rows = txn.open_table(&people())?;
        row.map_or_else(|| rows.delete(id), |row| rows.upsert(id, row)).map(drop)
    })
    .unwrap();
}

/// What the transaction finds by mail, and by visits, which has to be what it finds in the table.
fn all(txn: &WriteTransaction) -> Vec<(u64, String, u64)> {
    let rows = txn.open_table(&people()).unwrap();
    let row = |row: Result<(u64, (String, u64))>| row.map(|(id, (mail, visits))| (id, mail, visits)).unwrap();
    let found: Vec<_> = rows.iter().unwrap().map(row).collect();
    let by_mail = rows.index(&BY_MAIL).unwrap();
    let mut through: Vec<_> = by_mail.range(..).unwrap().map(|r| r.map(|(_, id, row)| (id, row))).map(row).collect();
    through.sort();
    assert_eq!(through, found);
    let by_visits = rows.index(&BY_VISITS).unwrap();
    let mut keys: Vec<_> = by_visits.keys(..).unwrap().rev().map(Result::unwrap).collect();
    keys.sort_by_key(|(_, id)| *id);
    assert_eq!(keys, found.iter().map(|(id, _, visits)| (*visits, *id)).collect::<Vec<_>>());
    for (id, mail, visits) in &found {
        assert_eq!(by_mail.get(mail).unwrap(), Some((*id, (mail.clone(), *visits))));
    }
    found
}

fn person(id: u64, mail: &str, visits: u64) -> (u64, String, u64) {
    (id, mail.into(), visits)
}

#[test]
fn a_row_that_was_changed_has_the_index_keys_that_others_gave_it() {
    let db = database();
    let txn = with_snapshot(&db);
    commit(&db, 2, Some(("bea", 2)));
    txn.open_table(&people()).unwrap().update(2, ("bea", 20)).unwrap();
    assert_eq!(all(&txn), [person(1, "ann", 1), person(2, "bea", 20), person(3, "cid", 3)]);
    let rows = txn.open_table(&people()).unwrap();
    assert_eq!(rows.index(&BY_MAIL).unwrap().get("bob").unwrap(), None);
}

#[test]
fn a_row_that_others_inserted_and_it_changed_is_there() {
    let db = database();
    let txn = with_snapshot(&db);
    commit(&db, 4, Some(("dan", 4)));
    assert_eq!(all(&txn).len(), 3);
    txn.open_table(&people()).unwrap().update(4, ("dan", 40)).unwrap();
    assert_eq!(all(&txn)[3], person(4, "dan", 40));
}

#[test]
fn a_row_that_others_deleted_and_it_inserted_again_is_there_once() {
    let db = database();
    let txn = with_snapshot(&db);
    commit(&db, 2, None);
    txn.open_table(&people()).unwrap().insert(2, ("bob", 20)).unwrap();
    assert_eq!(all(&txn), [person(1, "ann", 1), person(2, "bob", 20), person(3, "cid", 3)]);
}

#[test]
fn a_row_that_others_changed_and_it_deleted_is_gone() {
    let db = database();
    let txn = with_snapshot(&db);
    commit(&db, 2, Some(("bea", 20)));
    txn.open_table(&people()).unwrap().delete(2).unwrap();
    assert_eq!(all(&txn), [person(1, "ann", 1), person(3, "cid", 3)]);
}

#[test]
fn a_rollback_to_a_savepoint_gives_the_snapshots_row_back() {
    let db = database();
    let txn = with_snapshot(&db);
    let savepoint = txn.savepoint().unwrap();
    commit(&db, 2, Some(("bea", 20)));
    txn.open_table(&people()).unwrap().update(2, ("bea", 21)).unwrap();
    assert_eq!(all(&txn)[1], person(2, "bea", 21));
    txn.rollback_to(&savepoint).unwrap();
    assert_eq!(all(&txn)[1], person(2, "bob", 2));
}

#[test]
fn a_range_that_is_open_meanwhile_follows() {
    let db = database();
    let txn = with_snapshot(&db);
    let rows = txn.open_table(&people()).unwrap();
    let mut range = rows.index(&BY_MAIL).unwrap().keys(..).unwrap();
    assert_eq!(range.next().unwrap().unwrap(), ("ann".into(), 1));
    commit(&db, 2, Some(("dan", 2)));
    rows.update(2, ("dan", 20)).unwrap();
    assert_eq!(range.map(Result::unwrap).collect::<Vec<_>>(), [("cid".into(), 3), ("dan".into(), 2)]);
}

/// At READ COMMITTED each call has a view of its own; the row was read at another one than the
/// entry.
#[test]
fn a_range_at_read_committed_shows_rows_as_its_entries_are() {
    let db = database();
    let txn = begin(&db, Isolation::ReadCommitted);
    let rows = txn.open_table(&people()).unwrap();
    let mut range = rows.index(&BY_MAIL).unwrap().range(..).unwrap();
    assert_eq!(range.next().unwrap().unwrap(), ("ann".into(), 1, ("ann".into(), 1)));
    commit(&db, 2, Some(("dan", 20)));
    commit(&db, 3, None);
    let rest: Vec<_> = range.map(Result::unwrap).collect();
    assert_eq!(rest, [("bob".into(), 2, ("bob".into(), 2)), ("cid".into(), 3, ("cid".into(), 3))]);
}
