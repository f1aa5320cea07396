//! Loops without an engine, run beside it in the same run: what the machine can do.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use holdfast_io::AlignedBuf;
use holdfast_workload::rng::Rng;
use parking_lot::{Mutex, MutexGuard};
use tempfile::NamedTempFile;

use super::cpu;
use super::load::{Load, Session};

/// Bytes that the processor loop goes over at a time: they stay in the first-level cache.
const BLOCK: usize = 16 << 10;

/// Goes over a block `rounds` times.
fn burn(block: &[u8], rounds: u64) -> u32 {
    (0..rounds).fold(0, |crc, _| holdfast_base::checksum_append(crc, std::hint::black_box(block)))
}

/// A session that uses so much processor time per transaction and does nothing else.
#[repr(align(128))]
pub struct Burner {
    block: Vec<u8>,
    rounds: u64,
    result: u32,
}

impl Session for Burner {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        self.result ^= burn(&self.block, self.rounds);
        Ok(())
    }
}

/// Sessions that use `cpu_us` microseconds of processor time per transaction each.
#[must_use]
pub fn burners(cpu_us: f64, sessions: usize) -> Load<'static> {
    let round_ns = round_ns();
    let rounds = (cpu_us * 1e3 / round_ns).round().max(1.0) as u64;
    let session = |_| -> Box<dyn Session> { Box::new(Burner { block: vec![7; BLOCK], rounds, result: 0 }) };
    Load::new(&[], (0..sessions).map(session).collect())
}

/// Cores that so many sessions get which only compute: fewer than the machine has while its neighbours work.
///
/// # Errors
/// If no thread can be started.
pub fn cores(sessions: usize) -> Result<f64> {
    let turn = burners(200.0, sessions).run(Duration::from_millis(300), &mut |_| Ok(()))?;
    Ok(turn.cpu_seconds / turn.seconds.max(1e-9))
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

/// What a loop did.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Operations per second.
    pub per_second: f64,
    /// Processor microseconds per operation.
    pub cpu_us: f64,
}

impl Rate {
    /// The mean of what was measured before and after something: a disk may give more for some seconds than for good.
    #[must_use]
    pub fn around(before: Rate, after: Rate) -> Rate {
        let mean = |of: fn(&Rate) -> f64| (of(&before) + of(&after)) / 2.0;
        Rate { per_second: mean(|r| r.per_second), cpu_us: mean(|r| r.cpu_us) }
    }
}

/// What a loop over pages does.
#[derive(Clone, Copy, Debug)]
pub struct PageLoop<'a> {
    /// The file whose pages are read; it is not changed.
    pub path: &'a Path,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Past the system's cache, or through it.
    pub direct: bool,
    /// Where pages are written to, a file of the same length, and the share of the operations that do, 0 to 1.
    pub writes: Option<(&'a Path, f64)>,
    /// Pages of memory that all threads read into and write from, any of them each time: as many as the pool has frames. A copy to one page that stays
    /// in the processor's first cache costs little more than half as much, but no pool gets its pages there. One for each thread at least.
    pub frames: usize,
}

/// The memory of a [`PageLoop`].
struct Frames(Vec<Mutex<AlignedBuf>>);

impl Frames {
    fn new(count: usize, page_bytes: usize) -> Frames {
        Frames((0..count).map(|_| Mutex::new(AlignedBuf::zeroed(page_bytes))).collect())
    }

    /// One that nobody uses, near a random one. There are as many as threads, and each thread uses one.
    fn any(&self, rng: &mut Rng) -> MutexGuard<'_, AlignedBuf> {
        let first = rng.below(self.0.len() as u64) as usize;
        let (before, from) = self.0.split_at(first);
        let free = from.iter().chain(before).find_map(Mutex::try_lock);
        free.unwrap_or_else(|| self.0[first].lock())
    }
}

/// A session that reads and writes pages at random places, synchronously.
#[repr(align(128))]
struct PageUser<'f> {
    read: File,
    write: Option<(File, f64)>,
    pages: u64,
    frames: &'f Frames,
    rng: Rng,
}

impl Session for PageUser<'_> {
    fn transaction(&mut self, _: &mut dyn FnMut(usize)) -> Result<()> {
        let mut frame = self.frames.any(&mut self.rng);
        let at = self.rng.below(self.pages) * frame.len() as u64;
        match &self.write {
            Some((file, share)) if self.rng.unit() < *share => file.write_all_at(&frame, at).context("write a page"),
            _ => self.read.read_exact_at(&mut frame, at).context("read a page"),
        }
    }
}

impl PageLoop<'_> {
    /// Runs the loop on so many threads.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn run(&self, threads: usize, duration: Duration) -> Result<Rate> {
        let len = std::fs::metadata(self.path).with_context(|| format!("look at {}", self.path.display()))?.len();
        let frames = Frames::new(self.frames.max(threads), self.page_bytes);
        let mut sessions: Vec<Box<dyn Session + '_>> = Vec::new();
        for n in 0..threads {
            let write = |(path, share): (&Path, f64)| Ok::<_, anyhow::Error>((self.open(path, true)?, share));
            sessions.push(Box::new(PageUser {
                read: self.open(self.path, false)?,
                write: self.writes.map(write).transpose()?,
                pages: (len / self.page_bytes as u64).max(1),
                frames: &frames,
                rng: Rng::for_part(17, n as u64),
            }));
        }
        let turn = Load::new(&[], sessions).run(duration, &mut |_| Ok(()))?;
        Ok(Rate { per_second: turn.tps(), cpu_us: turn.cpu_us() })
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

/// A file beside `path` and as long, whose bytes are on disk, so that writing them again does not allocate. It goes with what is returned.
///
/// # Errors
/// If it cannot be written.
pub fn scratch(path: &Path) -> Result<NamedTempFile> {
    let len = std::fs::metadata(path).with_context(|| format!("look at {}", path.display()))?.len();
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(dir).with_context(|| format!("make a file in {}", dir.display()))?;
    std::io::copy(&mut std::io::repeat(1).take(len), &mut file).context("fill a file")?;
    file.as_file().sync_all().context("sync a file")?;
    Ok(file)
}

/// Syncs of a small append in a loop on a thread of its own, until it is dropped; how many there were is seen at any time.
pub struct SyncLoop {
    done: std::sync::Arc<(AtomicU64, AtomicBool)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SyncLoop {
    /// Starts the loop on a new file in `dir`.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn start(dir: &Path) -> Result<SyncLoop> {
        let path = dir.join("sync-loop");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let done = std::sync::Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let shared = std::sync::Arc::clone(&done);
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
    #[must_use]
    pub fn count(&self) -> u64 {
        self.done.0.load(Ordering::Relaxed)
    }
}

impl Drop for SyncLoop {
    fn drop(&mut self) {
        self.done.1.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Syncs per second of small appends in `dir`, with nothing else going on.
///
/// # Errors
/// If the file cannot be made.
pub fn syncs(dir: &Path, duration: Duration) -> Result<f64> {
    let (began, syncs) = (Instant::now(), SyncLoop::start(dir)?);
    std::thread::sleep(duration);
    Ok(syncs.count() as f64 / began.elapsed().as_secs_f64())
}
