//! Pages of a file that promises atomic writes need no image in the double-write file. The promise
//! comes with the first such write of a life, and may be taken back: so it is asked for with every
//! batch, not once when the space is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_base::{Error, Result, SpaceId};
use holdfast_io::{DirLock, DirLockMode, Disk, File, MemoryDisk, OpenOptions, ReadAt, WriteAt};
use holdfast_metrics::Counter;
use holdfast_pool::DoubleWrite;

use crate::common::{Bed, PAGE, create, open_space, read, update};

/// The length of the writes that the files promise to do all or none, and whether a write of pages
/// is refused next, which takes the promise back.
#[derive(Default)]
struct Device {
    whole: AtomicUsize,
    refusals: AtomicUsize,
}

struct Promising(MemoryDisk, Arc<Device>);

struct PromisingFile(Arc<dyn File>, Arc<Device>);

impl Disk for Promising {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        Ok(Arc::new(PromisingFile(self.0.open(name, options)?, Arc::clone(&self.1))))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.0.rename(from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.0.list()
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.0.exists(name)
    }
    fn sync_dir(&self) -> Result<()> {
        self.0.sync_dir()
    }
    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.0.lock(mode)
    }
    fn location(&self) -> String {
        self.0.location()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}

impl File for PromisingFile {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buf)
    }
    fn read_batch(&self, reads: &mut [ReadAt<'_>]) -> Result<()> {
        self.0.read_batch(reads)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.0.write_at(offset, buf)
    }
    fn write_batch(&self, writes: &[WriteAt<'_>]) -> Result<()> {
        if self.1.refusals.swap(0, Ordering::Relaxed) > 0 {
            self.1.whole.store(0, Ordering::Relaxed);
            return Err(Error::io("write to", self.name(), std::io::ErrorKind::Unsupported.into()));
        }
        self.0.write_batch(writes)
    }
    fn sync(&self) -> Result<()> {
        self.0.sync()
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }
    fn writes_whole(&self, len: usize) -> bool {
        self.1.whole.load(Ordering::Relaxed) == len
    }
}

/// A pool of 20 pages over a device that promises writes of this length.
fn bed(whole: usize) -> (Bed, Arc<Device>) {
    let device = Arc::new(Device::default());
    device.whole.store(whole, Ordering::Relaxed);
    let disk: Arc<dyn Disk> = Arc::new(Promising(MemoryDisk::new(), Arc::clone(&device)));
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        c.doublewrite = DoubleWrite::Auto;
        c
    };
    let bed = Bed::on(disk, adjust, 64);
    bed.create_many(20);
    (bed, device)
}

/// Images written for a change of all pages.
fn images(bed: &Bed, value: u64) -> u64 {
    let before = bed.metrics.get(Counter::DblwrPagesWritten);
    (0..20).for_each(|no| bed.update(no, value).unwrap());
    bed.pool.flush_all().unwrap();
    bed.metrics.get(Counter::DblwrPagesWritten) - before
}

#[test]
fn a_promise_that_is_taken_back_counts_no_longer() {
    let (bed, device) = bed(PAGE);
    assert_eq!(images(&bed, 7), 0);
    device.whole.store(0, Ordering::Relaxed);
    assert_eq!(images(&bed, 8), 20);
}

#[test]
fn a_promise_for_larger_writes_counts_for_no_page() {
    let (bed, _) = bed(2 * PAGE);
    bed.pool.checkpoint().unwrap();
    assert_eq!(images(&bed, 7), 20);
}

#[test]
fn a_promise_that_comes_later_counts_from_then_on() {
    let (bed, device) = bed(0);
    bed.pool.checkpoint().unwrap();
    assert_eq!(images(&bed, 7), 20);
    device.whole.store(PAGE, Ordering::Relaxed);
    bed.pool.checkpoint().unwrap();
    assert_eq!(images(&bed, 8), 0);
}

#[test]
fn a_page_whose_atomic_write_was_refused_goes_out_with_an_image() {
    let (bed, device) = bed(PAGE);
    device.refusals.store(1, Ordering::Relaxed);
    (0..20).for_each(|no| bed.update(no, 7).unwrap());
    assert!(bed.pool.flush_all().is_err());
    assert_eq!(images(&bed, 8), 20);
    (0..20).for_each(|no| assert_eq!(bed.read(no).unwrap(), 8));
}

/// The pages that the batch wrote after the refused one went out without images, though the promise
/// was gone: a power cut could have torn them for good.
#[test]
fn the_others_of_its_batch_do_not_go_out_without_images() {
    let (bed, device) = bed(PAGE);
    let other = open_space(&bed.pool, &bed.disk, SpaceId(17));
    create(&bed.pool, &other, 0, 1).unwrap();
    bed.pool.flush_all().unwrap();
    bed.update(0, 7).unwrap();
    update(&bed.pool, &other, 0, 7).unwrap();
    device.refusals.store(1, Ordering::Relaxed);
    assert!(bed.pool.flush_all().is_err());
    assert_eq!(bed.pool.stats().dirty, 2);
    let before = bed.metrics.get(Counter::DblwrPagesWritten);
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.metrics.get(Counter::DblwrPagesWritten) - before, 2);
    assert_eq!((bed.read(0).unwrap(), read(&bed.pool, &other, 0).unwrap()), (7, 7));
}
