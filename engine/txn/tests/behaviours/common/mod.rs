//! What the tests of this floor share: a database of two files - undo, and a table with two
//! secondary indexes - on some disk, with ways to crash and reopen it.

pub mod session;
pub mod undo;

use std::ops::Bound;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use holdfast_base::{Error, IndexId, PageNo, Result, SpaceId};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_pool::{AccessKind, Pool, PoolConfig, restore_torn_pages};
use holdfast_tree::{PageFinding, PageSet, Redo, Severity, SpaceFile, Store, Tree};
use holdfast_txn::*;
use holdfast_wal::{Wal, WalConfig};

pub const UUID: [u8; 16] = [9; 16];
pub const UNDO: SpaceId = SpaceId(1);
pub const TABLE: SpaceId = SpaceId(16);
const FILES: [(SpaceId, &str); 2] = [(UNDO, "undo.hf"), (TABLE, "t16.hf")];
/// Marks of the table's space that name the roots.
const ROOTS: [(usize, IndexId, IndexKind); 4] = [
    (0, IndexId(5), IndexKind::Rows),
    (1, IndexId(6), IndexKind::Entries),
    (2, IndexId(7), IndexKind::Rows),
    (3, IndexId(8), IndexKind::Entries),
];
/// The place among them of the index whose entries lead to rows.
const SECONDARY: usize = 3;

/// Bytes of the head of a value; what is behind it is the same for many.
pub const HEAD: usize = 12;

/// A value with a head.
pub fn headed(value: &[u8]) -> NewValue<'_> {
    NewValue::with_head(value, HEAD)
}

#[derive(Clone)]
pub struct Setup {
    pub page_size: usize,
    pub frames: usize,
    pub pool_threads: bool,
    pub log_bytes: u64,
    pub txn: TxnConfig,
}

impl Default for Setup {
    fn default() -> Setup {
        let txn = TxnConfig {
            background: false,
            commit_window: 64,
            short_view_commits: 8,
            // So small that much goes on to the version tree.
            shelf_bytes: 4 << 10,
            lock_wait_timeout: Duration::from_secs(30),
            ..TxnConfig::default()
        };
        Setup { page_size: 4096, frames: 512, pool_threads: false, log_bytes: 64 << 20, txn }
    }
}

pub struct Db {
    pub setup: Setup,
    pub disk: Arc<dyn Disk>,
    pub store: Arc<Store>,
    pub files: Vec<Arc<SpaceFile>>,
    pub sys: Arc<TxnSystem>,
    /// Rows, entries of any form, a second table.
    pub rows: Arc<TableIndex>,
    pub entries: Arc<TableIndex>,
    pub other: Arc<TableIndex>,
    /// Secondary entries that lead to `rows`.
    pub secondary: Arc<TableIndex>,
}

impl Db {
    pub fn new() -> Db {
        Db::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Db {
        Db::create(Arc::new(MemoryDisk::new()), setup).unwrap()
    }

    fn wal_config(setup: &Setup) -> WalConfig {
        WalConfig {
            capacity_bytes: setup.log_bytes,
            buffer_bytes: 1 << 20,
            page_size: setup.page_size as u32,
            ..WalConfig::default()
        }
    }

    fn pool_config(setup: &Setup, disk: &Arc<dyn Disk>) -> PoolConfig {
        let mut config = PoolConfig::new(disk.clone(), setup.page_size, (setup.frames * setup.page_size) as u64);
        config.background = setup.pool_threads;
        config
    }

    pub fn create(disk: Arc<dyn Disk>, setup: Setup) -> Result<Db> {
        let metrics = Metrics::new();
        let wal = Wal::create(disk.clone(), UUID, Db::wal_config(&setup), metrics.clone())?;
        let pool = Pool::new(Db::pool_config(&setup, &disk), wal.clone(), metrics.clone())?;
        pool.set_checkpoint_payload(|_| Vec::new());
        let store = Store::new(pool, wal, metrics);
        let mut files = Vec::new();
        for (id, name) in FILES {
            files.push(SpaceFile::create(&store, disk.as_ref(), id, name, UUID)?);
        }
        let sys = TxnSystem::create(&store, &files[0], setup.txn.clone())?;
        let acc = store.pool().access(AccessKind::Point);
        for (mark, index, _) in ROOTS {
            let root = Tree::create(&files[1], index, &acc)?;
            files[1].set_mark(mark, u64::from(root.0), &acc)?;
        }
        drop(acc);
        store.wal().flush_to(store.wal().next_lsn())?;
        Db::finish(setup, disk, store, files, sys)
    }

    fn finish(
        setup: Setup,
        disk: Arc<dyn Disk>,
        store: Arc<Store>,
        files: Vec<Arc<SpaceFile>>,
        sys: Arc<TxnSystem>,
    ) -> Result<Db> {
        let acc = store.pool().access(AccessKind::Point);
        let mut indexes: Vec<Arc<TableIndex>> = Vec::new();
        for (mark, index, kind) in ROOTS {
            let tree = Tree::open(&files[1], index, PageNo(files[1].mark(mark, &acc)? as u32));
            let index = match mark {
                SECONDARY => TableIndex::leading_to(&indexes[0], tree),
                _ => TableIndex::new(tree, kind),
            };
            sys.register(&index);
            indexes.push(index);
        }
        drop(acc);
        let [rows, entries, other, secondary] = <[_; 4]>::try_from(indexes).unwrap();
        let weak = Arc::downgrade(&sys);
        store.pool().set_checkpoint_payload(move |_| weak.upgrade().map_or(Vec::new(), |s| s.checkpoint_payload()));
        sys.start()?;
        Ok(Db { setup, disk, store, files, sys, rows, entries, other, secondary })
    }

    /// Opens what is on `disk`: torn pages, redo, the transaction system. Losers are not rolled
    /// back yet.
    pub fn open(disk: Arc<dyn Disk>, setup: Setup) -> Result<Db> {
        let metrics = Metrics::new();
        let (wal, mut recovery) = Wal::open(disk.clone(), UUID, Db::wal_config(&setup), metrics.clone())?;
        let log = recovery.checkpoint_lsn()..recovery.end_lsn();
        restore_torn_pages(disk.as_ref(), setup.page_size, log, &mut |id| {
            let (_, name) = FILES.iter().find(|(space, _)| *space == id).unwrap();
            disk.open(name, OpenOptions::new(FileKind::Data)).map(Some)
        })?;
        let payload = recovery.checkpoint_payload().to_vec();
        let pool = Pool::new(Db::pool_config(&setup, &disk), wal.clone(), metrics.clone())?;
        pool.set_checkpoint_payload(move |_| Vec::new());
        let store = Store::new(pool, wal, metrics);
        let mut files = Vec::new();
        for (id, name) in FILES {
            files.push(SpaceFile::open(&store, disk.as_ref(), id, name, UUID, false)?);
        }
        Redo::new(&store, |id| Ok(files.iter().find(|f| f.id() == id).map(|f| f.space().clone())))
            .run(&mut recovery, &mut |_| {})?;
        recovery.finish()?;
        for file in &files {
            file.finish_recovery(&store.pool().access(AccessKind::Recovery))?;
        }
        let sys = TxnSystem::open(&store, &files[0], setup.txn.clone(), &payload)?;
        Db::finish(setup, disk, store, files, sys)
    }

    /// Closes cleanly. Returns what the database is opened with again.
    pub fn close(self) -> (Arc<dyn Disk>, Setup) {
        self.sys.shutdown();
        self.store.pool().flush_all().unwrap();
        self.store.pool().checkpoint().unwrap();
        self.store.pool().shutdown();
        self.store.wal().close().unwrap();
        (self.disk.clone(), self.setup.clone())
    }

    /// Closes cleanly and opens again.
    pub fn reopen(self) -> Db {
        let (disk, setup) = self.close();
        Db::open(disk, setup).unwrap()
    }

    pub fn begin(&self) -> Txn {
        self.sys.begin(TxnOptions::default())
    }

    pub fn at(&self, isolation: Isolation) -> Txn {
        self.sys.begin(TxnOptions { isolation, snapshot_isolation: false, ..TxnOptions::default() })
    }

    pub fn snapshot(&self) -> Txn {
        let mut txn = self.sys.begin(TxnOptions::snapshot());
        txn.take_snapshot();
        txn
    }

    pub fn purge(&self) -> usize {
        self.sys.purge(usize::MAX).unwrap()
    }

    /// Commits a transaction that makes this change.
    pub fn commit(&self, change: impl FnOnce(&mut Txn)) {
        let mut txn = self.begin();
        change(&mut txn);
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }

    /// Commits (key, value) pairs of `rows` in one transaction.
    pub fn put(&self, pairs: &[(&str, &str)]) {
        self.commit(|txn| {
            for (k, v) in pairs {
                txn.upsert(&self.rows, k.as_bytes(), v.as_bytes(), None).unwrap();
            }
        });
    }

    /// Keeps the root page of a file latched between the barriers: a thread that needs it waits,
    /// with what it holds.
    pub fn latch_root(&self, file: usize, latched: &Barrier, done: &Barrier) {
        let (pool, file) = (self.store.pool(), &self.files[file]);
        let acc = pool.access(AccessKind::Point);
        let root = PageNo(u32::try_from(file.mark(0, &acc).unwrap()).unwrap());
        let _page = pool.fix_exclusive(file.space(), root, &acc).unwrap();
        latched.wait();
        done.wait();
    }

    /// Entries that are physically in a tree, delete marks included.
    pub fn physical(&self, index: &TableIndex) -> usize {
        let acc = self.store.pool().access(AccessKind::Point);
        let mut cursor = index.tree().cursor(&acc);
        cursor.seek(Bound::Unbounded, Direction::Forward);
        let mut n = 0;
        while cursor.next().unwrap().is_some() {
            n += 1;
        }
        n
    }

    /// The pages of a file for which `is` holds, as the disk has them once the pool is flushed.
    pub fn pages_where(&self, file: usize, is: impl Fn(&[u8]) -> bool) -> Vec<PageNo> {
        self.store.pool().flush_all().unwrap();
        let on_disk = self.disk.open(FILES[file].1, OpenOptions::new(FileKind::Data).read_only(true)).unwrap();
        let pages = self.files[file].header(&self.store.pool().access(AccessKind::Point)).unwrap().pages;
        let mut page = vec![0; self.store.page_size()];
        let mut holds = |no: &PageNo| {
            on_disk.read_at(u64::from(no.0) * self.store.page_size() as u64, &mut page).unwrap();
            is(&page)
        };
        (1..pages).map(PageNo).filter(|no| holds(no)).collect()
    }

    /// Reads `keys` of `entries` again and again, until none of `pages` is in the pool.
    pub fn push_out<K: AsRef<[u8]>>(&self, file: usize, pages: &[PageNo], keys: impl Iterator<Item = K> + Clone) {
        let mut keys = keys.cycle();
        while pages.iter().any(|no| self.store.pool().is_resident(self.files[file].space(), *no)) {
            assert!(self.begin().get(&self.entries, keys.next().unwrap().as_ref(), &mut Vec::new()).unwrap());
        }
    }

    pub fn verify(&self) -> Vec<PageFinding> {
        let acc = self.store.pool().access(AccessKind::Maintenance);
        let (mut reached, mut findings) = (PageSet::new(), Vec::new());
        for index in [&self.rows, &self.entries, &self.other, &self.secondary] {
            self.sys.verify_index(index, &acc, &mut reached, &mut |f| findings.push(f)).unwrap();
        }
        self.files[1].verify(&reached, &acc, &mut |f| findings.push(f)).unwrap();
        let mut reached = PageSet::new();
        self.sys.verify(&acc, &mut reached, &mut |f| findings.push(f)).unwrap();
        self.files[0].verify(&reached, &acc, &mut |f| findings.push(f)).unwrap();
        findings
    }

    /// No damage, and no leak either if everything is purged and nothing was cut off.
    pub fn verify_clean(&self) {
        let findings = self.verify();
        assert!(findings.is_empty(), "{findings:#?}");
    }

    pub fn verify_undamaged(&self) {
        let findings = self.verify();
        assert!(findings.iter().all(|f| f.severity == Severity::Leak), "{findings:#?}");
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        self.sys.shutdown();
        self.store.pool().shutdown();
    }
}

pub fn get(txn: &mut Txn, index: &TableIndex, key: &str) -> Option<String> {
    let mut value = Vec::new();
    txn.get(index, key.as_bytes(), &mut value).unwrap().then(|| String::from_utf8(value).unwrap())
}

pub fn scan(txn: &mut Txn, index: &Arc<TableIndex>) -> Vec<(String, String)> {
    scan_with(txn, index, Bound::Unbounded, Bound::Unbounded, CursorOptions::default()).unwrap()
}

pub fn scan_with(
    txn: &mut Txn,
    index: &Arc<TableIndex>,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    options: CursorOptions,
) -> Result<Vec<(String, String)>> {
    let mut cursor = txn.cursor(index, from, to, options)?;
    let mut out = Vec::new();
    while let Some((k, v)) = cursor.next()? {
        out.push((String::from_utf8(k.to_vec()).unwrap(), String::from_utf8(v.to_vec()).unwrap()));
    }
    Ok(out)
}

pub fn is<T>(result: Result<T>, expected: impl Fn(&Error) -> bool) -> bool {
    match result {
        Ok(_) => false,
        Err(e) if expected(&e) => true,
        Err(e) => panic!("unexpected error: {e}"),
    }
}
