//! The pages of an index that goes are read one after the other, which takes as long as the disk
//! takes, and so are those of a table that is compacted. Others change definitions meanwhile: the
//! session held the lock of the catalog until it had read the last page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase};
use holdfast::{FlushAtCommit, VerifyOptions};
use holdfast_testkit::HookedDisk;

use crate::common;
use crate::common::rows::{begin, covering, entry};

const ROWS: u32 = 1_500;

/// What the entries of the index have beside their keys.
const COVERED: &[u8] = b"the index that goes";

/// A database with the table `t`, of whose index the cache has no page.
fn filled() -> (HookedDisk, RawDatabase) {
    let disk = HookedDisk::default();
    let settings = || common::small().warm_up(false).disk(Arc::new(disk.clone()));
    let db = RawDatabase::new(settings().create("test").unwrap());
    db.create_table("t", &[("k", false)], b"", Lifetime::Lasting).unwrap();
    let table = db.open_table("t").unwrap();
    let mut txn = begin(&db);
    for i in 0..ROWS {
        txn.insert(&table, 0, &i.to_be_bytes(), b"row").unwrap();
        txn.insert(&table, 1, &entry(i, i), &covering(COVERED)).unwrap();
    }
    txn.commit(FlushAtCommit::Sync).unwrap();
    drop((txn, table));
    db.close().unwrap();
    let db = RawDatabase::new(settings().open("test").unwrap());
    (disk, db)
}

/// Has the next thread that reads a page of the index tell that, and wait until another one is
/// done. After a minute it takes that one for stuck.
fn meet(disk: &HookedDisk) -> (Receiver<()>, Sender<()>, Arc<AtomicBool>) {
    let ((arrives, reads), (done, others_are_done)) = (channel(), channel());
    let in_time = Arc::new(AtomicBool::new(false));
    let (meeting, was_in_time) = (Mutex::new(Some((arrives, others_are_done))), Arc::clone(&in_time));
    disk.on_read(move |_, bytes| {
        if !bytes.windows(COVERED.len()).any(|window| window == COVERED) {
            return;
        }
        let met = meeting.lock().unwrap().take();
        if let Some((arrives, others_are_done)) = met {
            arrives.send(()).unwrap();
            was_in_time.store(others_are_done.recv_timeout(Duration::from_secs(60)).is_ok(), Ordering::SeqCst);
        }
    });
    (reads, done, in_time)
}

/// Drops the index as a session does that keeps others from the table.
fn drop_in_background(db: &RawDatabase) {
    let mut alter = db.begin_alter("t", &[], false, common::WAIT).unwrap();
    alter.become_table(&[], b"").unwrap();
    db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    alter.end_in_background();
}

/// True if another session creates a table while `frees` reads a page of the index.
fn others_go_on(disk: &HookedDisk, db: &RawDatabase, frees: impl FnOnce() + Send) -> bool {
    let (reads, done, in_time) = meet(disk);
    std::thread::scope(|scope| {
        let freeing = scope.spawn(frees);
        reads.recv().unwrap();
        db.create_table("other", &[], b"", Lifetime::Lasting).unwrap();
        // The reader has ended if this comes too late.
        let _ = done.send(());
        freeing.join().unwrap();
    });
    common::assert_sound(db.database());
    in_time.load(Ordering::SeqCst)
}

#[test]
fn others_change_definitions_while_an_index_is_dropped() {
    let (disk, db) = filled();
    let mut alter = db.begin_alter("t", &[], false, common::WAIT).unwrap();
    alter.become_table(&[], b"").unwrap();
    let drops = || {
        db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
        drop(alter);
    };
    assert!(others_go_on(&disk, &db, drops));
}

#[test]
fn others_change_definitions_while_an_index_is_given_up() {
    let (disk, db) = filled();
    let mut alter: RawAlter = db.begin_alter("t", &[("second", false)], false, common::WAIT).unwrap();
    // More than the cache holds: what was written first is read again.
    for i in 0..8 * ROWS {
        let large = [COVERED, &[7; 1_000]].concat();
        alter.push(0, &entry(i, i), 8, &covering(&large)).unwrap();
    }
    alter.finish().unwrap();
    alter.become_table(&[IndexSource::Kept(1), IndexSource::Added(0)], b"").unwrap();
    assert!(others_go_on(&disk, &db, || drop(alter)));
}

/// A compaction reads a table from its beginning to its end.
#[test]
fn others_change_definitions_while_a_table_is_compacted() {
    let (disk, db) = filled();
    assert!(others_go_on(&disk, &db, || drop(db.database().compact().unwrap())));
}

/// Such a session has ended long before the pages of its index are free.
#[test]
fn a_session_does_not_wait_for_the_pages_of_its_index() {
    let (disk, db) = filled();
    let (reads, done, in_time) = meet(&disk);
    drop_in_background(&db);
    reads.recv().unwrap();
    let table = db.open_table("t").unwrap();
    let mut txn = begin(&db);
    assert!(txn.update(&table, 0, &0u32.to_be_bytes(), b"another").unwrap());
    txn.commit(FlushAtCommit::Sync).unwrap();
    done.send(()).unwrap();
    while unreached_pages(&db) > 0 {
        std::thread::yield_now();
    }
    common::assert_sound(db.database());
    assert!(in_time.load(Ordering::SeqCst));
}

/// A close waits for them: otherwise the next open would read the whole file.
#[test]
fn a_close_waits_for_the_pages_of_an_index() {
    let (disk, db) = filled();
    let (reads, done, _) = meet(&disk);
    drop_in_background(&db);
    reads.recv().unwrap();
    let others = db.database().clone();
    std::thread::scope(|scope| {
        scope.spawn(|| db.close().unwrap());
        while others.begin_read().is_ok() {
            std::thread::yield_now();
        }
        done.send(()).unwrap();
    });
    drop(others);
    // A reader frees nothing.
    let db = RawDatabase::new(common::small().disk(Arc::new(disk)).open_read_only("test").unwrap());
    assert_eq!(unreached_pages(&db), 0);
    common::assert_sound(db.database());
    assert_eq!(db.open_table("t").unwrap().rows(0).unwrap(), u64::from(ROWS));
}

fn unreached_pages(db: &RawDatabase) -> u64 {
    db.database().verify(&VerifyOptions::new(), &mut |_| {}).unwrap().unreached_pages
}
