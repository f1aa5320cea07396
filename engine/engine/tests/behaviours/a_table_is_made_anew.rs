//! A table is made anew from its rows, and takes its own place: all of it or nothing, with its
//! marks. No transaction writes to it meanwhile; readers go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast::io::Disk;
use holdfast::raw::{Lifetime, RawDatabase, RawLoad, WaitObserver};
use holdfast::{Error, FlushAtCommit, Result};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common;
use crate::common::rows::{Entries, begin, covering, entry, insert, read};

fn put(db: &RawDatabase, name: &str, ids: std::ops::Range<u32>) -> Result<()> {
    let table = db.open_table(name)?;
    let mut txn = begin(db);
    for id in ids {
        insert(&mut txn, &table, id, &[id as u8; 60], id % 7)?;
    }
    txn.commit(FlushAtCommit::Sync)
}

fn fill(db: &RawDatabase, name: &str) {
    db.create_table(name, &[("k", false)], b"old", Lifetime::Lasting).unwrap();
    put(db, name, 0..300).unwrap();
}

fn database() -> RawDatabase {
    let db = RawDatabase::new(common::small().in_memory().unwrap());
    fill(&db, "a");
    db
}

fn rows(db: &RawDatabase, name: &str) -> [Entries; 2] {
    let (table, mut txn) = (db.open_table(name).unwrap(), begin(db));
    [0, 1].map(|index| read(&mut txn, &table, index).unwrap())
}

/// A load with those rows that are of one of the first `of_seven` index keys, complete.
fn anew(db: &RawDatabase, name: &str, of_seven: u32) -> Result<RawLoad> {
    let mut load = RawLoad::anew(&db.open_table(name)?, common::WAIT)?;
    for (key, value) in &rows(db, name)[0] {
        let id = u32::from_be_bytes(key[..].try_into().unwrap());
        if id % 7 < of_seven {
            load.push(0, key, key.len(), &value[..])?;
            load.push(1, &entry(id % 7, id), 8, &covering(b""))?;
        }
    }
    load.finish()?;
    Ok(load)
}

fn replace(db: &RawDatabase, load: &mut RawLoad) -> Result<()> {
    db.replace_by(&mut [load], &[b"new"])
}

/// Says that a thread waits at the gate of a table.
struct Waits(Arc<AtomicBool>);

impl WaitObserver for Waits {
    fn gives_up(&self) -> bool {
        self.0.store(true, Ordering::Release);
        false
    }
}

/// A thread that waits for the old table is told when the new one has its place. It waited until
/// the load was dropped, where neither a kill nor a close found it.
#[test]
fn nothing_waits_for_a_table_that_was_replaced() {
    let db = database();
    let is_waiting = Arc::new(AtomicBool::new(false));
    let mut load = anew(&db, "a", 7).unwrap();
    db.set_wait_observer(Waits(Arc::clone(&is_waiting)));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| db.drop_table("a", Duration::from_secs(20)));
        while !is_waiting.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        replace(&db, &mut load).unwrap();
        let dropped = waiter.join().unwrap();
        assert!(matches!(dropped, Err(Error::TableNotFound(_))), "{dropped:?}");
    });
    drop(load);
    put(&db, "a", 300..310).unwrap();
}

#[test]
fn with_its_rows_indexes_and_marks() {
    let db = database();
    let before = rows(&db, "a");
    let old = db.open_table("a").unwrap();
    old.set_mark(0, 50).unwrap();
    let mut load = anew(&db, "a", 7).unwrap();
    // Numbers are taken to the end.
    assert_eq!(old.take_mark(1, 3).unwrap(), 1);
    replace(&db, &mut load).unwrap();
    drop((load, old));
    assert_eq!(rows(&db, "a"), before);
    assert_eq!(db.options("a").unwrap(), b"new");
    let new = db.open_table("a").unwrap();
    assert_eq!((new.mark(0), new.mark(1), new.rows(0).unwrap(), new.rows(1).unwrap()), (50, 4, 300, 300));
    put(&db, "a", 300..310).unwrap();
    assert_eq!(rows(&db, "a")[1].len(), 310);
    common::assert_sound(db.database());
}

/// The second time failed, and left the new table with the numbers of the old one: after a crash it
/// gave out some of them again.
#[test]
fn once() {
    let disk = CrashDisk::new();
    let db = RawDatabase::new(common::create_on(&disk));
    fill(&db, "a");
    let mut load = anew(&db, "a", 7).unwrap();
    replace(&db, &mut load).unwrap();
    let new = db.open_table("a").unwrap();
    new.raise_mark(0, 5_000, 0).unwrap();
    assert!(matches!(replace(&db, &mut load), Err(Error::InvalidArgument(_))));
    db.flush_log().unwrap();
    let after = disk.reboot(0);
    let db = RawDatabase::new(common::open_on(&after));
    assert_eq!(db.open_table("a").unwrap().mark(0), 5_000);
}

#[test]
fn while_readers_go_on_and_writers_stay_away() {
    let db = database();
    let table = db.open_table("a").unwrap();
    let mut inside = begin(&db);
    inside.insert(&table, 0, &1000u32.to_be_bytes(), b"uncommitted").unwrap();
    assert!(matches!(RawLoad::anew(&table, Duration::ZERO), Err(Error::LockTimeout)));
    inside.txn().rollback().unwrap();
    drop(inside);
    let mut old = begin(&db);
    let before = read(&mut old, &table, 0).unwrap();
    let mut load = anew(&db, "a", 7).unwrap();
    assert!(put(&db, "a", 400..401).is_err());
    assert_eq!(read(&mut old, &table, 0).unwrap(), before);
    replace(&db, &mut load).unwrap();
    // What has the old table goes on to see it, and does not change it.
    assert_eq!(read(&mut old, &table, 0).unwrap(), before);
    assert!(begin(&db).insert(&table, 0, &2000u32.to_be_bytes(), b"lost").is_err());
    let new = db.open_table("a").unwrap();
    assert!(matches!(read(&mut old, &new, 0), Err(Error::SnapshotTooOld)));
    put(&db, "a", 400..401).unwrap();
}

#[test]
fn or_it_stays_as_it_was() {
    let (disk, db) = common::on_memory_disk();
    let db = RawDatabase::new(db);
    fill(&db, "a");
    let (before, files) = (rows(&db, "a"), disk.list().unwrap().len());
    drop(anew(&db, "a", 3).unwrap());
    let mut unfinished = RawLoad::anew(&db.open_table("a").unwrap(), common::WAIT).unwrap();
    assert!(matches!(replace(&db, &mut unfinished), Err(Error::InvalidArgument(_))));
    drop(unfinished);
    let mut renamed = anew(&db, "a", 3).unwrap();
    db.rename_table("a", "b", &[]).unwrap();
    assert!(matches!(replace(&db, &mut renamed), Err(Error::TableNotFound(_))));
    drop(renamed);
    assert_eq!(rows(&db, "b"), before);
    assert_eq!(db.options("b").unwrap(), b"old");
    assert_eq!(disk.list().unwrap().len(), files, "no file is left over");
    put(&db, "b", 300..310).unwrap();
    common::assert_sound(db.database());
}

#[test]
fn not_before_a_prepared_transaction_has_ended() {
    let db = database();
    let table = db.open_table("a").unwrap();
    let mut txn = begin(&db);
    txn.insert(&table, 0, b"prepared", b"row").unwrap();
    txn.prepare(b"xid", FlushAtCommit::Sync).unwrap();
    assert!(matches!(RawLoad::anew(&table, Duration::ZERO), Err(Error::LockTimeout)));
    txn.commit(FlushAtCommit::Sync).unwrap();
    drop(txn);
    RawLoad::anew(&table, Duration::ZERO).unwrap();
}

/// What there is of table `name`: the old one, or a new one with three sevenths of its rows.
fn is_new(db: &RawDatabase, name: &str) -> bool {
    let is_new = db.options(name).unwrap() == b"new";
    let ids = (0..300u32).filter(|id| !is_new || id % 7 < 3).count();
    let [rows, entries] = rows(db, name).map(|rows| rows.len());
    assert_eq!((rows, entries), (ids, ids));
    is_new
}

/// With options for one of two tables that one took its place, and the other did not.
#[test]
fn none_if_one_has_no_options() {
    let db = database();
    fill(&db, "b");
    let (mut a, mut b) = (anew(&db, "a", 3).unwrap(), anew(&db, "b", 3).unwrap());
    let replaced = db.replace_by(&mut [&mut a, &mut b], &[b"new"]);
    assert!(matches!(replaced, Err(Error::InvalidArgument(_))), "{replaced:?}");
    assert!(!is_new(&db, "a") && !is_new(&db, "b"));
    db.replace_by(&mut [&mut a, &mut b], &[b"new", b"new"]).unwrap();
    assert!(is_new(&db, "a") && is_new(&db, "b"));
}

/// Two tables, together: the power goes at every point.
#[test]
fn all_or_none_when_the_power_goes() {
    for n in 0.. {
        let disk = CrashDisk::new();
        let db = RawDatabase::new(common::create_on(&disk));
        fill(&db, "a");
        fill(&db, "b");
        disk.crash_after(n);
        let both = anew(&db, "a", 3).and_then(|a| Ok((a, anew(&db, "b", 3)?)));
        let done = both.and_then(|(mut a, mut b)| db.replace_by(&mut [&mut a, &mut b], &[b"new", b"new"])).is_ok();
        let alive = !disk.is_dead();
        drop(db);
        for seed in 0..2 {
            let after = disk.reboot(seed);
            let db = RawDatabase::new(common::open_on(&after));
            let new = is_new(&db, "a");
            assert_eq!(is_new(&db, "b"), new, "after {n} operations, seed {seed}");
            assert!(new || !done, "after {n} operations, seed {seed}");
            common::assert_sound(db.database());
            let files = after.list().unwrap().iter().filter(|f| f.starts_with('t') && f.ends_with(".hf")).count();
            assert_eq!(files, 2, "after {n} operations, seed {seed}");
        }
        if alive {
            assert!(done);
            break;
        }
    }
}

/// If the commit cannot be made durable, only the next open can tell which table there is: both
/// files stay.
#[test]
fn one_or_the_other_when_its_commit_is_not_durable() {
    let mut failed = 0;
    for (nth, seed) in (1..6).flat_map(|nth| (0..10).map(move |seed| (nth, seed))) {
        let crash = CrashDisk::new();
        let disk = FaultDisk::new(Arc::new(crash.clone()));
        let db = RawDatabase::new(common::create_on(&disk));
        fill(&db, "a");
        disk.schedule(Fault::nth(FaultOp::Sync, nth));
        let done = anew(&db, "a", 3).and_then(|mut load| replace(&db, &mut load)).is_ok();
        failed += u32::from(!done);
        drop(db);
        let db = RawDatabase::new(common::open_on(&crash.reboot(seed)));
        assert!(is_new(&db, "a") || !done);
        common::assert_sound(db.database());
    }
    assert!(failed > 0, "some of these syncs are those of the change");
}
