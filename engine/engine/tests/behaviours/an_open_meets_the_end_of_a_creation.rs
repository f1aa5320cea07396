//! Two programs open the same directory, or create a database there if there is none. The second
//! one looked for the database just before the first one had finished, and found its files just
//! after: it took them for those of a database that is damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast::io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions};
use holdfast::{Builder, Error, Result};

use crate::common::{self, ROWS};

/// A directory that becomes a database after the first look for one.
struct JustCreated {
    disk: MemoryDisk,
    was_asked: AtomicBool,
}

impl JustCreated {
    fn builder(disk: &MemoryDisk) -> Builder {
        let disk = JustCreated { disk: disk.clone(), was_asked: AtomicBool::new(false) };
        common::small().disk(Arc::new(disk))
    }
}

impl Disk for JustCreated {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        self.disk.open(name, options)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let is_first = name == "holdfast.meta" && !self.was_asked.swap(true, Ordering::SeqCst);
        if is_first { Ok(false) } else { self.disk.exists(name) }
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir()
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.disk.lock(mode)
    }

    fn location(&self) -> String {
        self.disk.location()
    }
}

#[test]
fn and_takes_it_for_no_damage() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 10);
    let error = JustCreated::builder(&disk).create_or_open("test").unwrap_err();
    assert!(matches!(error, Error::AlreadyOpen(_)), "{error}");
    let error = JustCreated::builder(&disk).open("test").unwrap_err();
    assert!(matches!(error, Error::NotADatabase(_)), "{error}");
    db.close().unwrap();
    let db = JustCreated::builder(&disk).create_or_open("test").unwrap();
    assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count(), 10);
}
