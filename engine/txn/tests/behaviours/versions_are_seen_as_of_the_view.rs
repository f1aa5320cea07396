//! Views, own changes, savepoints, purge, one version per changed row, the limit.

use holdfast_base::Error;
use holdfast_metrics::Counter;
use holdfast_txn::*;

use crate::common::*;

#[test]
fn a_snapshot_keeps_seeing_what_it_saw() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut old = db.snapshot();
    db.put(&[("a", "2"), ("c", "2")]);
    let mut txn = db.begin();
    assert!(txn.delete(&db.rows, b"b", None).unwrap());
    txn.commit(FlushAtCommit::Sync).unwrap();
    let mut new = db.snapshot();
    let expect_old = vec![("a".into(), "1".into()), ("b".into(), "1".into())];
    assert_eq!(scan(&mut old, &db.rows), expect_old);
    assert_eq!(get(&mut old, &db.rows, "b"), Some("1".into()));
    assert_eq!(get(&mut old, &db.rows, "c"), None);
    assert_eq!(scan(&mut new, &db.rows), [("a".to_string(), "2".to_string()), ("c".into(), "2".into())]);
    assert_eq!(get(&mut new, &db.rows, "b"), None);
    old.commit(FlushAtCommit::Sync).unwrap();
    new.commit(FlushAtCommit::Sync).unwrap();
    assert_eq!(db.purge(), 8, "five records in three logs");
    assert_eq!(db.physical(&db.rows), 2);
    assert_eq!(db.sys.history_length(), 0);
    db.verify_clean();
}

#[test]
fn uncommitted_changes_are_the_writer_s_own() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let mut writer = db.begin();
    let mut old = Vec::new();
    assert!(writer.update(&db.rows, b"a", b"2", Some(&mut old)).unwrap());
    assert_eq!(old, b"1");
    assert!(writer.update(&db.rows, b"a", b"3", Some(&mut old)).unwrap());
    assert_eq!(old, b"2");
    writer.insert(&db.rows, b"n", b"new").unwrap();
    assert!(!writer.update(&db.rows, b"absent", b"x", None).unwrap());
    assert!(is(writer.insert(&db.rows, b"a", b"x"), |e| matches!(e, Error::DuplicateKey)));
    assert_eq!(scan(&mut writer, &db.rows).len(), 2);
    let mut reader = db.snapshot();
    assert_eq!(scan(&mut reader, &db.rows), [("a".to_string(), "1".to_string())]);
    writer.rollback().unwrap();
    assert_eq!(scan(&mut reader, &db.rows), [("a".to_string(), "1".to_string())]);
    assert_eq!(db.physical(&db.rows), 1);
    assert_eq!(db.sys.stats().undo_pages, 1, "the log of the first commit is not purged");
    db.purge();
    assert_eq!(db.sys.stats().undo_pages, 0);
}

#[test]
fn savepoints_undo_what_came_after_them() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1")]);
    let mut txn = db.begin();
    txn.upsert(&db.rows, b"a", b"2", None).unwrap();
    let first = txn.savepoint();
    txn.upsert(&db.rows, b"a", b"3", None).unwrap();
    txn.delete(&db.rows, b"b", None).unwrap();
    txn.insert(&db.rows, b"c", b"3").unwrap();
    let second = txn.savepoint();
    txn.delete(&db.rows, b"c", None).unwrap();
    txn.rollback_to(second).unwrap();
    assert_eq!(get(&mut txn, &db.rows, "c"), Some("3".into()));
    txn.rollback_to(first).unwrap();
    assert!(is(txn.rollback_to(second), |e| matches!(e, Error::InvalidArgument(_))));
    assert_eq!(scan(&mut txn, &db.rows), [("a".to_string(), "2".to_string()), ("b".into(), "1".into())]);
    txn.upsert(&db.rows, b"d", b"4", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    db.purge();
    assert_eq!(db.rows.rows(), 3);
    assert_eq!(scan(&mut db.snapshot(), &db.rows).len(), 3);
    db.verify_clean();
}

#[test]
fn a_long_snapshot_costs_one_version_per_changed_row() {
    let db = Db::new();
    for i in 0..20 {
        db.put(&[(&format!("k{i:02}"), "before")]);
    }
    db.purge();
    let mut dump = db.snapshot();
    for round in 0..30 {
        for i in 0..10 {
            db.put(&[(&format!("k{i:02}"), &format!("{round}"))]);
        }
        db.purge();
    }
    assert_eq!(db.sys.versions_stored(), 10);
    assert!(db.sys.history_length() <= 8, "history {}", db.sys.history_length());
    let rows = scan(&mut dump, &db.rows);
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|(_, v)| v == "before"), "{rows:?}");
    assert_eq!(get(&mut dump, &db.rows, "k03"), Some("before".into()));
    assert_eq!(get(&mut db.snapshot(), &db.rows, "k03"), Some("29".into()));
    drop(dump);
    db.purge();
    assert_eq!(db.sys.versions_stored(), 0);
    assert_eq!(db.sys.history_length(), 0);
}

/// Whatever is the order in which snapshots end that need the same versions, and marks, none of
/// these stays.
#[test]
fn versions_go_with_the_last_snapshot_that_needs_them() {
    let commits = |db: &Db| {
        for i in 0..40 {
            db.put(&[("z", &format!("{i}"))]);
            db.purge();
        }
    };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let db = Db::new();
        db.put(&[("a", "1"), ("b", "1")]);
        let mut dumps = Vec::new();
        for _ in 0..3 {
            dumps.push(Some(db.snapshot()));
            db.put(&[("y", "1")]);
            commits(&db);
        }
        let mut txn = db.begin();
        txn.delete(&db.rows, b"b", None).unwrap();
        txn.commit(FlushAtCommit::Sync).unwrap();
        db.put(&[("a", "2")]);
        commits(&db);
        for ends in order {
            assert_eq!(get(dumps[ends].as_mut().unwrap(), &db.rows, "b"), Some("1".into()), "{order:?}");
            dumps[ends] = None;
            db.purge();
            for dump in dumps.iter_mut().flatten() {
                assert_eq!(get(dump, &db.rows, "a"), Some("1".into()), "{order:?}");
            }
        }
        assert_eq!(db.sys.versions_stored(), 0, "{order:?}");
        assert_eq!(db.physical(&db.rows), 3, "a, y, z: {order:?}");
        db.verify_clean();
    }
}

#[test]
fn history_stays_flat_without_snapshots() {
    let db = Db::new();
    for round in 0..200 {
        db.put(&[("k", &format!("{round}"))]);
        db.purge();
        assert_eq!(db.sys.history_length(), 0);
        assert_eq!(db.sys.stats().undo_pages, 0);
    }
    assert_eq!(db.sys.versions_stored(), 0);
}

#[test]
fn deleted_rows_stay_for_a_long_snapshot_and_go_with_it() {
    let db = Db::new();
    db.put(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let mut dump = db.snapshot();
    let mut txn = db.begin();
    txn.delete(&db.rows, b"b", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    for i in 0..40 {
        db.put(&[("z", &format!("{i}"))]);
        db.purge();
    }
    assert_eq!(scan(&mut dump, &db.rows).len(), 3);
    // Inserted again, and that rolled back: the mark is still there for the snapshot.
    let mut txn = db.begin();
    txn.insert(&db.rows, b"b", b"again").unwrap();
    txn.rollback().unwrap();
    assert_eq!(get(&mut dump, &db.rows, "b"), Some("1".into()));
    db.put(&[("b", "again")]);
    for i in 0..40 {
        db.put(&[("z", &format!("{i}"))]);
        db.purge();
    }
    assert_eq!(get(&mut dump, &db.rows, "b"), Some("1".into()));
    assert_eq!(get(&mut db.snapshot(), &db.rows, "b"), Some("again".into()));
    let mut txn = db.begin();
    txn.delete(&db.rows, b"c", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    db.purge();
    drop(dump);
    db.purge();
    assert_eq!(db.physical(&db.rows), 3, "a, b, z");
    assert_eq!(db.sys.versions_stored(), 0);
    db.verify_clean();
}

/// The transaction deletes the row twice. Purge does not remember the earlier of the two delete
/// marks, which is in no version any more, because the insert that was rolled back covers both.
#[test]
fn the_last_of_several_marks_of_a_transaction_is_remembered() {
    let db = Db::new();
    db.put(&[("a", "1")]);
    let dump = db.snapshot();
    let mut txn = db.begin();
    txn.delete(&db.rows, b"a", None).unwrap();
    txn.insert(&db.rows, b"a", b"2").unwrap();
    txn.delete(&db.rows, b"a", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    let mut cover = db.begin();
    cover.insert(&db.rows, b"a", b"3").unwrap();
    for i in 0..20 {
        db.put(&[("z", &format!("{i}"))]);
        db.purge();
    }
    cover.rollback().unwrap();
    drop(dump);
    db.purge();
    assert_eq!(db.physical(&db.rows), 1, "only z");
}

#[test]
fn the_oldest_read_only_snapshot_pays_for_the_limit() {
    let mut setup = Setup::default();
    setup.txn.max_old_versions = 8 * 4096;
    let db = Db::with(setup);
    let long = "x".repeat(900);
    for i in 0..100 {
        db.put(&[(&format!("k{i:03}"), &long)]);
        db.purge();
    }
    let mut dump = db.snapshot();
    assert_eq!(scan(&mut dump, &db.rows).len(), 100);
    let mut writer = db.begin();
    assert_eq!(get(&mut writer, &db.rows, "k000"), Some(long.clone()));
    for i in 0..100 {
        db.put(&[(&format!("k{i:03}"), "new")]);
        db.purge();
    }
    let mut value = Vec::new();
    assert!(is(dump.get(&db.rows, b"k000", &mut value), |e| matches!(e, Error::SnapshotTooOld)));
    assert!(is(dump.get(&db.rows, b"absent", &mut value), |e| matches!(e, Error::SnapshotTooOld)));
    assert_eq!(db.store.metrics().get(Counter::TrxSnapshotTooOld), 1);
    // A transaction that may write keeps its view.
    assert_eq!(get(&mut writer, &db.rows, "k000"), Some(long));
}

#[test]
fn one_huge_transaction_gets_an_error_of_its_statement() {
    let mut setup = Setup::default();
    setup.txn.max_undo_per_txn = 4 * 4096;
    let db = Db::with(setup);
    db.put(&[("a", "1")]);
    let mut txn = db.begin();
    let savepoint = txn.statement_begin().unwrap();
    let mut n = 0;
    let error = loop {
        match txn.insert(&db.rows, format!("k{n:05}").as_bytes(), &[7; 300]) {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(error, Error::LimitReached(_)), "{error}");
    assert!(n > 100);
    txn.rollback_to(savepoint).unwrap();
    txn.insert(&db.rows, b"b", b"2").unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    assert_eq!(scan(&mut db.snapshot(), &db.rows).len(), 2);
    db.purge();
    assert_eq!(db.sys.stats().undo_pages, 0);
    db.verify_clean();
}

#[test]
fn large_values_are_freed_exactly_once() {
    let db = Db::new();
    let large = |c: char| c.to_string().repeat(20_000);
    db.put(&[("a", &large('1')), ("b", &large('1')), ("c", &large('1'))]);
    let mut dump = db.snapshot();
    let mut txn = db.begin();
    txn.update(&db.rows, b"a", large('2').as_bytes(), None).unwrap();
    txn.update(&db.rows, b"a", large('3').as_bytes(), None).unwrap();
    txn.delete(&db.rows, b"b", None).unwrap();
    txn.rollback().unwrap();
    assert_eq!(get(&mut db.snapshot(), &db.rows, "a"), Some(large('1')));
    let mut txn = db.begin();
    txn.update(&db.rows, b"a", large('2').as_bytes(), None).unwrap();
    let mut old = Vec::new();
    txn.update(&db.rows, b"a", large('3').as_bytes(), Some(&mut old)).unwrap();
    assert_eq!(old, large('2').as_bytes());
    txn.delete(&db.rows, b"b", None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    for i in 0..40 {
        db.put(&[("c", &large('x')), ("z", &format!("{i}"))]);
        db.purge();
    }
    for key in ["a", "b", "c"] {
        assert_eq!(get(&mut dump, &db.rows, key), Some(large('1')), "{key}");
    }
    assert_eq!(db.sys.versions_stored(), 3);
    dump.rollback().unwrap();
    db.purge();
    assert_eq!(db.sys.versions_stored(), 0);
    assert_eq!(get(&mut db.snapshot(), &db.rows, "a"), Some(large('3')));
    db.verify_clean();
}

#[test]
fn the_longest_keys_have_versions_too() {
    let db = Db::new();
    let key = |c: char| c.to_string().repeat(1024);
    db.put(&[(&key('a'), "1"), (&key('b'), "1")]);
    let mut dump = db.snapshot();
    let mut txn = db.begin();
    txn.delete(&db.rows, key('a').as_bytes(), None).unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    for i in 0..40 {
        db.put(&[(&key('b'), &format!("{i}").repeat(200))]);
        db.purge();
    }
    assert_eq!(get(&mut dump, &db.rows, &key('a')), Some("1".into()));
    assert_eq!(get(&mut dump, &db.rows, &key('b')), Some("1".into()));
    drop(dump);
    db.purge();
    assert_eq!(db.physical(&db.rows), 1);
    db.verify_clean();
    let too_long = "k".repeat(1025);
    assert!(is(db.begin().insert(&db.rows, too_long.as_bytes(), b""), |e| matches!(e, Error::KeyTooLong { .. })));
}
