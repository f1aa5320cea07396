//! What the pool's tests share: a pool over a log on some disk, and pages that say what was last
//! done to them.

use std::sync::Arc;

use holdfast_base::codec::{get_u64, put_u64};
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};
use holdfast_base::{PageNo, Result, SpaceId};
use holdfast_io::{Create, Disk, FileKind, ManualClock, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_pool::{Access, AccessKind, ExclusiveGuard, Pool, PoolConfig, Space};
use holdfast_wal::{Wal, WalConfig};

pub const PAGE: usize = 4096;
/// Where a test page keeps its value, at both ends.
const AT: [usize; 2] = [HEADER_LEN, PAGE - 8];
pub const UUID: [u8; 16] = [7; 16];

pub fn wal_config() -> WalConfig {
    WalConfig { capacity_bytes: 4 << 20, buffer_bytes: 64 << 10, page_size: PAGE as u32, ..WalConfig::default() }
}

/// A pool of `frames` frames with deterministic behaviour: nothing in the background.
pub fn config(disk: &Arc<dyn Disk>, frames: usize) -> PoolConfig {
    let mut config = PoolConfig::new(disk.clone(), PAGE, (frames * PAGE) as u64);
    config.background = false;
    config
}

pub struct Bed {
    pub disk: Arc<dyn Disk>,
    pub metrics: Arc<Metrics>,
    pub wal: Arc<Wal>,
    pub pool: Arc<Pool>,
    pub space: Arc<Space>,
    /// Stands still unless a test advances it.
    pub clock: Arc<ManualClock>,
}

pub fn file_name(id: SpaceId) -> String {
    format!("t{id}.hf")
}

impl Bed {
    pub fn new(frames: usize) -> Bed {
        Bed::on(Arc::new(MemoryDisk::new()), |c| c, frames)
    }

    /// With the pool's background threads.
    pub fn with_threads(frames: usize) -> Bed {
        let adjust = |mut c: PoolConfig| {
            c.background = true;
            c
        };
        Bed::on(Arc::new(MemoryDisk::new()), adjust, frames)
    }

    pub fn on(disk: Arc<dyn Disk>, adjust: impl FnOnce(PoolConfig) -> PoolConfig, frames: usize) -> Bed {
        let metrics = Metrics::new();
        let wal = Wal::create(disk.clone(), UUID, wal_config(), metrics.clone()).unwrap();
        let clock = Arc::new(ManualClock::new());
        let mut config = adjust(config(&disk, frames));
        config.clock = clock.clone();
        let pool = Pool::new(config, wal.clone(), metrics.clone()).unwrap();
        let bed = Bed { space: open_space(&pool, &disk, SpaceId(16)), disk, metrics, wal, pool, clock };
        bed.pool.set_checkpoint_payload(|_| Vec::new());
        bed
    }

    pub fn access(&self) -> Access<'_> {
        self.pool.access(AccessKind::Point)
    }

    /// Makes page `no` with this value.
    pub fn create(&self, no: u32, value: u64) -> Result<()> {
        create(&self.pool, &self.space, no, value)
    }

    pub fn update(&self, no: u32, value: u64) -> Result<()> {
        update(&self.pool, &self.space, no, value)
    }

    pub fn read(&self, no: u32) -> Result<u64> {
        read(&self.pool, &self.space, no)
    }

    /// Reads pages `0..n` over and over, so that they are hot.
    pub fn heat(&self, n: u32) {
        for _ in 0..30 {
            self.clock.advance(std::time::Duration::from_millis(50));
            (0..n).for_each(|no| assert!(self.read(no).is_ok()));
        }
    }

    /// Makes pages `0..n`, each with its number as its value, and writes them.
    pub fn create_many(&self, n: u32) {
        for no in 0..n {
            self.create(no, u64::from(no)).unwrap();
        }
        self.pool.flush_all().unwrap();
    }
}

pub fn open_space(pool: &Pool, disk: &Arc<dyn Disk>, id: SpaceId) -> Arc<Space> {
    let options = OpenOptions::new(FileKind::Data).create(Create::IfMissing);
    let file = disk.open(&file_name(id), options).unwrap();
    disk.sync_dir().unwrap();
    pool.open_space(id, file).unwrap()
}

/// A test page's mini-transaction: the log record says which page has which value now.
pub fn change(pool: &Pool, guard: &mut ExclusiveGuard<'_>, value: u64) -> Result<()> {
    let mut record = Vec::new();
    record.extend_from_slice(&guard.id().to_u64().to_le_bytes());
    record.extend_from_slice(&value.to_le_bytes());
    let slot = pool.wal().enter();
    let (start, end) = pool.wal().append(&record)?;
    put_value(guard.bytes_mut(), value);
    guard.mark_dirty(start, end);
    drop(slot);
    Ok(())
}

pub fn put_value(page: &mut [u8], value: u64) {
    page[OFF_TYPE] = PageType::Tree as u8;
    AT.into_iter().for_each(|at| put_u64(page, at, value));
}

pub fn value(page: &[u8]) -> u64 {
    let [a, b] = AT.map(|at| get_u64(page, at).unwrap());
    assert_eq!(a, b, "both ends of a page change together");
    a
}

pub fn create(pool: &Pool, space: &Space, no: u32, value: u64) -> Result<()> {
    let acc = pool.access(AccessKind::Point);
    change(pool, &mut pool.fix_new(space, PageNo(no), &acc)?, value)
}

pub fn update(pool: &Pool, space: &Space, no: u32, value: u64) -> Result<()> {
    let acc = pool.access(AccessKind::Point);
    change(pool, &mut pool.fix_exclusive(space, PageNo(no), &acc)?, value)
}

pub fn read(pool: &Pool, space: &Space, no: u32) -> Result<u64> {
    let acc = pool.access(AccessKind::Point);
    Ok(value(&pool.fix_shared(space, PageNo(no), &acc)?))
}

/// Reads without a latch, as a tree does.
pub fn read_optimistic(pool: &Pool, space: &Space, no: u32, acc: &Access<'_>) -> Result<u64> {
    use holdfast_pool::PageRead;
    loop {
        let Some(guard) = pool.fix_optimistic(space, PageNo(no), acc) else {
            pool.load(space, PageNo(no), acc)?;
            continue;
        };
        let page = guard.page();
        let (a, b) = (page.u64(AT[0]), page.u64(AT[1]));
        if guard.validate() {
            assert_eq!(a, b, "a validated read is of one version");
            return Ok(a.unwrap());
        }
        acc.count_retry();
    }
}
