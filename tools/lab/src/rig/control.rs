//! Loops without an engine, beside the engine in the same run: they show what the machine can do.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use crossbeam_utils::CachePadded;
use holdfast_io::AlignedBuf;
use holdfast_workload::rng::Rng;
use parking_lot::{Mutex, MutexGuard};
use tempfile::NamedTempFile;

use super::cpu;
use super::load::{Load, Session};
use crate::measure::Figure;
use crate::pin::{Cores, Role};
use crate::subject::turn::Turn;

/// Bytes that the processor loop reads at a time: they stay in the first-level cache.
const BLOCK: usize = 16 << 10;

/// Reads a block `rounds` times.
fn burn(block: &[u8], rounds: u64) -> u32 {
    (0..rounds).fold(0, |crc, _| holdfast_base::checksum_append(crc, std::hint::black_box(block)))
}

/// A computation of a certain length, without a result.
#[derive(Clone)]
struct Work {
    block: Vec<u8>,
    rounds: u64,
}

impl Work {
    /// A computation of about `cpu_us` microseconds, at least one round; the time of a round is
    /// measured. No rounds for 0.
    fn of(cpu_us: f64) -> Work {
        let rounds = if cpu_us > 0.0 { (cpu_us * 1e3 / round_ns()).round().max(1.0) as u64 } else { 0 };
        Work { block: vec![7; BLOCK], rounds }
    }

    fn do_it(&self) {
        std::hint::black_box(burn(&self.block, self.rounds));
    }
}

/// A session that uses this processor time per transaction and does nothing else.
#[repr(align(128))]
struct Burner(Work);

impl Session for Burner {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        self.0.do_it();
        Ok(())
    }
}

/// Sessions that use `cpu_us` microseconds of processor time per transaction each, and time `group`
/// transactions in a row as one.
pub fn burners(cpu_us: f64, sessions: usize, group: u64) -> Result<Load> {
    let work = Work::of(cpu_us);
    Load::of(&[], group, (0..sessions).map(|_| Burner(work.clone())))
}

/// The cores that `sessions` threads get that only compute: fewer than the machine has while its
/// neighbours work.
pub fn cores(sessions: usize) -> Result<f64> {
    let turn = burners(200.0, sessions, 1)?.run(Duration::from_millis(300), &mut |_| Ok(()))?;
    Ok(turn.cpu_seconds.unwrap_or(0.0) / turn.seconds.max(1e-9))
}

/// Processor microseconds of a transaction of `load`, all threads of the engine included, while
/// `beside` other threads compute. With all cores at work each is slower than one by itself: its
/// clock is lower, and two cores of the operating system may be two threads of one.
pub fn price(load: &mut Load, beside: usize, duration: Duration) -> Result<f64> {
    let stop = AtomicBool::new(false);
    let before = cpu::process();
    let (turn, others) = std::thread::scope(|scope| {
        let others: Vec<_> = (0..beside).map(|_| scope.spawn(|| compute(&stop))).collect();
        let turn = load.run(duration, &mut |_| Ok(()));
        stop.store(true, Ordering::Relaxed);
        // A thread that only computes does not panic.
        (turn, others.into_iter().filter_map(|other| other.join().ok()).sum::<Duration>())
    });
    let used = (cpu::process() - before).saturating_sub(others);
    Ok(used.as_secs_f64() * 1e6 / turn?.transactions.max(1.0))
}

/// Computes until `stop` is set. Returns the processor time of the thread.
fn compute(stop: &AtomicBool) -> Duration {
    let block = vec![7; BLOCK];
    while !stop.load(Ordering::Relaxed) {
        std::hint::black_box(burn(&block, 8));
    }
    cpu::thread()
}

/// Nanoseconds until a core sees what another one has written, in some rounds. `None` if threads
/// cannot be bound to two cores. It changes several times over when a host moves its virtual
/// processors, and with it the cost of whatever sessions share.
pub fn core_to_core() -> Option<Figure> {
    let cores = Cores::new(true);
    if !cores.pins() {
        return None;
    }
    let (outward, back) = (CachePadded::new(AtomicU32::new(0)), CachePadded::new(AtomicU32::new(0)));
    let rounds = std::thread::scope(|scope| {
        scope.spawn(|| {
            cores.pin(Role::Dump);
            echo(&outward, &back);
        });
        let calls = scope.spawn(|| {
            cores.pin(Role::Oltp(0));
            calls(&outward, &back)
        });
        calls.join().ok()
    });
    Figure::of(&rounds?)
}

/// Writes numbers to `outward` and waits until they have come back in `back`. Returns the
/// nanoseconds of one way, for each of some hundreds of rounds.
fn calls(outward: &AtomicU32, back: &AtomicU32) -> Vec<f64> {
    const ROUND: u32 = 100;
    let (began, mut sent, mut rounds) = (Instant::now(), 0, Vec::new());
    while began.elapsed() < Duration::from_millis(10) {
        let begin = Instant::now();
        for _ in 0..ROUND {
            sent += 1;
            outward.store(sent, Ordering::Release);
            while back.load(Ordering::Acquire) != sent {
                std::hint::spin_loop();
            }
        }
        rounds.push(begin.elapsed().as_nanos() as f64 / f64::from(2 * ROUND));
    }
    outward.store(u32::MAX, Ordering::Release);
    rounds
}

/// Copies each number from `outward` to `back`, until the greatest number.
fn echo(outward: &AtomicU32, back: &AtomicU32) {
    let mut heard = 0;
    while heard != u32::MAX {
        let now = outward.load(Ordering::Acquire);
        if now == heard {
            std::hint::spin_loop();
        } else {
            heard = now;
            back.store(heard, Ordering::Release);
        }
    }
}

/// Processor nanoseconds of one round of [`burn`]: the best of some tries.
fn round_ns() -> f64 {
    let block = vec![7; BLOCK];
    let tries = (0..9).map(|_| {
        let begin = cpu::thread();
        std::hint::black_box(burn(&block, 2000));
        (cpu::thread() - begin).as_nanos() as f64 / 2000.0
    });
    tries.fold(f64::INFINITY, f64::min)
}

/// The parameters of a loop over pages.
#[derive(Clone, Copy, Debug)]
pub struct PageLoop<'a> {
    /// The file whose pages are read; it is not changed.
    pub path: &'a Path,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// True to read and write past the system's cache.
    pub direct: bool,
    /// A file of the same length that pages are written to, and the share of the operations that
    /// write, 0 to 1.
    pub writes: Option<(&'a Path, f64)>,
    /// The pages of memory that all threads read into and write from, at random: as many as the
    /// pool has frames, at least one for each thread. A copy into one page that stays in the
    /// first-level cache takes little more than half of the time, but a pool copies into all of its
    /// frames.
    pub frames: usize,
    /// Processor microseconds that a thread computes before each operation; 0 for none. A disk
    /// gives less to busy processors: they request later, and under a host its interrupts and
    /// requests preempt them.
    pub work_us: f64,
}

/// The memory of a [`PageLoop`].
struct Frames(Vec<Mutex<AlignedBuf>>);

impl Frames {
    fn new(count: usize, page_bytes: usize) -> Frames {
        Frames((0..count).map(|_| Mutex::new(AlignedBuf::zeroed(page_bytes))).collect())
    }

    /// Returns a page that no thread uses, near a random one. There are at least as many as
    /// threads, and each thread uses one.
    fn any(&self, rng: &mut Rng) -> MutexGuard<'_, AlignedBuf> {
        let first = rng.below(self.0.len() as u64) as usize;
        let (before, from) = self.0.split_at(first);
        let free = from.iter().chain(before).find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.0[first].lock())
    }
}

/// A session that reads and writes pages at random places, synchronously.
#[repr(align(128))]
struct PageUser {
    read: File,
    write: Option<(File, f64)>,
    pages: u64,
    frames: Arc<Frames>,
    work: Work,
    rng: Rng,
}

impl Session for PageUser {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        self.work.do_it();
        let mut frame = self.frames.any(&mut self.rng);
        let at = self.rng.below(self.pages) * frame.len() as u64;
        match &self.write {
            Some((file, share)) if self.rng.unit() < *share => file.write_all_at(&frame, at).context("write a page"),
            _ => self.read.read_exact_at(&mut frame, at).context("read a page"),
        }
    }
}

impl PageLoop<'_> {
    /// Runs the loop on `threads` threads. A transaction is a page.
    pub fn run(&self, threads: usize, duration: Duration) -> Result<Turn> {
        let len = std::fs::metadata(self.path).with_context(|| format!("look at {}", self.path.display()))?.len();
        let frames = Arc::new(Frames::new(self.frames.max(threads), self.page_bytes));
        let work = Work::of(self.work_us);
        let mut sessions = Vec::new();
        for n in 0..threads {
            let write = |(path, share): (&Path, f64)| Ok::<_, anyhow::Error>((self.open(path, true)?, share));
            sessions.push(PageUser {
                read: self.open(self.path, false)?,
                write: self.writes.map(write).transpose()?,
                pages: (len / self.page_bytes as u64).max(1),
                frames: Arc::clone(&frames),
                work: work.clone(),
                rng: Rng::for_part(17, n as u64),
            });
        }
        let turn = Load::of(&[], 1, sessions.into_iter())?.run(duration, &mut |_| Ok(()))?;
        Ok(turn.of_pages(self.writes.map_or(0.0, |(_, share)| share)))
    }

    fn open(&self, path: &Path, write: bool) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        if self.direct {
            options.custom_flags(i32::try_from(rustix::fs::OFlags::DIRECT.bits())?);
        }
        options.open(path).with_context(|| format!("open {}", path.display()))
    }
}

/// A file beside `path`, of the same length, whose bytes are on disk, so that writing them again
/// does not allocate. It is removed when the returned value is dropped.
pub fn scratch(path: &Path) -> Result<NamedTempFile> {
    let len = std::fs::metadata(path).with_context(|| format!("look at {}", path.display()))?.len();
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(dir).with_context(|| format!("make a file in {}", dir.display()))?;
    std::io::copy(&mut std::io::repeat(1).take(len), &mut file).context("fill a file")?;
    file.as_file().sync_all().context("sync a file")?;
    Ok(file)
}

/// Appends and syncs in a loop on a thread of its own, until it is dropped.
pub struct SyncLoop {
    done: Arc<(AtomicU64, AtomicBool)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SyncLoop {
    /// Starts the loop on a new file in `dir`.
    pub fn start(dir: &Path) -> Result<SyncLoop> {
        let path = dir.join("sync-loop");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let done = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let shared = Arc::clone(&done);
        let thread = std::thread::Builder::new().name("sync-loop".into()).spawn(move || {
            let mut at = 0;
            while !shared.1.load(Ordering::Acquire)
                && file.write_all_at(&[0; 512], at).is_ok()
                && file.sync_data().is_ok()
            {
                shared.0.fetch_add(1, Ordering::Relaxed);
                at = (at + 512) % (1 << 20);
            }
        });
        Ok(SyncLoop { done, thread: Some(thread.context("start a thread")?) })
    }

    /// Syncs so far.
    pub fn count(&self) -> u64 {
        self.done.0.load(Ordering::Relaxed)
    }
}

impl Drop for SyncLoop {
    fn drop(&mut self) {
        self.done.1.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
