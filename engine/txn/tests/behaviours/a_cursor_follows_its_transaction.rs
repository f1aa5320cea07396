//! A cursor shows what its transaction has changed, undone and added ahead of it, and does not read
//! the tree anew for it row by row.

use std::collections::BTreeMap;
use std::ops::Bound;

use holdfast_base::{Error, Result};
use holdfast_txn::*;
use proptest::prelude::*;

use crate::common::*;

const KEYS: u16 = 400;

fn open(txn: &mut Txn, db: &Db, direction: Direction, lock: Option<LockMode>) -> RowCursor {
    let options = CursorOptions { direction, lock, ..CursorOptions::default() };
    txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap()
}

/// Two hundred rows at even keys; rows at odd keys can be added between them.
fn filled() -> (Db, BTreeMap<u16, u32>) {
    let db = Db::new();
    let rows: BTreeMap<u16, u32> = (0..KEYS).step_by(2).map(|k| (k, 0)).collect();
    let mut txn = db.begin();
    for k in rows.keys() {
        txn.insert(&db.rows, &k.to_be_bytes(), &value(0)).unwrap();
    }
    txn.commit(FlushAtCommit::Lazy).unwrap();
    (db, rows)
}

/// Wide enough that a full batch is dozens of leaves.
fn value(n: u32) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    value.resize(200, 0);
    value
}

#[derive(Clone, Debug)]
enum Step {
    Open(bool, bool),
    Next(u8),
    /// Looks at so many entries ahead, and takes so many of them.
    Ahead(u8, u8),
    Put(u16, u32),
    Delete(u16),
    /// A change of another index.
    Other(u16),
    TxnSavepoint,
    RollBack,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (any::<bool>(), any::<bool>()).prop_map(|(reverse, lock)| Step::Open(reverse, lock)),
        8 => (1..40u8).prop_map(Step::Next),
        8 => (1..90u8, 0..90u8).prop_map(|(max, taken)| Step::Ahead(max, taken)),
        4 => (0..KEYS, any::<u32>()).prop_map(|(k, v)| Step::Put(k, v)),
        2 => (0..KEYS).prop_map(Step::Delete),
        2 => (0..KEYS).prop_map(Step::Other),
        1 => Just(Step::TxnSavepoint),
        1 => Just(Step::RollBack),
    ]
}

fn decode(key: &[u8], value: &[u8]) -> (u16, u32) {
    (u16::from_be_bytes(key.try_into().unwrap()), u32::from_be_bytes(value[..4].try_into().unwrap()))
}

/// What the cursor should give next.
fn expected(rows: &BTreeMap<u16, u32>, at: Option<u16>, direction: Direction) -> Option<(u16, u32)> {
    let found = match direction {
        Direction::Forward => rows.range((at.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)).next(),
        Direction::Reverse => rows.range((Bound::Unbounded, at.map_or(Bound::Unbounded, Bound::Excluded))).next_back(),
    };
    found.map(|(k, v)| (*k, *v))
}

fn follow(steps: &[Step]) -> Result<()> {
    let (db, mut rows) = filled();
    let mut txn = db.at(Isolation::RepeatableRead);
    let (mut direction, mut at) = (Direction::Forward, None);
    let mut cursor = open(&mut txn, &db, direction, None);
    // At the end it has passed over rows that were deleted. It does not come back to them.
    let (mut at_end, mut over, mut deleted) = (false, false, false);
    let mut savepoint = (txn.savepoint(), rows.clone());
    for step in steps {
        match *step {
            Step::Open(reverse, lock) => {
                direction = if reverse { Direction::Reverse } else { Direction::Forward };
                cursor = open(&mut txn, &db, direction, lock.then_some(LockMode::Exclusive));
                at = None;
                (at_end, over) = (false, false);
            }
            Step::Next(times) => {
                for _ in 0..if over { 0 } else { times } {
                    let wanted = expected(&rows, at, direction);
                    let given = cursor.next()?.map(|(k, v)| decode(k, v));
                    assert_eq!(given, wanted);
                    at_end = given.is_none();
                    let Some((key, _)) = given else { break };
                    at = Some(key);
                }
            }
            Step::Ahead(max, taken) if !over => {
                let mut shown = Vec::new();
                let count = cursor.look_ahead(0, usize::from(max), |k, v| shown.push(decode(k, v)))?;
                assert!(count == shown.len() && count <= usize::from(max));
                let mut from = at;
                for entry in &shown {
                    assert_eq!(Some(*entry), expected(&rows, from, direction));
                    from = Some(entry.0);
                }
                shown.truncate(usize::from(taken));
                assert_eq!(cursor.look_ahead(shown.len(), 0, |_, _| {})?, 0);
                at = shown.last().map(|(key, _)| *key).or(at);
            }
            Step::Ahead(..) => {}
            Step::Put(k, v) => {
                txn.upsert(&db.rows, &k.to_be_bytes(), &value(v), None)?;
                rows.insert(k, v);
                over |= at_end && deleted;
            }
            Step::Delete(k) => {
                let there = txn.delete(&db.rows, &k.to_be_bytes(), None)?;
                assert_eq!(there, rows.remove(&k).is_some());
                deleted = true;
            }
            Step::Other(k) => match txn.insert(&db.other, &k.to_be_bytes(), b"") {
                Ok(()) | Err(Error::DuplicateKey) => {}
                Err(e) => return Err(e),
            },
            Step::TxnSavepoint => savepoint = (txn.savepoint(), rows.clone()),
            Step::RollBack => {
                txn.rollback_to(savepoint.0)?;
                rows.clone_from(&savepoint.1);
                over |= at_end && deleted;
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn it_gives_what_is_there_now(steps in proptest::collection::vec(step(), 1..60)) {
        follow(&steps).unwrap();
    }
}

/// A row that the transaction has deleted before it is shown ahead is returned if a rollback
/// restores it before an entry behind it is taken.
#[test]
fn a_row_that_comes_back_between_what_was_given_and_what_was_shown_is_given() {
    // Up to the neighbour of row 200, from either end.
    for (reverse, given) in [(false, 100), (true, 99)] {
        let (open, look) = (Step::Open(reverse, false), Step::Ahead(1, 0));
        follow(&[Step::Delete(200), open, Step::Next(given), look, Step::RollBack, Step::Next(2)]).unwrap();
    }
}

/// Pages of the table that a statement asks for which reads all rows with a cursor and does
/// `change` with each.
fn pages_of(change: impl Fn(&mut Txn, &Db, u16)) -> u64 {
    let (db, rows) = filled();
    let mut txn = db.at(Isolation::RepeatableRead);
    let before = db.rows.access_stats().requests();
    let mut cursor = open(&mut txn, &db, Direction::Forward, Some(LockMode::Exclusive));
    let mut seen = 0;
    while let Some((key, _)) = cursor.next().unwrap() {
        let key = u16::from_be_bytes(key.try_into().unwrap());
        change(&mut txn, &db, key);
        seen += 1;
    }
    assert_eq!(seen, rows.len());
    db.rows.access_stats().requests() - before
}

/// A change of the transaction does not make the cursor of an UPDATE or an INSERT ... SELECT read a
/// batch of dozens of pages for every row.
#[test]
fn a_statement_that_changes_each_row_reads_each_leaf_a_few_times() {
    let nothing = pages_of(|_, _, _| {});
    let another = pages_of(|txn, db, key| txn.insert(&db.other, &key.to_be_bytes(), b"copy").unwrap());
    assert_eq!(another, nothing, "changes of another table");
    let updates = pages_of(|txn, db, key| {
        assert!(txn.update(&db.rows, &key.to_be_bytes(), &value(1), None).unwrap());
    });
    let rows = u64::from(KEYS / 2);
    assert!(updates <= nothing + 5 * rows, "{updates} pages for {rows} updates, {nothing} without");
}
