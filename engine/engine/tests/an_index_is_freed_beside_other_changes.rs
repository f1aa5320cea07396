//! The pages of an index that goes are read one after the other, which takes as long as the disk
//! takes, and so are those of a table that is compacted. Others change definitions meanwhile: the
//! session held the lock of the catalog until it had read the last page.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::rows::{begin, covering, entry};
use holdfast::io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions, ReadAt, WriteAt};
use holdfast::raw::{IndexSource, Lifetime, RawAlter, RawDatabase};
use holdfast::{FlushAtCommit, Result, VerifyOptions};

const ROWS: u32 = 1_500;

/// What the entries of the index have beside their keys.
const COVERED: &[u8] = b"the index that goes";

/// A thread that reads a page of the index tells that, and waits until the other one has changed a
/// definition. After a minute it takes that one for stuck.
struct Meeting {
    arrives: Sender<()>,
    others_are_done: Receiver<()>,
    in_time: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Slow(MemoryDisk, Arc<Mutex<Option<Meeting>>>);

impl Slow {
    fn read(&self, bytes: &[u8]) {
        if !bytes.windows(COVERED.len()).any(|window| window == COVERED) {
            return;
        }
        let meeting = self.1.lock().unwrap().take();
        if let Some(Meeting { arrives, others_are_done, in_time }) = meeting {
            arrives.send(()).unwrap();
            in_time.store(others_are_done.recv_timeout(Duration::from_secs(60)).is_ok(), Ordering::SeqCst);
        }
    }
}

impl Disk for Slow {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(SlowFile(self.0.open(name, options)?, self.clone())))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }
    fn sync_dir(&self) -> Result<()> {
        self.0.sync_dir()
    }
    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.0.lock(mode)
    }
    fn location(&self) -> String {
        self.0.location()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

struct SlowFile(Arc<dyn File>, Slow);

impl File for SlowFile {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buf)?;
        self.1.read(buf);
        Ok(())
    }
    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        self.0.read_batch(reads)?;
        reads.iter().for_each(|read| self.1.read(read.buf));
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.0.write_at(offset, buf)
    }
    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        self.0.write_batch(writes)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }
    fn atomic_write_unit(&self) -> usize {
        self.0.atomic_write_unit()
    }
}

/// A database with the table `t`, of whose index the cache has no page.
fn filled() -> (Slow, RawDatabase) {
    let disk = Slow(MemoryDisk::new(), Arc::default());
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

/// Has the next thread that reads a page of the index tell that, and wait.
fn meet(disk: &Slow) -> (Receiver<()>, Sender<()>, Arc<AtomicBool>) {
    let ((arrives, reads), (done, others_are_done)) = (channel(), channel());
    let in_time = Arc::new(AtomicBool::new(false));
    *disk.1.lock().unwrap() = Some(Meeting { arrives, others_are_done, in_time: Arc::clone(&in_time) });
    (reads, done, in_time)
}

/// Drops the index as a session does that keeps others from the table.
fn drop_in_background(db: &RawDatabase) {
    let mut alter = db.begin_alter("t", &[], false, common::WAIT).unwrap();
    alter.become_table(&[], b"").unwrap();
    db.commit_alters(&mut [&mut alter], &[], common::WAIT).unwrap();
    alter.end_in_background();
}

/// Whether another session creates a table while `frees` reads a page of the index.
fn others_go_on(disk: &Slow, db: &RawDatabase, frees: impl FnOnce() + Send) -> bool {
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
