//! A reader has read the number of a leaf, and a compaction moves the leaf and cuts off the end of
//! the file before the reader comes to load it. The reader got the error of a damaged page, and the
//! advice to restore the table from a backup.

mod common;

use std::sync::{Arc, Mutex};

use common::*;
use holdfast_base::{PageNo, Result};
use holdfast_io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions};
use holdfast_pool::AccessKind;
use holdfast_tree::Tree;

/// What happens before the next question for the length of a file.
type Before = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A disk with something that happens when the length of a file is asked for.
#[derive(Clone, Default)]
struct Asked {
    inner: MemoryDisk,
    before: Before,
}

struct AskedFile {
    inner: Arc<dyn File>,
    before: Before,
}

impl Disk for Asked {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(AskedFile { inner: self.inner.open(name, options)?, before: Arc::clone(&self.before) }))
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

impl File for AskedFile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.inner.write_at(offset, buf)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn len(&self) -> Result<u64> {
        let before = self.before.lock().unwrap().take();
        if let Some(before) = before {
            before();
        }
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn atomic_write_unit(&self) -> usize {
        self.inner.atomic_write_unit()
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Moves all nodes to the front of the file and cuts it.
fn compact(bed: &Bed, tree: &Tree) {
    let acc = bed.store.pool().access(AccessKind::Maintenance);
    let moves = |last: PageNo| tree.relocate_page(last, &acc).unwrap().is_some_and(|to| to < last);
    while moves(bed.space.last_allocated(&acc).unwrap()) {}
    let (pages, shrunk) = bed.space.shrink(&acc).unwrap();
    assert!(pages > 300, "{pages} pages are given up");
    assert!(bed.space.truncate_file(shrunk, bed.checkpoint(), &acc).unwrap());
}

#[test]
fn of_which_a_reader_has_the_number() {
    let (disk, rows) = (Asked::default(), 5_000);
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let tree = bed.new_tree();
    let root = tree.root();
    let acc = bed.access();
    for n in 0..rows {
        put(&tree, &key(n), &[7; 1_000], &acc).unwrap();
    }
    for n in 0..rows - 500 {
        remove(&tree, &key(n), &acc).unwrap();
    }
    drop((acc, tree));
    // Nothing is in the pool, and it knows nothing of the end of the file.
    let bed = Arc::new(bed.reopen());
    let tree = Arc::new(bed.tree(root));
    let acc = bed.access();
    assert!(get(&tree, &key(rows - 500), &acc).is_some());
    let (at, others) = (Arc::clone(&bed), Arc::clone(&tree));
    *disk.before.lock().unwrap() = Some(Box::new(move || compact(&at, &others)));
    assert_eq!(get(&tree, &key(rows - 1), &acc), Some(vec![7; 1_000]));
    assert!(disk.before.lock().unwrap().is_none(), "the leaf was asked for");
    assert_eq!(bed.space.space().damaged().map(ToString::to_string), None);
    bed.verify_clean(&[&tree]);
}
