//! Entries that a cursor shows ahead are those that it would give one by one, whatever others have
//! changed since its snapshot.

use std::ops::Bound;

use holdfast_base::{Error, Result};
use holdfast_txn::*;
use proptest::prelude::*;

use crate::common::*;

const KEYS: u16 = 300;

#[derive(Clone, Debug)]
enum Change {
    Put(u16, u8),
    Delete(u16),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![(0..KEYS, any::<u8>()).prop_map(|(key, n)| Change::Put(key, n)), (0..KEYS).prop_map(Change::Delete),]
}

fn apply(db: &Db, changes: &[Change]) -> Txn {
    let mut txn = db.begin();
    for change in changes {
        let made = match change {
            Change::Put(key, n) => txn.upsert(&db.rows, &key.to_be_bytes(), &[*n; 100], None),
            Change::Delete(key) => txn.delete(&db.rows, &key.to_be_bytes(), None),
        };
        made.unwrap();
    }
    txn
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn open(txn: &mut Txn, db: &Db, direction: Direction) -> RowCursor {
    let options = CursorOptions { direction, ..CursorOptions::default() };
    txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap()
}

fn one_by_one(mut cursor: RowCursor) -> Result<Entries> {
    let mut entries = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        entries.push((key.to_vec(), value.to_vec()));
    }
    Ok(entries)
}

/// Takes as many of those that are shown as `taken` says, in turns; where there are none, the next
/// one. Returns also how many were shown.
fn ahead(mut cursor: RowCursor, max: usize, taken: &[usize]) -> Result<(Entries, usize)> {
    let (mut entries, mut passed, mut from_shown) = (Vec::new(), 0, 0);
    for turn in 0.. {
        let mut shown = Vec::new();
        cursor.look_ahead(passed, max, |key, value| shown.push((key.to_vec(), value.to_vec())))?;
        shown.truncate(taken[turn % taken.len()]);
        passed = shown.len();
        from_shown += passed;
        if passed == 0 {
            match cursor.next()? {
                Some((key, value)) => shown.push((key.to_vec(), value.to_vec())),
                None => break,
            }
        }
        entries.append(&mut shown);
    }
    Ok((entries, from_shown))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn they_are_what_the_snapshot_sees(
        before in proptest::collection::vec(change(), 0..400),
        after in proptest::collection::vec(change(), 0..60),
        open_still in proptest::collection::vec(change(), 0..20),
        max in 1..70usize,
        taken in proptest::collection::vec(0..70usize, 1..6),
        reverse in any::<bool>(),
    ) {
        let db = Db::new();
        apply(&db, &before).commit(FlushAtCommit::Lazy).unwrap();
        let mut snapshot = db.snapshot();
        let direction = if reverse { Direction::Reverse } else { Direction::Forward };
        let then = one_by_one(open(&mut snapshot, &db, direction)).unwrap();
        apply(&db, &after).commit(FlushAtCommit::Lazy).unwrap();
        let mut active = apply(&db, &open_still);
        let (entries, _) = ahead(open(&mut snapshot, &db, direction), max, &taken).unwrap();
        prop_assert_eq!(entries, then);
        active.rollback().unwrap();
    }
}

#[test]
fn all_of_them_are_where_nothing_has_changed() {
    let db = Db::new();
    let puts: Vec<_> = (0..KEYS).map(|key| Change::Put(key, 1)).collect();
    apply(&db, &puts).commit(FlushAtCommit::Lazy).unwrap();
    let (entries, from_shown) = ahead(open(&mut db.snapshot(), &db, Direction::Forward), 32, &[32]).unwrap();
    assert_eq!((entries.len(), from_shown), (usize::from(KEYS), usize::from(KEYS)));
}

#[test]
fn none_are_where_entries_are_locked() {
    let db = Db::new();
    apply(&db, &[Change::Put(1, 1)]).commit(FlushAtCommit::Lazy).unwrap();
    let mut txn = db.at(Isolation::RepeatableRead);
    let options = CursorOptions { lock: Some(LockMode::Shared), ..CursorOptions::default() };
    let mut cursor = txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    assert_eq!(cursor.look_ahead(0, 10, |_, _| panic!("shown")).unwrap(), 0);
    assert!(cursor.next().unwrap().is_some());
}

/// The caller got an error after entries, which it had a place for.
#[test]
fn entries_of_a_view_that_is_given_up_meanwhile_count_for_nothing() {
    let mut setup = Setup::default();
    setup.txn.max_old_versions = 8 * 4096;
    let db = Db::with(setup);
    let change_all = |value: &str| {
        for key in 0..100 {
            db.put(&[(&format!("k{key:03}"), value)]);
            db.purge();
        }
    };
    change_all(&"x".repeat(900));
    let mut snapshot = db.snapshot();
    let mut cursor = open(&mut snapshot, &db, Direction::Forward);
    let mut seen = 0;
    let shown = cursor.look_ahead(0, 32, |_, _| {
        if seen == 0 {
            change_all("new");
        }
        seen += 1;
    });
    assert_eq!((shown.unwrap(), seen > 0), (0, true));
    assert!(matches!(cursor.next(), Err(Error::SnapshotTooOld)));
}
