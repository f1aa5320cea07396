//! A miss - eviction, read, checksum, policy - against a loop of `pread` past the page cache over
//! the same file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_base::{PageNo, Result};
use holdfast_io::{AlignedBuf, Disk, FileDisk, FlushMethod};
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bed::{PAGE, open};

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

pub fn miss(dir: &str, threads: u64) -> Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(FileDisk::open(dir, FlushMethod::ODirect)?);
    let pages = 16_384u32;
    let bench = open(disk.clone(), 4096)?;
    bench.fill(pages, 1)?;
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
