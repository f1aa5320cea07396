//! The common part of the tests of this crate: a store on some disk, one space, and ways to close,
//! crash and reopen it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::{IndexId, Lsn, PageNo, Result, SpaceId};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_pool::{Access, AccessKind, Pool, PoolConfig, restore_torn_pages};
use holdfast_tree::{Action, Direction, PageFinding, PageSet, Redo, Severity, SpaceFile, Store, Tree};
use holdfast_wal::{SpaceClass, Wal, WalConfig};

pub const UUID: [u8; 16] = [7; 16];
pub const SPACE: SpaceId = SpaceId(16);
pub const INDEX: IndexId = IndexId(5);
pub const FILE: &str = "t16.hf";

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy)]
pub struct Setup {
    pub page_size: usize,
    pub frames: usize,
    /// True if the pool's threads run.
    pub background: bool,
    pub log_bytes: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { page_size: 4096, frames: 256, background: false, log_bytes: 64 << 20 }
    }
}

impl Setup {
    fn wal(&self) -> WalConfig {
        WalConfig {
            capacity_bytes: self.log_bytes,
            buffer_bytes: 1 << 20,
            page_size: self.page_size as u32,
            ..WalConfig::default()
        }
    }

    fn pool(&self, disk: &Arc<dyn Disk>) -> PoolConfig {
        let mut config = PoolConfig::new(disk.clone(), self.page_size, (self.frames * self.page_size) as u64);
        config.background = self.background;
        config
    }
}

pub struct Bed {
    pub setup: Setup,
    pub disk: Arc<dyn Disk>,
    pub store: Arc<Store>,
    pub space: Arc<SpaceFile>,
}

impl Bed {
    pub fn new(setup: Setup) -> Bed {
        Bed::create(Arc::new(MemoryDisk::new()), setup).unwrap()
    }

    pub fn create(disk: Arc<dyn Disk>, setup: Setup) -> Result<Bed> {
        let metrics = Metrics::new();
        let wal = Wal::create(disk.clone(), UUID, setup.wal(), metrics.clone())?;
        let pool = Pool::new(setup.pool(&disk), wal.clone(), metrics.clone())?;
        pool.set_checkpoint_payload(|_| Vec::new());
        let store = Store::new(pool, wal, metrics);
        let space = SpaceFile::create(&store, disk.as_ref(), SPACE, FILE, UUID)?;
        Ok(Bed { setup, disk, store, space })
    }

    /// Opens what is on `disk`: torn pages, redo, a checkpoint.
    pub fn open(disk: Arc<dyn Disk>, setup: Setup) -> Result<Bed> {
        Bed::open_with(disk, setup, false)
    }

    /// As `open`, for a space whose damaged pages are no reason not to open it.
    pub fn open_passing_over(disk: Arc<dyn Disk>, setup: Setup) -> Result<Bed> {
        Bed::open_with(disk, setup, true)
    }

    fn open_with(disk: Arc<dyn Disk>, setup: Setup, pass_over: bool) -> Result<Bed> {
        let metrics = Metrics::new();
        let (wal, mut recovery) = Wal::open(disk.clone(), UUID, setup.wal(), metrics.clone())?;
        let log = recovery.checkpoint_lsn()..recovery.end_lsn();
        restore_torn_pages(disk.as_ref(), setup.page_size, log, &mut |id| {
            assert_eq!(id, SPACE);
            disk.open(FILE, OpenOptions::new(FileKind::Data)).map(Some)
        })?;
        let pool = Pool::new(setup.pool(&disk), wal.clone(), metrics.clone())?;
        pool.set_checkpoint_payload(|_| Vec::new());
        let store = Store::new(pool, wal, metrics);
        let space = SpaceFile::open(&store, disk.as_ref(), SPACE, FILE, UUID, false)?;
        let acc = store.pool().access(AccessKind::Recovery);
        let find = |id| Ok((id == SPACE).then(|| space.space().clone()));
        let redo = Redo::new(&store, find).pass_over(move |_| pass_over);
        assert!(redo.run(&mut recovery, &mut |_| {})?.is_empty());
        match space.finish_recovery(&acc) {
            Err(error) if error.is_damage() && pass_over => {}
            result => result?,
        }
        recovery.finish()?;
        if !pass_over {
            space.wipe_tail(&acc)?;
        }
        drop(acc);
        Ok(Bed { setup, disk, store, space })
    }

    pub fn access(&self) -> Access<'_> {
        self.store.pool().access(AccessKind::Point)
    }

    /// Allocates so many pages and few more, ascending.
    pub fn alloc_many(&self, count: usize) -> Vec<PageNo> {
        let acc = self.access();
        let mut pages = Vec::new();
        while pages.len() < count {
            let near = pages.last().copied().unwrap_or(PageNo(0));
            let ticket = self.store.reserve(1_024, SpaceClass::User).unwrap();
            let _frames = self.space.reserve_alloc(near, 0, &acc).unwrap();
            let mut mtr = self.store.begin(ticket, &acc);
            pages.extend(self.space.alloc_pages(&mut mtr, near, 32).unwrap());
            mtr.commit().unwrap();
        }
        pages
    }

    pub fn new_tree(&self) -> Tree {
        let root = Tree::create(&self.space, INDEX, &self.access()).unwrap();
        Tree::open(&self.space, INDEX, root)
    }

    pub fn tree(&self, root: PageNo) -> Tree {
        Tree::open(&self.space, INDEX, root)
    }

    /// Writes everything and takes a checkpoint.
    pub fn checkpoint(&self) -> Lsn {
        self.store.pool().flush_all().unwrap();
        self.store.pool().checkpoint().unwrap()
    }

    /// Closes cleanly and opens again.
    pub fn reopen(self) -> Bed {
        let Bed { setup, disk, store, space } = self;
        space.close(false).unwrap();
        store.pool().checkpoint().unwrap();
        store.pool().shutdown();
        store.wal().close().unwrap();
        drop((space, store));
        Bed::open(disk, setup).unwrap()
    }

    /// Verifies trees and space; returns the findings.
    pub fn verify(&self, trees: &[&Tree]) -> Vec<PageFinding> {
        let acc = self.store.pool().access(AccessKind::Maintenance);
        let (mut reached, mut findings) = (PageSet::new(), Vec::new());
        for tree in trees {
            tree.verify(&acc, &mut reached, &mut |_, _| None, &mut |f| findings.push(f)).unwrap();
        }
        self.space.verify(&reached, &acc, &mut |f| findings.push(f)).unwrap();
        findings
    }

    pub fn verify_clean(&self, trees: &[&Tree]) {
        let findings = self.verify(trees);
        assert!(findings.is_empty(), "{findings:#?}");
    }

    pub fn verify_undamaged(&self, trees: &[&Tree]) {
        let findings = self.verify(trees);
        assert!(findings.iter().all(|f| f.severity == Severity::Leak), "{findings:#?}");
    }
}

pub fn put(tree: &Tree, key: &[u8], payload: &[u8], acc: &Access<'_>) -> Result<Option<Lsn>> {
    tree.modify(key, acc, &mut |_| Ok(Action::Put(payload.to_vec())))
}

pub fn remove(tree: &Tree, key: &[u8], acc: &Access<'_>) -> Result<Option<Lsn>> {
    tree.modify(key, acc, &mut |_| Ok(Action::Remove))
}

pub fn get(tree: &Tree, key: &[u8], acc: &Access<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    tree.get(key, acc, &mut out).unwrap().then_some(out)
}

/// All entries, in the order of the walk.
pub fn walk(tree: &Tree, direction: Direction, acc: &Access<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = tree.cursor(acc);
    cursor.seek(Bound::Unbounded, direction);
    let mut out = Vec::new();
    while let Some((key, payload)) = cursor.next().unwrap() {
        out.push((key.to_vec(), payload.to_vec()));
    }
    out
}

pub fn assert_equals(tree: &Tree, model: &Model, acc: &Access<'_>) {
    let forward = walk(tree, Direction::Forward, acc);
    assert_eq!(forward.len(), model.len());
    assert!(forward.iter().map(|(k, v)| (k, v)).eq(model.iter()));
    let reverse = walk(tree, Direction::Reverse, acc);
    assert!(reverse.iter().rev().eq(forward.iter()));
}

/// `n`, or as many times more as the environment variable `HOLDFAST_SOAK` says.
pub fn soak(n: u64) -> u64 {
    n * std::env::var("HOLDFAST_SOAK").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}
