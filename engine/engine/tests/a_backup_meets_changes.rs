//! What others do while a backup is taken neither keeps it from its end nor from being opened.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::ROWS;
use holdfast::io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions};
use holdfast::{BackupOptions, Database, FlushAtCommit, Result, TableDefinition, WriteOptions};

/// What happens to a request, of the file with this name.
type OnRead = dyn Fn(&str, &mut [u8]) + Send + Sync;
type OnWrite = dyn Fn(&str) + Send + Sync;

/// Files in memory, with something that happens when they are read or written.
#[derive(Clone)]
struct Hooked {
    inner: MemoryDisk,
    on_read: Arc<OnRead>,
    on_write: Arc<OnWrite>,
}

impl Hooked {
    fn on_read(on_read: impl Fn(&str, &mut [u8]) + Send + Sync + 'static) -> Hooked {
        Hooked { inner: MemoryDisk::new(), on_read: Arc::new(on_read), on_write: Arc::new(|_| ()) }
    }

    fn on_write(on_write: impl Fn(&str) + Send + Sync + 'static) -> Hooked {
        Hooked { inner: MemoryDisk::new(), on_read: Arc::new(|_, _| ()), on_write: Arc::new(on_write) }
    }
}

struct HookedFile {
    inner: Arc<dyn File>,
    disk: Hooked,
}

impl Disk for Hooked {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(HookedFile { inner: self.inner.open(name, options)?, disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.inner.lock(mode)
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}

impl File for HookedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)?;
        (self.disk.on_read)(self.name(), buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        (self.disk.on_write)(self.name());
        self.inner.write_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn atomic_write_unit(&self) -> usize {
        self.inner.atomic_write_unit()
    }
}

/// The log was copied until there was nothing left of it: as long as it grew more quickly than it
/// was copied, the backup went on, and in the end without letting any definition be changed.
#[test]
fn it_ends_beside_writers_that_are_quicker() {
    const MANY: u64 = 50_000;
    let (_disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 500);
    db.checkpoint().unwrap();
    db.transact(|txn| txn.open_table(&ROWS)?.update(1, &common::value(1))).unwrap();
    let (writer, written) = (db.clone(), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&written);
    // For each group that is copied there are several new ones.
    let target = Hooked::on_write(move |name| {
        if name.starts_with("wal.") && counted.load(Ordering::Relaxed) < MANY {
            let options = WriteOptions::new().flush_at_commit(FlushAtCommit::Write);
            let key = counted.fetch_add(1, Ordering::Relaxed) % 500;
            let change = writer.transact_with(&options, |txn| txn.open_table(&ROWS)?.update(key, &common::value(key)));
            change.unwrap();
        }
    });
    db.backup("copy", &BackupOptions::new().disk(Arc::new(target.clone()))).unwrap();
    let during = written.swap(MANY, Ordering::Relaxed);
    assert!(during < MANY, "the backup went on as long as there were changes");
    let copy = common::open_on(&target);
    common::assert_filled(&copy, 0, 500);
    common::assert_sound(&copy);
}

/// A page of the catalog that had become free was copied as it was read, torn by a write under way.
/// The log that goes with the copy had records of it: the copy did not open.
#[test]
fn a_free_page_is_copied_whole() {
    let torn = Arc::new(AtomicBool::new(false));
    let tears = Arc::clone(&torn);
    let disk = Hooked::on_read(move |name, buf| {
        if name == "system.hf" && tears.load(Ordering::Relaxed) {
            // All pages but those that manage the others.
            for page in buf.chunks_exact_mut(4096).filter(|page| matches!(page[12], 0 | 3)) {
                page[2048..].fill(0xee);
            }
        }
    });
    let db = common::create_on(&disk);
    let table = |n: u64| TableDefinition::<u64, u64>::named(format!("a table with quite a long name, number {n:04}"));
    (0..150).for_each(|n| db.create_table(&table(n)).unwrap());
    let free = |db: &Database| db.stats().spaces.iter().find(|space| space.space_id == 0).unwrap().free_pages;
    db.checkpoint().unwrap();
    let before = free(&db);
    (0..140).for_each(|n| db.drop_table(table(n).name()).unwrap());
    while free(&db) <= before {
        std::thread::yield_now();
    }
    torn.store(true, Ordering::Relaxed);
    let target = MemoryDisk::new();
    db.backup("copy", &BackupOptions::new().disk(Arc::new(target.clone()))).unwrap();
    let copy = common::open_on(&target);
    assert_eq!(copy.list_tables().len(), 10);
    common::assert_sound(&copy);
}
