//! What the pool costs: a hit against a pointer chase, two threads against two processes, a miss against a bare read.
//!
//! ```text
//! cargo run --release -p holdfast-pool --example pool_cost -- hit [pages]
//! cargo run --release -p holdfast-pool --example pool_cost -- threads
//! cargo run --release -p holdfast-pool --example pool_cost -- miss <directory on a real disk> [threads]
//! valgrind --tool=callgrind --toggle-collect='*chase_pages*' .../pool_cost count <hits>
//! ```
//!
//! `miss` compares the CPU time of a miss (eviction, read, checksum, policy) with that of a loop of `pread` past the
//! page cache over the same file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_base::codec::put_u64;
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType};
use holdfast_base::{PageNo, Result, SpaceId};
use holdfast_io::{AlignedBuf, Create, Disk, FileDisk, FileKind, FlushMethod, ManualClock, MemoryDisk, OpenOptions};
use holdfast_metrics::{Counter, Metrics};
use holdfast_pool::{Access, AccessKind, PageRead, Pool, PoolConfig, Space};
use holdfast_wal::{Wal, WalConfig};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const PAGE: usize = 16 << 10;
/// Where a page holds the number, and the address, of the next one of the chain.
const NEXT: usize = HEADER_LEN;
const ADDRESS: usize = HEADER_LEN + 8;

struct Bench {
    pool: Arc<Pool>,
    space: Arc<Space>,
    metrics: Arc<Metrics>,
    clock: Arc<ManualClock>,
}

fn open(disk: Arc<dyn Disk>, frames: usize) -> Result<Bench> {
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
    /// Makes `n` pages that form one cycle in random order.
    fn fill(&self, n: u32) -> Result<()> {
        let mut order: Vec<u32> = (0..n).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(1));
        let mut next = vec![0; n as usize];
        order.iter().zip(order.iter().cycle().skip(1)).for_each(|(&a, &b)| next[a as usize] = b);
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

    /// Makes `n` pages more, so that the window in which touches of the first ones do not count is over.
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

    fn start(&self, no: u64) -> Result<u64> {
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

#[inline(never)]
fn chase_pages(bench: &Bench, mut no: u64, steps: u64) -> u64 {
    let acc = bench.pool.access(AccessKind::Point);
    for _ in 0..steps {
        no = one_hit(bench, no, &acc);
    }
    no
}

#[inline(never)]
fn chase_pointers(mut at: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        // SAFETY: the frames stay mapped and hold these pages as long as the pool lives: nothing is evicted, for all
        // pages fit.
        at = unsafe { ((at as *const u8).add(ADDRESS)).cast::<u64>().read_volatile() };
    }
    at
}

fn per_step(steps: u64, f: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    std::hint::black_box(f());
    start.elapsed().as_nanos() as f64 / steps as f64
}

fn in_memory(pages: u32) -> Result<Bench> {
    let bench = open(Arc::new(MemoryDisk::new()), pages as usize + 1024)?;
    bench.fill(pages)?;
    bench.link(pages)?;
    bench.others(pages, 512)?;
    // Until every page is hot.
    for _ in 0..8 {
        bench.clock.advance(Duration::from_millis(100));
        chase_pages(&bench, 0, u64::from(pages));
    }
    Ok(bench)
}

fn hit(pages: u32) -> Result<()> {
    let bench = in_memory(pages)?;
    let steps = 4_000_000;
    let at = bench.start(0)?;
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..5 {
        best.0 = best.0.min(per_step(steps, || chase_pointers(at, steps)));
        best.1 = best.1.min(per_step(steps, || chase_pages(&bench, 0, steps)));
    }
    println!("{pages} pages: pointer chase {:.1} ns, page hit {:.1} ns, ratio {:.2}", best.0, best.1, best.1 / best.0);
    Ok(())
}

fn threads() -> Result<()> {
    let steps = 4_000_000;
    let one = |bench: &Bench| {
        chase_pages(bench, 0, 10_000);
        per_step(steps, || chase_pages(bench, 0, steps))
    };
    let (a, b) = (in_memory(4096)?, in_memory(4096)?);
    let (mut alone, mut apart, mut shared) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..5 {
        alone = alone.min(one(&a));
        // Two pools stand for two processes: nothing is shared.
        apart = apart.min(std::thread::scope(|s| {
            let other = s.spawn(|| one(&b));
            one(&a).max(other.join().expect("no panic"))
        }));
        shared = shared.min(std::thread::scope(|s| {
            let other = s.spawn(|| one(&a));
            one(&a).max(other.join().expect("no panic"))
        }));
    }
    println!("one thread {alone:.1} ns per hit; two threads on two pools {apart:.1}, on one pool {shared:.1}");
    Ok(())
}

fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

fn report(what: &str, n: u64, cpu_before: Duration, start: Instant) -> f64 {
    let us = |d: Duration| d.as_secs_f64() * 1e6 / n as f64;
    let per = us(cpu() - cpu_before);
    println!("{what:<28} {n} pages, {:.2} us CPU and {:.2} us each", per, us(start.elapsed()));
    per
}

fn miss(dir: &str, threads: u64) -> Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(dir, FlushMethod::ODirect)?);
    let pages = 16_384u32;
    let bench = open(disk.clone(), 4096)?;
    bench.fill(pages)?;
    let reads = 100_000 / threads;
    for round in 0..3u64 {
        let random = |t: u64| SmallRng::seed_from_u64(round * 100 + t);
        let (cpu_before, start) = (cpu(), Instant::now());
        std::thread::scope(|s| {
            for t in 0..threads {
                let file = bench.space.file().clone();
                s.spawn(move || {
                    let (mut rng, mut buf) = (random(t), AlignedBuf::zeroed(PAGE));
                    for _ in 0..reads {
                        let no = u64::from(rng.random_range(0..pages));
                        file.read_at(no * PAGE as u64, &mut buf).expect("the page can be read");
                    }
                });
            }
        });
        let bare = report("bare read", reads * threads, cpu_before, start);
        let before = bench.metrics.get(Counter::PagesRead);
        let (cpu_before, start) = (cpu(), Instant::now());
        std::thread::scope(|s| {
            for t in 0..threads {
                let bench = &bench;
                s.spawn(move || {
                    let mut rng = random(t);
                    for _ in 0..reads {
                        let acc = bench.pool.access(AccessKind::Point);
                        let no = PageNo(rng.random_range(0..pages));
                        while bench.pool.fix_optimistic(&bench.space, no, &acc).is_none() {
                            bench.pool.load(&bench.space, no, &acc).expect("the page can be read");
                        }
                    }
                });
            }
        });
        let misses = bench.metrics.get(Counter::PagesRead) - before;
        let miss = report("miss through the pool", misses, cpu_before, start);
        println!("{:<28} {:.2}", "ratio of CPU per page", miss / bare);
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("hit") => hit(number(1, 16_384) as u32),
        Some("threads") => threads(),
        Some("count") => {
            let bench = in_memory(256)?;
            std::hint::black_box(chase_pages(&bench, 0, number(1, 10_000)));
            Ok(())
        }
        Some("miss") if args.len() > 1 => miss(&args[1], number(2, 1)),
        _ => {
            println!("usage: pool_cost hit [pages] | threads | count [hits] | miss <directory> [threads]");
            Ok(())
        }
    }
}
