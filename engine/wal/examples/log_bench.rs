//! Measures the log: appends of 100-byte payloads by one and by two threads, and a durable commit
//! against a plain write and sync of the same bytes.
//!
//! `cargo run --release -p holdfast-wal --example log_bench -- DIRECTORY` measures on the file
//! system of `DIRECTORY`. `... -- append N` only appends N groups in memory, for `valgrind
//! --tool=callgrind`.

use std::error::Error;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_io::{Disk, FileDisk, FlushMethod, MemoryDisk};
use holdfast_metrics::{Counter, Metrics};
use holdfast_wal::{SpaceClass, Wal, WalConfig};

const PAYLOAD: [u8; 100] = [7; 100];

fn log(disk: Arc<dyn Disk>, metrics: Arc<Metrics>) -> Result<Arc<Wal>, Box<dyn Error>> {
    let config = WalConfig { capacity_bytes: 512 << 20, buffer_bytes: 16 << 20, ..WalConfig::default() };
    Ok(Wal::create(disk, [1; 16], config, metrics)?)
}

/// The time per append in the fastest of `blocks` blocks. In each block `threads` threads append
/// `each` groups.
fn appends(wal: &Arc<Wal>, blocks: u32, threads: u32, each: u32, tickets: bool) -> Duration {
    let block = || {
        let started = Instant::now();
        thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    for _ in 0..each {
                        let ticket = tickets.then(|| wal.reserve(Wal::group_bytes(PAYLOAD.len()), SpaceClass::User));
                        let slot = wal.enter();
                        wal.append(&PAYLOAD).expect("the log has room");
                        drop((slot, ticket));
                    }
                });
            }
        });
        let took = started.elapsed() / (threads * each);
        wal.set_checkpoint(wal.next_lsn(), b"").expect("a checkpoint");
        took
    };
    (0..blocks).map(|_| block()).min().unwrap_or_default()
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |p: usize| times[(times.len() - 1) * p / 100].as_secs_f64() * 1e6;
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64;
    format!("mean {mean:.1} us, p50 {:.1}, p90 {:.1}, p99 {:.1}", at(50), at(90), at(99))
}

fn timed(n: usize, mut f: impl FnMut(usize)) -> Vec<Duration> {
    let time = |i| {
        let started = Instant::now();
        f(i);
        started.elapsed()
    };
    (0..n).map(time).collect()
}

fn on_files(directory: &Path) -> Result<(), Box<dyn Error>> {
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory)?;
    let metrics = Metrics::new();
    let wal = log(Arc::new(FileDisk::open(directory, FlushMethod::Fsync)?), metrics.clone())?;
    for threads in [1, 2, 4] {
        println!("append, {threads} threads: {:?} each", appends(&wal, 50, threads, 20_000, false));
        println!("ticket + append, {threads} threads: {:?} each", appends(&wal, 50, threads, 20_000, true));
    }
    const COMMITS: usize = 2000;
    let raw = fs::File::create(directory.join("raw"))?;
    raw.write_all_at(&vec![0; COMMITS * 160], 0)?;
    raw.sync_all()?;
    for _ in 0..3 {
        let times = timed(COMMITS, |i| {
            raw.write_all_at(&[1; 160], i as u64 * 160).expect("a write");
            raw.sync_data().expect("a sync");
        });
        println!("pwrite + fdatasync: {}", percentiles(times));
        let times = timed(COMMITS, |_| {
            let (_, end) = wal.append(&PAYLOAD).expect("room");
            wal.flush_to(end).expect("a flush");
        });
        println!("append + flush_to:  {}", percentiles(times));
    }
    for threads in [1, 2, 4, 8, 16] {
        let before = metrics.get(Counter::OsLogFsyncs);
        let started = Instant::now();
        thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    for _ in 0..500 {
                        let (_, end) = wal.append(&PAYLOAD).expect("room");
                        wal.flush_to(end).expect("a flush");
                    }
                });
            }
        });
        let (commits, took) = (500 * threads, started.elapsed().as_secs_f64());
        let syncs = metrics.get(Counter::OsLogFsyncs) - before;
        println!("{threads} committers: {:.0} commits/s, {syncs} syncs for {commits}", commits as f64 / took);
    }
    wal.close()?;
    fs::remove_dir_all(directory)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("append") => {
            let n = args.get(2).map_or(Ok(100_000), |n| n.parse())?;
            let wal = log(Arc::new(MemoryDisk::new()), Metrics::new())?;
            println!("{:?} each", appends(&wal, 1, 1, n, false));
            Ok(())
        }
        Some(directory) => on_files(&Path::new(directory).join("holdfast-log-bench")),
        None => Err("name a directory, or `append N`".into()),
    }
}
