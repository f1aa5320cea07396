//! At READ COMMITTED each statement has a view of its own. It was kept until the next statement
//! began: of a transaction that had changed a row, and then did nothing for hours, it kept all old
//! versions since, beyond their limit.

use std::ops::Bound;

use holdfast_txn::*;

use crate::common::*;

fn views(db: &Db) -> usize {
    db.sys.stats().views
}

#[test]
fn at_read_committed() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut txn = db.at(Isolation::ReadCommitted);
    txn.statement_begin().unwrap();
    assert!(txn.update(&db.rows, b"a", b"2", None).unwrap());
    assert_eq!(get(&mut txn, &db.rows, "b").as_deref(), Some("1"));
    assert_eq!(views(&db), 1);
    txn.statement_end();
    assert_eq!(views(&db), 0);

    // A cursor goes on at the view of its statement.
    txn.statement_begin().unwrap();
    let options = CursorOptions::default();
    let mut cursor = txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, options).unwrap();
    txn.statement_end();
    assert_eq!(views(&db), 1);
    db.commit(|other| assert!(other.update(&db.rows, b"b", b"3", None).unwrap()));
    let mut seen = Vec::new();
    while let Some((_, value)) = cursor.next().unwrap() {
        seen.push(value.to_vec());
    }
    assert_eq!(seen, [b"2", b"1"]);
    drop(cursor);
    assert_eq!(views(&db), 0);

    txn.statement_begin().unwrap();
    assert_eq!(get(&mut txn, &db.rows, "b").as_deref(), Some("3"));
    txn.commit(FlushAtCommit::Lazy).unwrap();
    db.verify_clean();
}

/// The oldest one was kept until the next statement began, though its cursor was closed.
#[test]
fn and_none_of_a_cursor_that_is_closed_behind_its_statement() {
    let db = Db::new();
    db.put(&[("a", "0")]);
    let mut txn = db.at(Isolation::ReadCommitted);
    let mut cursors = Vec::new();
    for n in 1..4 {
        txn.statement_begin().unwrap();
        cursors.push(txn.cursor(&db.rows, Bound::Unbounded, Bound::Unbounded, CursorOptions::default()).unwrap());
        txn.statement_end();
        assert_eq!(views(&db), n);
        db.put(&[("a", &n.to_string())]);
    }
    for left in (0..3).rev() {
        drop(cursors.remove(0));
        assert_eq!(views(&db), left);
    }
}

#[test]
fn and_keeps_its_own_at_the_other_levels() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let mut txn = db.at(Isolation::RepeatableRead);
    txn.statement_begin().unwrap();
    assert_eq!(get(&mut txn, &db.rows, "a").as_deref(), Some("1"));
    txn.statement_end();
    assert_eq!(views(&db), 1);
    db.commit(|other| assert!(other.update(&db.rows, b"a", b"2", None).unwrap()));
    assert_eq!(get(&mut txn, &db.rows, "a").as_deref(), Some("1"));
}
