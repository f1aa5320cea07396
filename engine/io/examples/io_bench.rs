//! Measures the disk interface: random page reads through `File::read_at` against a bare loop over
//! the same file, and batches of page writes by io_uring against the thread pool.
//!
//! `cargo run --release -p holdfast-io --example io_bench -- [DIRECTORY]`

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use holdfast_base::Result;
use holdfast_io::{
    AlignedBuf, BatchMethod, Create, Disk, File, FileDisk, FileDiskOptions, FileKind, FlushMethod, OpenOptions, ReadAt,
    WriteAt,
};
use holdfast_metrics::{Counter, Metrics};
use holdfast_testkit::SplitMix64;
use rustix::fs::{Mode, OFlags};

const PAGE: usize = 16 << 10;
const PAGES: u64 = 16_384;
const BATCH: usize = 64;

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| ".".to_string());
    let dir = Path::new(&path).join(format!("io_bench.{}", std::process::id()));
    let disk = FileDisk::create(&dir, FlushMethod::ODirect)?;
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New))?;
    fill(&*file)?;
    println!(
        "{}, {} MiB, writes of {PAGE} bytes {} all or none",
        disk.describe(),
        (PAGES * PAGE as u64) >> 20,
        if file.writes_whole(PAGE) { "are" } else { "may not be" }
    );
    reads(&*file, &dir.join("t"))?;
    batches(&dir)?;
    counters();
    drop(file);
    std::fs::remove_dir_all(&dir).expect("the directory was just made");
    Ok(())
}

fn fill(file: &dyn File) -> Result<()> {
    file.set_len(PAGES * PAGE as u64)?;
    let chunk = AlignedBuf::from_slice(&vec![0x5a; 64 * PAGE]);
    (0..PAGES / 64).try_for_each(|i| file.write_at(i * chunk.len() as u64, &chunk))?;
    file.sync()
}

/// Runs `work` for `n` times and returns the mean time.
fn mean(n: u32, work: impl FnMut()) -> Duration {
    mean_and_cpu(n, work).0
}

/// The same, with the processor time of this thread.
fn mean_and_cpu(n: u32, mut work: impl FnMut()) -> (Duration, Duration) {
    let (start, cpu) = (Instant::now(), thread_cpu_time());
    (0..n).for_each(|_| work());
    (start.elapsed() / n, (thread_cpu_time() - cpu) / n)
}

/// The processor time of this thread; zero where the system does not tell it.
fn thread_cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// The two loops alternate, so that the device treats both alike.
fn reads(file: &dyn File, path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let bare = rustix::fs::open(path, flags, Mode::empty()).expect("the file was just made");
    let mut buf = AlignedBuf::zeroed(PAGE);
    let mut rng = SplitMix64::new(1);
    let (mut through, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        through.push(mean_and_cpu(3_000, || {
            file.read_at(rng.below(PAGES) * PAGE as u64, &mut buf).expect("the page exists");
        }));
        alone.push(mean_and_cpu(3_000, || {
            let n = rustix::io::pread(bare.as_fd(), &mut *buf, rng.below(PAGES) * PAGE as u64);
            assert_eq!(n, Ok(PAGE));
        }));
    }
    for (how, runs) in [("through File", through), ("bare", alone)] {
        let (took, cpu): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        println!("random read of 16 KiB, {how}: {:?}, of it processor {:?}", median(took), median(cpu));
    }
    let mut buffers: Vec<AlignedBuf> = (0..BATCH).map(|_| AlignedBuf::zeroed(PAGE)).collect();
    let took = mean(200, || {
        let mut batch: Vec<ReadAt<'_>> =
            buffers.iter_mut().map(|buf| ReadAt { offset: rng.below(PAGES) * PAGE as u64, buf }).collect();
        file.read_batch(&mut batch).expect("the pages exist");
    });
    println!("batch of {BATCH} random reads: {took:?}, {:?} a page", took / BATCH as u32);
    Ok(())
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

fn batches(dir: &Path) -> Result<()> {
    let page = AlignedBuf::from_slice(&vec![0xa5; PAGE]);
    for (name, scattered) in [("random", true), ("sequential", false)] {
        for (method, alone) in
            [(BatchMethod::IoUring, false), (BatchMethod::Threads, false), (BatchMethod::Threads, true)]
        {
            let disk = FileDisk::open_with(dir, FileDiskOptions { batch: method, ..FileDiskOptions::default() })?;
            let file = disk.open("t", OpenOptions::new(FileKind::Data))?;
            let mut rng = SplitMix64::new(2);
            let rounds = (0..9).map(|_| {
                mean(20, || {
                    let first = rng.below(PAGES - BATCH as u64);
                    let offsets = (0..BATCH as u64).map(|i| if scattered { rng.below(PAGES) } else { first + i });
                    let writes: Vec<WriteAt<'_>> = offsets.map(|no| WriteAt::new(no * PAGE as u64, &page)).collect();
                    if alone {
                        writes.iter().try_for_each(|w| file.write_at(w.offset, w.buf)).expect("there is room");
                    } else {
                        file.write_batch(&writes).expect("there is room");
                    }
                })
            });
            let how = if alone { "one by one".to_string() } else { format!("{method:?}") };
            println!("{BATCH} {name} page writes, {how}: {:?}", median(rounds.collect()));
        }
    }
    Ok(())
}

fn counters() {
    let metrics = Metrics::new();
    let n = 10_000_000;
    let took = mean(n, || metrics.inc(Counter::RowsRead));
    println!("a counter: {took:?}");
}
