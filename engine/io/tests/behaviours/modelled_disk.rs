//! On a modelled disk sequential requests are cheap and random ones cost a seek each. A manual
//! clock makes the costs exact.

use std::sync::Arc;
use std::time::Duration;

use holdfast_io::{Clock, Create, Disk, File, FileKind, ManualClock, MemoryDisk, OpenOptions, ReadAt, WriteAt};
use holdfast_testkit::{DiskModel, ModelDisk};

const PAGE: usize = 10_000;
/// 10 ms a seek, 100 us a page.
const MODEL: DiskModel = DiskModel { seek: Duration::from_millis(10), bytes_per_second: 100_000_000 };

struct Setup {
    disk: ModelDisk,
    file: Arc<dyn File>,
    clock: Arc<ManualClock>,
}

impl Setup {
    fn new() -> Setup {
        let clock = Arc::new(ManualClock::new());
        let disk = ModelDisk::new(Arc::new(MemoryDisk::new()), MODEL, clock.clone());
        disk.set_enabled(false);
        let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
        file.write_at(0, &vec![1; 100 * PAGE]).unwrap();
        file.sync().unwrap();
        assert_eq!(clock.now(), Duration::ZERO, "switched off it costs nothing");
        disk.set_enabled(true);
        Setup { disk, file, clock }
    }

    fn micros_of(&self, work: impl FnOnce()) -> u128 {
        let before = self.clock.now();
        work();
        (self.clock.now() - before).as_micros()
    }

    fn read(&self, page: usize) {
        self.file.read_at((page * PAGE) as u64, &mut [0; PAGE]).unwrap();
    }
}

#[test]
fn a_scan_costs_one_seek() {
    let setup = Setup::new();
    assert_eq!(setup.micros_of(|| (0..100).for_each(|page| setup.read(page))), 10_000 + 100 * 100);
}

#[test]
fn random_reads_cost_a_seek_each() {
    let setup = Setup::new();
    assert_eq!(setup.micros_of(|| (0..100).for_each(|i| setup.read(i * 37 % 100))), 100 * 10_100);
}

#[test]
fn two_scans_at_once_cost_a_seek_per_request() {
    let setup = Setup::new();
    let alternating = || (0..50).flat_map(|i| [i, 50 + i]).for_each(|page| setup.read(page));
    assert_eq!(setup.micros_of(alternating), 100 * 10_100);
}

#[test]
fn a_batch_is_sorted_and_its_neighbours_merge() {
    let setup = Setup::new();
    let buffer = [2; PAGE];
    let pages = [7, 3, 5, 4, 40, 6];
    let writes = pages.map(|page| WriteAt::new((page * PAGE) as u64, &buffer));
    let cost = setup.micros_of(|| setup.file.write_batch(&writes).unwrap());
    assert_eq!(cost, 2 * 10_000 + 6 * 100, "3 to 7, and 40");
    let mut buffers = vec![vec![0; PAGE]; 4];
    let offsets = [3, 2, 1, 0];
    let mut reads: Vec<ReadAt<'_>> =
        buffers.iter_mut().zip(offsets).map(|(buf, page)| ReadAt { offset: (page * PAGE) as u64, buf }).collect();
    assert_eq!(setup.micros_of(|| setup.file.read_batch(&mut reads).unwrap()), 10_000 + 4 * 100);
}

#[test]
fn a_sync_settles_the_arm_if_there_were_writes() {
    let setup = Setup::new();
    setup.read(0);
    assert_eq!(setup.micros_of(|| setup.file.sync().unwrap()), 0);
    let append = |page: usize| {
        setup.file.write_at((page * PAGE) as u64, &[3; PAGE]).unwrap();
        setup.file.sync().unwrap();
    };
    append(1);
    assert_eq!(setup.micros_of(|| append(2)), 100 + 10_000, "appending does not seek, the sync settles");
}

#[test]
fn traffic_is_counted_by_file() {
    let setup = Setup::new();
    let log = setup.disk.open("log", OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
    (0..10).for_each(|page| setup.read(page));
    log.write_at(0, &[0; 500]).unwrap();
    log.sync().unwrap();
    setup.read(10);
    let traffic = setup.disk.traffic();
    let (t, l) = (traffic["t"], traffic["log"]);
    assert_eq!((t.reads, t.read_bytes, t.seeks), (11, 11 * PAGE as u64, 2), "the log drew the arm away");
    assert_eq!((t.writes, t.write_bytes, t.syncs), (1, 100 * PAGE as u64, 1), "also while switched off");
    assert_eq!((l.writes, l.write_bytes, l.seeks, l.syncs), (1, 500, 1, 1));
    setup.disk.rename("log", "log.old").unwrap();
    assert_eq!(setup.disk.traffic()["log.old"], l);
}

#[test]
fn a_scaled_disk_is_faster_in_all_ways() {
    let fast = DiskModel::spinning().scaled(8.0);
    assert_eq!(fast, DiskModel { seek: Duration::from_millis(1), bytes_per_second: 800_000_000 });
}
