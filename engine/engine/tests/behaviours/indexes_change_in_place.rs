//! Indexes are added to a table that has rows, and dropped from it, without a copy: all of it
//! happens or nothing, wherever the power goes, and no page is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast::io::MemoryDisk;
use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase, RawTable, RawTransaction};
use holdfast::{Database, Error, FlushAtCommit, Isolation, Result, VerifyOptions};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp};

use crate::common;
use crate::common::rows::{self, begin_at};

const ROWS: u32 = 1_500;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn raw(db: &Database) -> RawDatabase {
    RawDatabase::new(db.clone())
}

fn row_key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// The entry of a row in the index that orders them the other way round.
fn entry(i: u32) -> (Vec<u8>, Vec<u8>) {
    (rows::entry(u32::MAX - i, i), rows::covering(&[i as u8; 50]))
}

/// Its value when it finds no room in a page.
fn large(i: u32) -> Vec<u8> {
    rows::covering(&vec![i as u8; 20_000])
}

/// A table of rows with one index, `first`.
fn fill(db: &RawDatabase, name: &str) {
    db.create_table(name, &[("first", false)], b"old", Lifetime::Lasting).unwrap();
    let table = db.open_table(name).unwrap();
    let mut txn = begin_at(db, Isolation::RepeatableRead);
    for i in 0..ROWS {
        let (key, value) = entry(i);
        txn.insert(&table, 0, &row_key(i), b"row").unwrap();
        txn.insert(&table, 1, &key, &value).unwrap();
    }
    txn.commit(FlushAtCommit::Sync).unwrap();
}

fn read_in(txn: &mut RawTransaction, table: &RawTable, index: u32) -> Result<Entries> {
    Ok(rows::read(txn, table, index)?.into_iter().collect())
}

fn read(db: &RawDatabase, name: &str, index: u32) -> Entries {
    let mut txn = begin_at(db, Isolation::RepeatableRead);
    read_in(&mut txn, &db.open_table(name).unwrap(), index).unwrap()
}

/// Begins to add the index `second`, and fills it.
fn build(db: &RawDatabase, name: &str) -> Result<RawAlter> {
    let mut alter = db.begin_alter(name, &[("second", true)], false, common::WAIT)?;
    for i in 0..ROWS {
        let (key, value) = entry(i);
        alter.push(0, &key, 4, &value)?;
    }
    alter.finish()?;
    Ok(alter)
}

/// Adds the index `second`, in front of the one that there is.
fn add(db: &RawDatabase, name: &str) -> Result<()> {
    let mut alter = build(db, name)?;
    alter.become_table(&[IndexSource::Added(0), IndexSource::Kept(1)], b"new")?;
    db.commit_alters(&mut [&mut alter], &[], common::WAIT)
}

fn drop_first(db: &RawDatabase, name: &str) -> Result<()> {
    let mut alter = db.begin_alter(name, &[], false, common::WAIT)?;
    alter.become_table(&[], b"new")?;
    db.commit_alters(&mut [&mut alter], &[], common::WAIT)
}

fn index_names(db: &RawDatabase, name: &str) -> Vec<String> {
    let table = db.open_table(name).unwrap();
    (1..).map_while(|no| table.index_name(no).map(String::from)).collect()
}

/// All pages are accounted for.
fn assert_sound(db: &RawDatabase) {
    let report = db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(report.unreached_pages, 0);
}

/// The table is as [`fill`] made it.
fn assert_old(db: &RawDatabase, name: &str) {
    assert_eq!(index_names(db, name), ["first"]);
    assert_eq!(db.options(name).unwrap(), b"old");
    assert_eq!(read(db, name, 1), (0..ROWS).map(entry).collect());
    assert_eq!(read(db, name, 0).len(), ROWS as usize);
    assert_sound(db);
}

/// The table has the new index as well.
fn assert_added(db: &RawDatabase, name: &str) {
    assert_eq!(index_names(db, name), ["second", "first"]);
    assert_eq!(db.options(name).unwrap(), b"new");
    for index in [1, 2] {
        assert_eq!(read(db, name, index), (0..ROWS).map(entry).collect());
    }
    assert_sound(db);
}

#[test]
fn an_index_is_added_and_kept_up() {
    let (disk, db) = common::on_memory_disk();
    {
        let db = raw(&db);
        fill(&db, "t");
        add(&db, "t").unwrap();
        assert_added(&db, "t");
        let table = db.open_table("t").unwrap();
        let mut txn = begin_at(&db, Isolation::RepeatableRead);
        for i in (0..ROWS).step_by(3) {
            assert!(txn.delete(&table, 1, &entry(i).0).unwrap());
        }
        txn.commit(FlushAtCommit::Sync).unwrap();
        let duplicate = [entry(1).0, b"other".to_vec()].concat();
        let mut txn = begin_at(&db, Isolation::RepeatableRead);
        assert!(matches!(txn.insert_unique(&table, 1, &duplicate, 4, b"\x04"), Err(Error::DuplicateKey)));
        txn.insert_unique(&table, 1, &entry(0).0, 4, b"\x04").unwrap();
        txn.txn().rollback().unwrap();
        assert_eq!(read(&db, "t", 1).len(), (ROWS - ROWS.div_ceil(3)) as usize);
    }
    db.close().unwrap();
    let db = raw(&common::open_on(&disk));
    assert_eq!(index_names(&db, "t"), ["second", "first"]);
    assert_eq!(read(&db, "t", 1).len(), (ROWS - ROWS.div_ceil(3)) as usize);
}

#[test]
fn a_dropped_index_gives_its_pages_back() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let stale = db.open_table("t").unwrap();
    let mut txn = begin_at(&db, Isolation::RepeatableRead);
    assert!(txn.update(&stale, 1, &entry(9).0, &large(9)).unwrap());
    txn.commit(FlushAtCommit::Sync).unwrap();
    drop(txn);
    drop_first(&db, "t").unwrap();
    assert_eq!(index_names(&db, "t"), Vec::<String>::new());
    assert_eq!(read(&db, "t", 0).len(), ROWS as usize);
    assert_sound(&db);
    // A session that has not heard of it can do no harm.
    let mut txn = begin_at(&db, Isolation::RepeatableRead);
    assert!(matches!(txn.insert(&stale, 0, b"k", b"v"), Err(Error::TableMismatch { .. })));
    assert!(matches!(read_in(&mut txn, &stale, 1), Err(Error::TableMismatch { .. })));
    drop(txn);
    db.drop_table("t", common::WAIT).unwrap();
    assert!(db.database().list_tables().is_empty());
}

#[test]
fn what_is_given_up_leaves_nothing() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    drop(build(&db, "t").unwrap());
    assert_old(&db, "t");
    // In the middle, with a duplicate.
    let mut alter = db.begin_alter("t", &[("second", true)], false, common::WAIT).unwrap();
    for i in 0..ROWS {
        alter.push(0, &entry(i).0, 4, &if i == 9 { large(i) } else { entry(i).1 }).unwrap();
    }
    alter.push(0, &[&entry(7).0[..4], b"another"].concat(), 4, b"\x04").unwrap();
    assert!(matches!(alter.finish(), Err(Error::DuplicateKey)));
    assert_eq!(alter.duplicate().map(|d| (d.index, &d.key[..4])), Some((0, &entry(7).0[..4])));
    drop(alter);
    assert_old(&db, "t");
    // It was not said what the table becomes; or something that it cannot.
    let mut alter = db.begin_alter("t", &[("second", true)], false, common::WAIT).unwrap();
    assert!(db.commit_alters(&mut [&mut alter], &[], common::WAIT).is_err());
    assert!(alter.become_table(&[IndexSource::Kept(2)], b"").is_err());
    alter.become_table(&[IndexSource::Kept(1)], b"").unwrap();
    assert!(db.commit_alters(&mut [&mut alter], &[], common::WAIT).is_err());
    drop(alter);
    assert_old(&db, "t");
}

/// What was written of the index stayed allocated until the next open.
#[test]
fn an_index_for_which_the_disk_has_no_room_leaves_nothing() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = raw(&common::create_on(&disk));
    fill(&db, "t");
    let file = db.database().list_tables()[0].file.clone();
    for grows in [1, 3] {
        let mut alter = db.begin_alter("t", &[("second", true)], false, common::WAIT).unwrap();
        disk.schedule(Fault::nth(FaultOp::SetLen, grows).kind(FaultKind::Enospc).on(file.as_str()).sticky());
        let filled = (0..20 * ROWS).try_for_each(|i| alter.push(0, &entry(i).0, 4, &entry(i).1));
        let filled = filled.and_then(|()| alter.finish());
        assert!(matches!(filled, Err(Error::DiskFull(_))), "{filled:?}");
        drop(alter);
        assert_old(&db, "t");
        disk.clear();
    }
    add(&db, "t").unwrap();
    assert_added(&db, "t");
}

/// Compaction took what nothing leads to for lost.
#[test]
fn compaction_leaves_an_index_alone_that_is_being_built() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut alter = build(&db, "t").unwrap();
    assert_eq!(db.database().compact().unwrap().pages_reclaimed, 0);
    alter.become_table(&[IndexSource::Added(0), IndexSource::Kept(1)], b"new").unwrap();
    db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    drop(alter);
    db.database().compact().unwrap();
    assert_added(&db, "t");
}

/// It has no older versions of its entries.
#[test]
fn a_snapshot_of_before_cannot_use_a_new_index() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut old = begin_at(&db, Isolation::RepeatableRead);
    old.txn().take_snapshot();
    let mut committed = begin_at(&db, Isolation::ReadCommitted);
    committed.txn().take_snapshot();
    let mut change = begin_at(&db, Isolation::RepeatableRead);
    let table = db.open_table("t").unwrap();
    change.update(&table, 0, &row_key(1), b"changed").unwrap();
    change.commit(FlushAtCommit::Sync).unwrap();
    drop(change);
    add(&db, "t").unwrap();
    let table = db.open_table("t").unwrap();
    assert!(matches!(read_in(&mut old, &table, 1), Err(Error::SnapshotTooOld)));
    let mut value = Vec::new();
    assert!(matches!(old.get(&table, 1, &entry(1).0, None, &mut value), Err(Error::SnapshotTooOld)));
    // What there was before it can read.
    assert_eq!(read_in(&mut old, &table, 2).unwrap().len(), ROWS as usize);
    assert!(old.get(&table, 0, &row_key(1), None, &mut value).unwrap());
    assert_eq!(value, b"row");
    committed.statement(std::time::Duration::from_secs(1)).unwrap();
    assert_eq!(read_in(&mut committed, &table, 1).unwrap().len(), ROWS as usize);
}

#[test]
fn a_prepared_transaction_keeps_its_table() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut txn = begin_at(&db, Isolation::RepeatableRead);
    txn.insert(&db.open_table("t").unwrap(), 0, b"k", b"v").unwrap();
    txn.prepare(b"x", FlushAtCommit::Sync).unwrap();
    drop(txn);
    assert!(matches!(db.begin_alter("t", &[("second", false)], false, common::WAIT), Err(Error::LockTimeout)));
    db.adopt(b"x").unwrap().txn().rollback().unwrap();
    add(&db, "t").unwrap();
    assert_added(&db, "t");
}

/// Runs `change` on a database with the filled tables `t` and `u`, cutting the power after `n`
/// operations.
fn cut_everywhere(change: impl Fn(&RawDatabase) -> Result<()>, check: impl Fn(&RawDatabase, bool)) {
    for n in 0.. {
        let disk = CrashDisk::new();
        let db = raw(&common::tight_on(&disk).create("test").unwrap());
        fill(&db, "t");
        fill(&db, "u");
        disk.crash_after(n);
        let done = change(&db).is_ok();
        let alive = !disk.is_dead();
        drop(db);
        let after = disk.reboot(n);
        let db = raw(&common::tight_on(&after).open("test").unwrap());
        check(&db, done);
        if alive {
            assert!(done);
            break;
        }
    }
}

#[test]
fn adding_survives_power_cuts() {
    cut_everywhere(
        |db| add(db, "t"),
        |db, done| {
            if done || index_names(db, "t").len() == 2 { assert_added(db, "t") } else { assert_old(db, "t") }
        },
    );
}

#[test]
fn dropping_survives_power_cuts() {
    cut_everywhere(
        |db| drop_first(db, "t"),
        |db, done| {
            if done || index_names(db, "t").is_empty() {
                assert_eq!(db.options("t").unwrap(), b"new");
                assert_eq!(read(db, "t", 0).len(), ROWS as usize);
                assert_sound(db);
            } else {
                assert_old(db, "t");
            }
        },
    );
}

/// The partitions of a table.
#[test]
fn tables_change_together() {
    let both = |db: &RawDatabase| {
        let (mut t, mut u) = (build(db, "t")?, build(db, "u")?);
        for alter in [&mut t, &mut u] {
            alter.become_table(&[IndexSource::Added(0), IndexSource::Kept(1)], b"new")?;
        }
        db.commit_alters(&mut [&mut t, &mut u], &[], common::WAIT)
    };
    cut_everywhere(both, |db, done| {
        let check = if done || index_names(db, "t").len() == 2 { assert_added } else { assert_old };
        check(db, "t");
        check(db, "u");
    });
}

#[test]
fn an_index_that_is_renamed_keeps_its_entries() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let before = read(&db, "t", 1);
    let mut alter = db.begin_alter("t", &[], false, common::WAIT).unwrap();
    assert!(alter.become_table(&[IndexSource::Renamed(2, "missing")], b"").is_err());
    for name in ["", "a\0b", &"n".repeat(300)] {
        let refused = alter.become_table(&[IndexSource::Renamed(1, name)], b"");
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{name:?}: {refused:?}");
    }
    alter.become_table(&[IndexSource::Renamed(1, "another")], b"new").unwrap();
    db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    drop(alter);
    assert_eq!(index_names(&db, "t"), ["another"]);
    assert_eq!(read(&db, "t", 1), before);
    assert_sound(&db);
}

/// The second time failed, and then the indexes that the table had got were freed.
#[test]
fn a_change_is_made_once() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut alter = build(&db, "t").unwrap();
    for is_first in [true, false] {
        alter.become_table(&[IndexSource::Added(0), IndexSource::Kept(1)], b"new").unwrap();
        assert_eq!(db.commit_alters(&mut [&mut alter], &[], common::WAIT).is_ok(), is_first);
    }
    drop(alter);
    assert_added(&db, "t");
}

/// Its record became the old one again, with an index whose pages were freed.
#[test]
fn a_table_that_changes_is_none_of_the_others() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut alter = build(&db, "t").unwrap();
    alter.become_table(&[IndexSource::Added(0)], b"new").unwrap();
    let made = db.commit_alters(&mut [&mut alter], &[("t", b"another")], common::WAIT);
    assert!(matches!(made, Err(Error::InvalidArgument(_))));
    drop(alter);
    assert_old(&db, "t");
}

/// It had lacked the entries that were pushed: rows were not found by it.
#[test]
fn an_index_is_added_when_it_is_finished() {
    let (_disk, db) = common::on_memory_disk();
    let db = raw(&db);
    fill(&db, "t");
    let mut alter = db.begin_alter("t", &[("second", true)], false, common::WAIT).unwrap();
    for i in 0..ROWS {
        alter.push(0, &entry(i).0, 4, &entry(i).1).unwrap();
    }
    for is_finished in [false, true] {
        alter.become_table(&[IndexSource::Added(0), IndexSource::Kept(1)], b"new").unwrap();
        if is_finished {
            alter.finish().unwrap();
            assert!(matches!(alter.push(0, &entry(0).0, 4, b"\x04"), Err(Error::InvalidArgument(_))));
        }
        assert_eq!(db.commit_alters(&mut [&mut alter], &[], common::WAIT).is_ok(), is_finished);
    }
    drop(alter);
    assert_added(&db, "t");
}
