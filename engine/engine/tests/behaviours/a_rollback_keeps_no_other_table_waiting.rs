//! A crash leaves a large transaction, which is rolled back in the background. Sessions change the
//! definitions of tables that it has not changed meanwhile: each of them got a lock wait timeout
//! until the rollback was over. An open that had temporary tables to drop waited for it, too.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast::io::{Create, Disk, FileKind, OpenOptions};
use holdfast::raw::{Lifetime, RawDatabase, RawLoad};
use holdfast::{Builder, Error, FlushAtCommit};
use holdfast_testkit::HookedDisk;

use crate::common;
use crate::common::rows::begin;

/// What the rows of the transaction have.
const CHANGED: &[u8] = b"changed by the transaction that a crash ends";

fn settings(disk: &HookedDisk) -> Builder {
    common::small().warm_up(false).disk(Arc::new(disk.clone()))
}

/// What a crash leaves of a database with two tables, of which a transaction has changed one: more
/// than the cache holds. A third table is `temporary`, if that is wanted.
fn crashed(temporary: bool) -> HookedDisk {
    let (disk, left) = (HookedDisk::default(), HookedDisk::default());
    let db = RawDatabase::new(settings(&disk).create("test").unwrap());
    for name in ["changed", "other"] {
        db.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
        let (mut txn, table) = (begin(&db), db.open_table(name).unwrap());
        txn.insert(&table, 0, b"first", b"row").unwrap();
        txn.commit(FlushAtCommit::Sync).unwrap();
    }
    if temporary {
        db.create_table("temporary", &[], b"", Lifetime::Temporary).unwrap();
    }
    let (mut txn, table) = (begin(&db), db.open_table("changed").unwrap());
    for i in 0..10_000u32 {
        txn.insert(&table, 0, &i.to_be_bytes(), CHANGED.repeat(30).as_slice()).unwrap();
    }
    db.database().checkpoint().unwrap();
    for name in disk.list().unwrap() {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        left.open(&name, OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap().write_at(0, &bytes).unwrap();
    }
    left
}

/// Has the thread that rolls back tell when it reads a row of the transaction, and wait until the
/// test is done.
fn hold_rollback(disk: &HookedDisk) -> (Receiver<()>, Sender<()>) {
    let ((arrives, reads), (done, is_done)) = (channel(), channel());
    let meeting = Mutex::new(Some((arrives, is_done)));
    disk.on_read(move |file, bytes| {
        let is_its = file.starts_with('t') && bytes.windows(CHANGED.len()).any(|window| window == CHANGED);
        if !is_its || std::thread::current().name() != Some("holdfast-purge") {
            return;
        }
        let met = meeting.lock().unwrap().take();
        if let Some((arrives, is_done)) = met {
            arrives.send(()).unwrap();
            let _ = is_done.recv_timeout(Duration::from_secs(60));
        }
    });
    (reads, done)
}

#[test]
fn definitions_of_other_tables_change_meanwhile() {
    let disk = crashed(false);
    let (reads, done) = hold_rollback(&disk);
    let db = RawDatabase::new(settings(&disk).open("test").unwrap());
    reads.recv().unwrap();
    let short = Duration::from_millis(10);
    assert!(matches!(db.drop_table("changed", short), Err(Error::LockTimeout)));
    assert!(matches!(db.begin_alter("changed", &[("k", false)], true, short), Err(Error::LockTimeout)));
    db.begin_alter("other", &[("k", false)], true, short).unwrap();
    let mut load = RawLoad::anew(&db.open_table("other").unwrap(), short).unwrap();
    load.push(0, b"first", 5, b"row").unwrap();
    load.finish().unwrap();
    db.replace_by(&mut [&mut load], &[b"new"]).unwrap();
    drop(load);
    db.truncate_table("other", short).unwrap();
    db.drop_table("other", short).unwrap();
    done.send(()).unwrap();
    db.drop_table("changed", common::WAIT).unwrap();
    common::assert_sound(db.database());
}

#[test]
fn an_open_drops_temporary_tables_meanwhile() {
    let disk = crashed(true);
    let (reads, done) = hold_rollback(&disk);
    let db = RawDatabase::new(settings(&disk).open("test").unwrap());
    reads.recv_timeout(Duration::from_secs(60)).expect("the background rolls the transaction back");
    let tables = db.database().list_tables();
    assert!(tables.iter().all(|table| table.name != "temporary"), "{tables:?}");
    done.send(()).unwrap();
    db.drop_table("changed", common::WAIT).unwrap();
    common::assert_sound(db.database());
}
