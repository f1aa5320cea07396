//! A pool whose pages form a chain in random order, and ways along the chain.

use std::sync::Arc;
use std::time::Duration;

use holdfast_base::codec::put_u64;
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};
use holdfast_base::{PageNo, Result, SpaceId};
use holdfast_io::{Create, Disk, FileKind, ManualClock, MemoryDisk, OpenOptions};
use holdfast_metrics::Metrics;
use holdfast_pool::{Access, AccessKind, PageRead, Pool, PoolConfig, Space};
use holdfast_wal::{Wal, WalConfig};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

pub const PAGE: usize = 16 << 10;
/// Where a page holds the number, and the address, of the next one of the chain.
const NEXT: usize = HEADER_LEN;
const ADDRESS: usize = HEADER_LEN + 8;

pub struct Bench {
    pub pool: Arc<Pool>,
    pub space: Arc<Space>,
    pub metrics: Arc<Metrics>,
    clock: Arc<ManualClock>,
}

pub fn open(disk: Arc<dyn Disk>, frames: usize) -> Result<Bench> {
    let metrics = Metrics::new();
    let config = WalConfig { capacity_bytes: 256 << 20, ..WalConfig::default() };
    let wal = Wal::create(disk.clone(), [1; 16], config, metrics.clone())?;
    let clock = Arc::new(ManualClock::new());
    let mut config = PoolConfig::new(disk.clone(), PAGE, (frames * PAGE) as u64);
    config.clock = clock.clone();
    let pool = Pool::new(config, wal, metrics.clone())?;
    let file = disk.open("bench.hf", OpenOptions::new(FileKind::Data).create(Create::IfMissing))?;
    Ok(Bench { space: pool.open_space(SpaceId(16), file)?, pool, metrics, clock })
}

impl Bench {
    /// Makes `n` pages that form `cycles` cycles, each in random order and of as many pages in a
    /// row.
    pub fn fill(&self, n: u32, cycles: u32) -> Result<()> {
        let mut next = vec![0; n as usize];
        for cycle in 0..cycles {
            let mut order: Vec<u32> = (cycle * n / cycles..(cycle + 1) * n / cycles).collect();
            order.shuffle(&mut SmallRng::seed_from_u64(1));
            order.iter().zip(order.iter().cycle().skip(1)).for_each(|(&a, &b)| next[a as usize] = b);
        }
        let acc = self.pool.access(AccessKind::Point);
        for no in 0..n {
            let mut page = self.pool.fix_new(&self.space, PageNo(no), &acc)?;
            page.bytes_mut()[OFF_TYPE] = PageType::Tree as u8;
            put_u64(page.bytes_mut(), NEXT, u64::from(next[no as usize]));
            let (start, end) = self.pool.wal().append(&[0; 8])?;
            page.mark_dirty(start, end);
        }
        self.pool.flush_all()
    }

    /// Makes `n` pages more, so that the window in which touches of the first ones do not count is
    /// over.
    fn others(&self, from: u32, n: u32) -> Result<()> {
        let acc = self.pool.access(AccessKind::Point);
        for no in from..from + n {
            let mut page = self.pool.fix_new(&self.space, PageNo(no), &acc)?;
            let (start, end) = self.pool.wal().append(&[0; 8])?;
            page.mark_dirty(start, end);
        }
        Ok(())
    }

    /// Puts the addresses of the frames into the pages, which all are in the pool.
    fn link(&self, n: u32) -> Result<()> {
        let acc = self.pool.access(AccessKind::Point);
        let address = |no: u64| -> Result<u64> {
            Ok(self.pool.fix_shared(&self.space, PageNo(no as u32), &acc)?.as_ptr() as u64)
        };
        for no in 0..n {
            let next = self.pool.fix_shared(&self.space, PageNo(no), &acc)?.u64(NEXT).unwrap_or(0);
            let at = address(next)?;
            let mut page = self.pool.fix_exclusive(&self.space, PageNo(no), &acc)?;
            put_u64(page.bytes_mut(), ADDRESS, at);
            let (start, end) = self.pool.wal().append(&[0; 8])?;
            page.mark_dirty(start, end);
        }
        Ok(())
    }

    /// The address of a page.
    pub fn start(&self, no: u64) -> Result<u64> {
        let acc = self.pool.access(AccessKind::Point);
        Ok(self.pool.fix_shared(&self.space, PageNo(no as u32), &acc)?.as_ptr() as u64)
    }
}

/// A page hit: fix, read 8 bytes, validate.
#[inline(always)]
fn one_hit(bench: &Bench, no: u64, acc: &Access<'_>) -> u64 {
    let Some(guard) = bench.pool.fix_optimistic(&bench.space, PageNo(no as u32), acc) else {
        return miss_in_between(bench, no, acc);
    };
    let next = guard.page().u64(NEXT);
    if guard.validate() { next.unwrap_or(0) } else { no }
}

#[cold]
#[inline(never)]
fn miss_in_between(bench: &Bench, no: u64, acc: &Access<'_>) -> u64 {
    bench.pool.load(&bench.space, PageNo(no as u32), acc).expect("the page can be read");
    no
}

/// Follows the chain from page `no` through the pool.
#[inline(never)]
pub fn chase_pages(bench: &Bench, mut no: u64, steps: u64) -> u64 {
    let acc = bench.pool.access(AccessKind::Point);
    for _ in 0..steps {
        no = one_hit(bench, no, &acc);
    }
    no
}

/// Follows the same chain from the page at address `at` by the addresses in the pages.
#[inline(never)]
pub fn chase_pointers(mut at: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        // SAFETY: the frames stay mapped and hold these pages as long as the pool lives: nothing is
        // evicted, for all pages fit.
        at = unsafe { ((at as *const u8).add(ADDRESS)).cast::<u64>().read_volatile() };
    }
    at
}

/// A pool of `pages` pages that are all resident and hot, in `cycles` cycles.
pub fn in_memory(pages: u32, cycles: u32) -> Result<Bench> {
    let bench = open(Arc::new(MemoryDisk::new()), pages as usize + 1024)?;
    bench.fill(pages, cycles)?;
    bench.link(pages)?;
    bench.others(pages, 512)?;
    // Until every page is hot.
    for _ in 0..8 {
        bench.clock.advance(Duration::from_millis(100));
        for cycle in 0..cycles {
            chase_pages(&bench, u64::from(cycle * pages / cycles), u64::from(pages / cycles));
        }
    }
    Ok(bench)
}
