//! Faults fire at the nth operation of their kind, once or from then on, with the effect of their
//! kind.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_io::{Create, Disk, File, FileKind, MemoryDisk, OpenOptions};
use holdfast_io::{ReadAt, WriteAt};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

fn disk_with_file() -> (FaultDisk, Arc<dyn File>) {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    (disk, file)
}

#[test]
fn the_nth_read_fails_once() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::Read, 3));
    let results: Vec<bool> = (0..5).map(|_| file.read_at(0, &mut [0]).is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    assert_eq!(disk.fired(), 1);
}

#[test]
fn a_sticky_fault_lasts_until_it_is_cleared() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::Sync, 2).sticky());
    let results: Vec<bool> = (0..4).map(|_| file.sync().is_ok()).collect();
    assert_eq!(results, [true, false, false, false]);
    disk.clear();
    file.sync().unwrap();
}

#[test]
fn no_space_is_its_own_error() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::SetLen, 1).kind(FaultKind::Enospc));
    assert!(matches!(file.set_len(8192), Err(Error::DiskFull(_))));
    assert_eq!(file.len().unwrap(), 4096);
    disk.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Enospc));
    assert!(matches!(file.write_at(0, &[2]), Err(Error::DiskFull(_))));
    file.write_at(0, &[2]).unwrap();
}

#[test]
fn a_fault_may_be_for_one_file_only() {
    let (disk, file) = disk_with_file();
    let log = disk.open("log", OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
    disk.schedule(Fault::nth(FaultOp::Write, 2).on("log"));
    file.write_at(0, &[2]).unwrap();
    log.write_at(0, &[2]).unwrap();
    file.write_at(0, &[2]).unwrap();
    assert!(log.write_at(0, &[2]).is_err());
}

#[test]
fn each_request_of_a_batch_counts() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::Write, 2));
    let (first, second) = ([8; 512], [9; 512]);
    let writes = [WriteAt::new(0, &first), WriteAt::new(512, &second)];
    assert!(file.write_batch(&writes).is_err());
    disk.schedule(Fault::nth(FaultOp::Read, 2));
    let (mut a, mut b) = ([0; 512], [0; 512]);
    let mut reads = [ReadAt { offset: 0, buf: &mut a }, ReadAt { offset: 512, buf: &mut b }];
    assert!(file.read_batch(&mut reads).is_err());
}

#[test]
fn a_torn_write_leaves_its_first_half() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Torn));
    assert!(matches!(file.write_at(0, &[2; 4096]), Err(Error::Io { .. })));
    let mut after = [0; 4096];
    file.read_at(0, &mut after).unwrap();
    assert_eq!((after[2047], after[2048]), (2, 1));
}

#[test]
fn a_lost_write_reports_success() {
    let (disk, file) = disk_with_file();
    disk.schedule(Fault::nth(FaultOp::Write, 1).kind(FaultKind::Lost));
    file.write_at(0, &[2; 4096]).unwrap();
    let mut after = [0; 1];
    file.read_at(0, &mut after).unwrap();
    assert_eq!(after, [1]);
}

#[test]
fn operations_on_names_fail_too() {
    let (disk, _file) = disk_with_file();
    for op in [FaultOp::Open, FaultOp::Rename, FaultOp::SyncDir, FaultOp::Remove] {
        disk.schedule(Fault::nth(op, 1));
    }
    assert!(disk.open("t", OpenOptions::default()).is_err());
    assert!(disk.rename("t", "u").is_err());
    assert!(disk.sync_dir().is_err());
    assert!(disk.remove("t").is_err());
    assert_eq!(disk.list().unwrap(), ["t"]);
    disk.remove("t").unwrap();
}

#[test]
fn a_stored_bit_can_be_flipped() {
    let (disk, file) = disk_with_file();
    disk.flip_bit("t", 1000, 3).unwrap();
    let mut after = [0; 3];
    file.read_at(999, &mut after).unwrap();
    assert_eq!(after, [1, 1 ^ 8, 1]);
    assert!(disk.flip_bit("t", 4096, 0).is_err());
}
