//! The Hermitage catalogue of anomalies at each isolation level: dirty write (G0), aborted read
//! (G1a), intermediate read (G1b), circular information flow (G1c), observed transaction vanishes
//! (OTV), predicate-many-preceders (PMP), lost update (P4), read skew (G-single), write skew
//! (G2-item, G2).

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::{self, Db};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// READ COMMITTED.
    Rc,
    /// REPEATABLE READ that acts on the newest committed version.
    Rr,
    /// REPEATABLE READ with snapshot isolation.
    Si,
    /// SERIALIZABLE.
    Ser,
}
use Level::{Rc, Rr, Ser, Si};

const ALL: [Level; 4] = [Rc, Rr, Si, Ser];

fn options(level: Level) -> TxnOptions {
    let (isolation, snapshot_isolation) = match level {
        Rc => (Isolation::ReadCommitted, false),
        Rr => (Isolation::RepeatableRead, false),
        Si => (Isolation::RepeatableRead, true),
        Ser => (Isolation::Serializable, false),
    };
    TxnOptions { isolation, snapshot_isolation, ..TxnOptions::default() }
}

fn test_db() -> Db {
    let db = Db::new();
    db.put(&[("1", "10"), ("2", "20")]);
    db
}

fn begin(db: &Db, level: Level) -> Session {
    Session::new(db, options(level))
}

/// The committed rows.
fn rows(db: &Db) -> Vec<(String, String)> {
    common::scan(&mut db.snapshot(), &db.rows)
}

fn expect(db: &Db, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    assert_eq!(rows(db), expected);
}

fn conflict<T>(result: holdfast_base::Result<T>) -> bool {
    common::is(result, |e| matches!(e, Error::Conflict))
}

fn deadlock<T>(result: holdfast_base::Result<T>) -> bool {
    common::is(result, |e| matches!(e, Error::Deadlock))
}

#[test]
fn g0_no_dirty_writes() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        t1.update("1", "11").result().unwrap();
        if level == Si {
            // Without a read before, the snapshot would be taken after the wait, and there would be
            // no conflict.
            t2.get("2").result().unwrap();
        }
        let waiting = t2.update("1", "12").blocked();
        t1.update("2", "21").result().unwrap();
        t1.commit().unwrap();
        if level == Si {
            assert!(conflict(waiting.result()));
            t2.rollback();
            expect(&db, &[("1", "11"), ("2", "21")]);
            continue;
        }
        assert!(waiting.result().unwrap());
        t2.update("2", "22").result().unwrap();
        t2.commit().unwrap();
        expect(&db, &[("1", "12"), ("2", "22")]);
    }
}

#[test]
fn a_snapshot_is_taken_after_the_first_statement_s_wait() {
    let db = test_db();
    let (t1, t2) = (begin(&db, Si), begin(&db, Si));
    t1.update("1", "11").result().unwrap();
    let waiting = t2.update("1", "12").blocked();
    t1.update("2", "21").result().unwrap();
    t1.commit().unwrap();
    assert!(waiting.result().unwrap());
    assert_eq!(t2.get("2").result().unwrap(), "21");
}

#[test]
fn g1a_no_aborted_reads() {
    for level in [Rc, Rr, Si] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        t1.update("1", "101").result().unwrap();
        assert_eq!(t2.get("1").result().unwrap(), "10");
        t1.rollback();
        assert_eq!(t2.get("1").result().unwrap(), "10");
        t2.commit().unwrap();
    }
    let db = test_db();
    let (t1, t2) = (begin(&db, Ser), begin(&db, Ser));
    t1.update("1", "101").result().unwrap();
    let waiting = t2.get("1").blocked();
    t1.rollback();
    assert_eq!(waiting.result().unwrap(), "10");
}

#[test]
fn g1b_no_intermediate_reads() {
    for (level, after) in [(Rc, "11"), (Rr, "10"), (Si, "10")] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        t1.update("1", "101").result().unwrap();
        assert_eq!(t2.get("1").result().unwrap(), "10");
        t1.update("1", "11").result().unwrap();
        t1.commit().unwrap();
        assert_eq!(t2.get("1").result().unwrap(), after, "{level:?}");
    }
    let db = test_db();
    let (t1, t2) = (begin(&db, Ser), begin(&db, Ser));
    t1.update("1", "101").result().unwrap();
    let waiting = t2.get("1").blocked();
    t1.update("1", "11").result().unwrap();
    t1.commit().unwrap();
    assert_eq!(waiting.result().unwrap(), "11");
}

#[test]
fn g1c_no_circular_information_flow() {
    for level in [Rc, Rr, Si] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        t1.update("1", "11").result().unwrap();
        t2.update("2", "22").result().unwrap();
        assert_eq!(t1.get("2").result().unwrap(), "20");
        assert_eq!(t2.get("1").result().unwrap(), "10");
        t1.commit().unwrap();
        t2.commit().unwrap();
        expect(&db, &[("1", "11"), ("2", "22")]);
    }
    let db = test_db();
    let (t1, t2) = (begin(&db, Ser), begin(&db, Ser));
    t1.update("1", "11").result().unwrap();
    t2.update("2", "22").result().unwrap();
    let waiting = t1.get("2").blocked();
    assert!(deadlock(t2.get("1").result()));
    t2.rollback();
    assert_eq!(waiting.result().unwrap(), "20");
}

#[test]
fn otv_an_observed_transaction_does_not_vanish() {
    for level in [Rc, Rr] {
        let db = test_db();
        let (t1, t2, t3) = (begin(&db, level), begin(&db, level), begin(&db, level));
        t1.update("1", "11").result().unwrap();
        t1.update("2", "19").result().unwrap();
        let waiting = t2.update("1", "12").blocked();
        t1.commit().unwrap();
        waiting.result().unwrap();
        assert_eq!(t3.get("1").result().unwrap(), "11");
        t2.update("2", "18").result().unwrap();
        assert_eq!(t3.get("2").result().unwrap(), "19");
        t2.commit().unwrap();
        let (one, two) = if level == Rc { ("12", "18") } else { ("11", "19") };
        assert_eq!(t3.get("2").result().unwrap(), two);
        assert_eq!(t3.get("1").result().unwrap(), one);
    }
}

#[test]
fn pmp_read_predicates() {
    for (level, phantom) in [(Rc, 1), (Rr, 0), (Si, 0)] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert!(t1.select(|v| v == 30).result().unwrap().is_empty());
        t2.insert("3", "30").result().unwrap();
        t2.commit().unwrap();
        assert_eq!(t1.select(|v| v % 3 == 0).result().unwrap().len(), phantom, "{level:?}");
    }
    let db = test_db();
    let (t1, t2) = (begin(&db, Ser), begin(&db, Ser));
    assert!(t1.select(|v| v == 30).result().unwrap().is_empty());
    let waiting = t2.insert("3", "30").blocked();
    assert!(t1.select(|v| v % 3 == 0).result().unwrap().is_empty());
    t1.commit().unwrap();
    waiting.result().unwrap();
    t2.commit().unwrap();
}

#[test]
fn pmp_write_predicates() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        t2.run(|t| {
            t.take_snapshot();
            Ok(())
        })
        .result()
        .unwrap();
        assert_eq!(t1.change(|_| true, Some(|v| v + 10)).result().unwrap(), 2);
        let waiting = t2.change(|v| v == 20, None).blocked();
        t1.commit().unwrap();
        if level == Si {
            assert!(conflict(waiting.result()));
            continue;
        }
        // It acts on the newest committed rows: the one that is 20 now.
        assert_eq!(waiting.result().unwrap(), 1);
        t2.commit().unwrap();
        expect(&db, &[("2", "30")]);
    }
}

#[test]
fn p4_lost_updates() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert_eq!(t1.get("1").result().unwrap(), "10");
        assert_eq!(t2.get("1").result().unwrap(), "10");
        if level == Ser {
            let waiting = t1.update("1", "11").blocked();
            assert!(deadlock(t2.update("1", "11").result()));
            t2.rollback();
            assert!(waiting.result().unwrap());
            continue;
        }
        t1.update("1", "11").result().unwrap();
        let waiting = t2.update("1", "12").blocked();
        t1.commit().unwrap();
        if level == Si {
            assert!(conflict(waiting.result()));
        } else {
            assert!(waiting.result().unwrap());
            t2.commit().unwrap();
            expect(&db, &[("1", "12"), ("2", "20")]);
        }
    }
}

#[test]
fn g_single_read_skew() {
    for (level, second) in [(Rc, "18"), (Rr, "20"), (Si, "20")] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert_eq!(t1.get("1").result().unwrap(), "10");
        t2.update("1", "12").result().unwrap();
        t2.update("2", "18").result().unwrap();
        t2.commit().unwrap();
        assert_eq!(t1.get("2").result().unwrap(), second, "{level:?}");
    }
    let db = test_db();
    let (t1, t2) = (begin(&db, Ser), begin(&db, Ser));
    assert_eq!(t1.get("1").result().unwrap(), "10");
    let waiting = t2.update("1", "12").blocked();
    assert_eq!(t1.get("2").result().unwrap(), "20");
    t1.commit().unwrap();
    waiting.result().unwrap();
}

#[test]
fn g_single_with_a_write_predicate() {
    for level in [Rc, Rr, Si] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert_eq!(t1.get("1").result().unwrap(), "10");
        assert_eq!(t2.select(|_| true).result().unwrap().len(), 2);
        t2.update("1", "12").result().unwrap();
        t2.update("2", "18").result().unwrap();
        t2.commit().unwrap();
        let deleted = t1.change(|v| v == 20, None).result();
        if level == Si {
            assert!(conflict(deleted));
        } else {
            assert_eq!(deleted.unwrap(), 0);
        }
    }
}

#[test]
fn g2_item_write_skew() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        for t in [&t1, &t2] {
            assert_eq!(t.get("1").result().unwrap(), "10");
            assert_eq!(t.get("2").result().unwrap(), "20");
        }
        if level == Ser {
            let waiting = t1.update("1", "11").blocked();
            assert!(deadlock(t2.update("2", "21").result()));
            t2.rollback();
            waiting.result().unwrap();
            continue;
        }
        t1.update("1", "11").result().unwrap();
        t2.update("2", "21").result().unwrap();
        t1.commit().unwrap();
        t2.commit().unwrap();
        expect(&db, &[("1", "11"), ("2", "21")]);
    }
}

#[test]
fn g2_anti_dependency_cycles() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert!(t1.select(|v| v % 3 == 0).result().unwrap().is_empty());
        assert!(t2.select(|v| v % 3 == 0).result().unwrap().is_empty());
        if level == Ser {
            let waiting = t1.insert("3", "30").blocked();
            assert!(deadlock(t2.insert("4", "42").result()));
            t2.rollback();
            waiting.result().unwrap();
            t1.commit().unwrap();
            expect(&db, &[("1", "10"), ("2", "20"), ("3", "30")]);
            continue;
        }
        t1.insert("3", "30").result().unwrap();
        t2.insert("4", "42").result().unwrap();
        t1.commit().unwrap();
        t2.commit().unwrap();
        assert_eq!(rows(&db).len(), 4);
    }
}

#[test]
fn locking_reads_keep_phantoms_out_where_promised() {
    for level in ALL {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert_eq!(t1.change(|_| false, None).result().unwrap(), 0);
        let inserting = t2.insert("3", "30");
        if level == Rc {
            inserting.result().unwrap();
            // And rows that did not qualify are unlocked again.
            t2.update("1", "11").result().unwrap();
            continue;
        }
        let waiting = inserting.blocked();
        assert_eq!(t1.change(|v| v == 30, None).result().unwrap(), 0);
        t1.commit().unwrap();
        waiting.result().unwrap();
    }
}

#[test]
fn a_change_of_an_absent_row_keeps_the_key_free_where_promised() {
    for level in [Rc, Rr, Ser] {
        let db = test_db();
        let (t1, t2) = (begin(&db, level), begin(&db, level));
        assert!(!t1.update("5", "x").result().unwrap());
        let inserting = t2.insert("5", "50");
        if level == Rc {
            inserting.result().unwrap();
            continue;
        }
        let waiting = inserting.blocked();
        t1.commit().unwrap();
        waiting.result().unwrap();
    }
}

#[test]
fn a_row_deleted_after_the_snapshot_is_a_conflict_for_an_insert() {
    let db = test_db();
    let (t1, t2) = (begin(&db, Si), begin(&db, Si));
    assert_eq!(t1.get("1").result().unwrap(), "10");
    assert_eq!(t2.change(|v| v == 10, None).result().unwrap(), 1);
    t2.commit().unwrap();
    assert_eq!(t1.get("1").result().unwrap(), "10");
    assert!(conflict(t1.insert("1", "x").result()));
    let t3 = begin(&db, Si);
    t3.insert("1", "x").result().unwrap();
    t3.commit().unwrap();
}
