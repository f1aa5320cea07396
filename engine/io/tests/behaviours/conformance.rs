//! Every disk passes the same suite: what the floors above rely on does not depend on the disk.

use std::io::ErrorKind;
use std::sync::Arc;

use holdfast_base::Error;
use holdfast_io::{
    AlignedBuf, BatchMethod, Create, DirLockMode, Disk, File, FileDisk, FileDiskOptions, FileKind, FlushMethod,
    LeasedDisk, ManualClock, MemoryDisk, MeteredDisk, OpenOptions, ReadAt, WriteAt,
};
use holdfast_metrics::Metrics;
use holdfast_testkit::{CrashDisk, DiskModel, FaultDisk, HookedDisk, ModelDisk, SplitMix64};

const KINDS: [FileKind; 3] = [FileKind::Data, FileKind::Log, FileKind::Meta];

fn new(kind: FileKind) -> OpenOptions {
    OpenOptions::new(kind).create(Create::New)
}

fn is_io(error: &Error, kind: ErrorKind) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == kind)
}

fn read(file: &dyn File, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    file.read_at(offset, &mut buf).unwrap();
    buf
}

fn bytes_written_are_read_back(disk: &dyn Disk) {
    for (kind, name) in KINDS.into_iter().zip(["data", "log", "meta"]) {
        let file = disk.open(name, new(kind)).unwrap();
        assert_eq!((file.name(), file.len().unwrap(), file.is_empty().unwrap()), (name, 0, true));
        // Aligned and not, in buffer, offset and length.
        let page = AlignedBuf::from_slice(&vec![7; 16 << 10]);
        file.write_at(0, &page).unwrap();
        file.write_at(32 << 10, &page).unwrap();
        file.write_at(100, b"hold").unwrap();
        file.write_at(20_000, &vec![9; 8192][1..]).unwrap();
        assert_eq!(file.len().unwrap(), 48 << 10);
        assert_eq!(read(&*file, 98, 8), [7, 7, b'h', b'o', b'l', b'd', 7, 7]);
        assert_eq!(read(&*file, 19_999, 8193).iter().filter(|b| **b == 9).count(), 8191);
        assert_eq!(read(&*file, 16 << 10, 3616), [0; 3616], "the gap reads as zeros");
        let mut aligned = AlignedBuf::zeroed(4096);
        file.read_at(40 << 10, &mut aligned).unwrap();
        assert!(aligned.iter().all(|b| *b == 7));
        file.read_at(48 << 10, &mut []).unwrap();
        file.write_at(1 << 40, &[]).unwrap();
        assert_eq!(file.len().unwrap(), 48 << 10, "writing nothing does not grow the file");
        file.sync().unwrap();
    }
}

fn reads_past_the_end_fail(disk: &dyn Disk) {
    for (kind, name) in KINDS.into_iter().zip(["data2", "log2", "meta2"]) {
        let file = disk.open(name, new(kind)).unwrap();
        file.write_at(0, &[1; 5000]).unwrap();
        let mut buf = AlignedBuf::zeroed(4096);
        for offset in [4096, 8192, 1 << 40] {
            let error = file.read_at(offset, &mut buf).unwrap_err();
            assert!(is_io(&error, ErrorKind::UnexpectedEof), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(file.read_at(u64::MAX - 5, &mut buf).is_err());
        assert!(file.write_at(u64::MAX - 5, &buf).is_err());
        assert_eq!(read(&*file, 4096, 904), [1; 904]);
    }
}

fn the_length_can_be_set(disk: &dyn Disk) {
    let file = disk.open("length", new(FileKind::Data)).unwrap();
    file.set_len(100_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    assert_eq!(read(&*file, 99_000, 1000), [0; 1000]);
    file.write_at(0, &[5; 100_000]).unwrap();
    file.set_len(10_000).unwrap();
    file.set_len(20_000).unwrap();
    assert_eq!(read(&*file, 9_999, 3), [5, 0, 0], "what was cut off does not come back");
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
    assert!(file.set_len(u64::MAX).is_err());
}

fn batches_do_what_single_requests_do(disk: &dyn Disk) {
    let mut rng = SplitMix64::new(1);
    for (kind, name) in KINDS.into_iter().zip(["data3", "log3", "meta3"]) {
        let (file, single) = (disk.open(name, new(kind)).unwrap(), disk.open(&format!("{name}b"), new(kind)).unwrap());
        for n in [0, 1, 2, 64, 300] {
            // A page per write: aligned, in an odd buffer, of odd length, by turns.
            let pages: Vec<AlignedBuf> = (0..n)
                .map(|i| {
                    let mut page = AlignedBuf::zeroed(8192);
                    page.fill_with(|| rng.next_u64() as u8);
                    page.resize(if i % 7 == 3 { 5000 } else { 8192 });
                    page
                })
                .collect();
            let odd: Vec<Vec<u8>> = pages.iter().map(|p| [&[0u8][..], p].concat()).collect();
            let writes: Vec<WriteAt<'_>> = (0..n)
                .map(|i| {
                    let page = if i % 3 == 1 { &odd[i][1..] } else { &pages[i] };
                    WriteAt::new((n - i) as u64 * 8192, page)
                })
                .collect();
            file.write_batch(&writes).unwrap();
            writes.iter().for_each(|w| single.write_at(w.offset, w.buf).unwrap());
            assert_eq!(file.len().unwrap(), single.len().unwrap());
            let len = file.len().unwrap() as usize;
            assert_eq!(read(&*file, 0, len), read(&*single, 0, len));

            let mut back: Vec<AlignedBuf> = writes.iter().map(|w| AlignedBuf::zeroed(w.buf.len())).collect();
            let reads = writes.iter().zip(&mut back);
            let mut reads: Vec<ReadAt<'_>> = reads.map(|(w, buf)| ReadAt { offset: w.offset, buf }).collect();
            file.read_batch(&mut reads).unwrap();
            assert!(writes.iter().zip(&back).all(|(w, buf)| *w.buf == **buf));
        }
        let mut buffers = vec![[0; 512]; 3];
        let offsets = [0, 1 << 40, 512];
        let mut reads: Vec<_> = buffers.iter_mut().zip(offsets).map(|(buf, offset)| ReadAt { offset, buf }).collect();
        assert!(is_io(&file.read_batch(&mut reads).unwrap_err(), ErrorKind::UnexpectedEof));
    }
}

fn names_follow_the_options(disk: &dyn Disk) {
    let options = OpenOptions::new(FileKind::Meta);
    let gone = disk.open("names", options).map(drop).unwrap_err();
    assert!(is_io(&gone, ErrorKind::NotFound), "{gone}");
    assert!(!disk.exists("names").unwrap());
    let file = disk.open("names", options.create(Create::IfMissing)).unwrap();
    file.write_at(0, b"one").unwrap();
    assert!(disk.exists("names").unwrap());
    let there = disk.open("names", options.create(Create::New)).map(drop).unwrap_err();
    assert!(is_io(&there, ErrorKind::AlreadyExists), "{there}");
    let again = disk.open("names", options.create(Create::IfMissing)).unwrap();
    assert_eq!(read(&*again, 0, 3), b"one", "two handles are one file");
    for name in ["", ".", "..", ".hidden", "a/b", "/etc", "nul\0"] {
        assert!(matches!(disk.open(name, options), Err(Error::InvalidArgument(_))), "{name:?}");
    }
}

fn files_are_renamed_and_removed(disk: &dyn Disk) {
    let old = disk.open("target", new(FileKind::Meta)).unwrap();
    old.write_at(0, b"old").unwrap();
    let file = disk.open("target.new", new(FileKind::Meta)).unwrap();
    file.write_at(0, b"new").unwrap();
    file.sync().unwrap();
    disk.rename("target.new", "target").unwrap();
    disk.sync_dir().unwrap();
    assert!(!disk.exists("target.new").unwrap());
    let target = disk.open("target", OpenOptions::new(FileKind::Meta)).unwrap();
    assert_eq!(read(&*target, 0, 3), b"new");
    assert_eq!(read(&*old, 0, 3), b"old", "an open handle keeps its file");
    disk.remove("target").unwrap();
    assert!(is_io(&disk.remove("target").unwrap_err(), ErrorKind::NotFound));
    assert!(is_io(&disk.rename("target", "other").unwrap_err(), ErrorKind::NotFound));
    assert_eq!(read(&*target, 0, 3), b"new");
    let all = disk.list().unwrap();
    assert!(all.is_sorted() && all.contains(&"names".to_string()) && !all.contains(&"target".to_string()));
}

fn read_only_handles_refuse_writes(disk: &dyn Disk) {
    disk.open("fixed", new(FileKind::Data)).unwrap().write_at(0, &[3; 4096]).unwrap();
    let file = disk.open("fixed", OpenOptions::new(FileKind::Data).read_only(true)).unwrap();
    assert_eq!(read(&*file, 0, 4096), [3; 4096]);
    let write = WriteAt::new(0, &[1]);
    for refused in [file.write_at(0, &[1]), file.write_batch(&[write]), file.set_len(0)] {
        assert!(matches!(refused, Err(Error::ReadOnly(_))), "{refused:?}");
    }
    assert_eq!(read(&*file, 0, 4096), [3; 4096]);
}

fn the_lock_excludes_others(disk: &dyn Disk) {
    let refused = |mode| matches!(disk.lock(mode), Err(Error::AlreadyOpen(_)));
    let held = disk.lock(DirLockMode::Exclusive).unwrap();
    assert!(refused(DirLockMode::Exclusive) && refused(DirLockMode::Shared));
    drop(held);
    let readers = [DirLockMode::Shared; 2].map(|mode| disk.lock(mode).unwrap());
    assert!(refused(DirLockMode::Exclusive));
    let [first, last] = readers;
    drop(first);
    assert!(refused(DirLockMode::Exclusive));
    drop(last);
    drop(disk.lock(DirLockMode::Exclusive).unwrap());
    assert!(!disk.list().unwrap().contains(&"lock".to_string()));
}

fn threads_share_a_file(disk: &dyn Disk) {
    let file = disk.open("shared", new(FileKind::Data)).unwrap();
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let file = &file;
            s.spawn(move || {
                for i in 0..20u64 {
                    let offset = (i * 4 + u64::from(t)) * 4096;
                    file.write_batch(&[WriteAt::new(offset, &[t; 2048]), WriteAt::new(offset + 2048, &[t; 2048])])
                        .unwrap();
                    assert_eq!(read(&**file, offset, 4096), [t; 4096]);
                }
            });
        }
    });
    assert_eq!(file.len().unwrap(), 80 * 4096);
}

/// All but the lock.
fn requests_conform(disk: &dyn Disk) {
    bytes_written_are_read_back(disk);
    reads_past_the_end_fail(disk);
    the_length_can_be_set(disk);
    batches_do_what_single_requests_do(disk);
    names_follow_the_options(disk);
    files_are_renamed_and_removed(disk);
    read_only_handles_refuse_writes(disk);
    threads_share_a_file(disk);
    assert!(!disk.describe().is_empty());
}

fn conforms(disk: &dyn Disk) {
    requests_conform(disk);
    the_lock_excludes_others(disk);
}

fn on_files(flush_method: FlushMethod, batch: BatchMethod) {
    let dir = tempfile::tempdir().unwrap();
    conforms(
        &FileDisk::open_with(dir.path(), FileDiskOptions { flush_method, batch, ..FileDiskOptions::default() })
            .unwrap(),
    );
}

#[test]
fn files_direct() {
    on_files(FlushMethod::ODirect, BatchMethod::Auto);
}

#[test]
fn files_direct_with_threads() {
    on_files(FlushMethod::ODirect, BatchMethod::Threads);
}

#[test]
fn files_buffered() {
    on_files(FlushMethod::Fsync, BatchMethod::Auto);
}

#[test]
fn files_buffered_with_threads() {
    on_files(FlushMethod::Fsync, BatchMethod::Threads);
}

#[test]
fn files_of_which_one_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let options = FileDiskOptions { open_files: Some(1), ..FileDiskOptions::default() };
    conforms(&FileDisk::open_with(dir.path(), options).unwrap());
}

#[test]
fn memory() {
    conforms(&MemoryDisk::new());
}

#[test]
fn simulated_power_cuts() {
    conforms(&CrashDisk::new());
}

#[test]
fn faults() {
    conforms(&FaultDisk::new(Arc::new(MemoryDisk::new())));
}

#[test]
fn a_modelled_disk() {
    let clock = Arc::new(ManualClock::new());
    conforms(&ModelDisk::new(Arc::new(MemoryDisk::new()), DiskModel::spinning(), clock));
}

#[test]
fn a_metered_disk() {
    conforms(&MeteredDisk::new(Arc::new(MemoryDisk::new()), Metrics::new()));
}

#[test]
fn a_disk_with_hooks() {
    conforms(&HookedDisk::default());
}

/// The lease holds the lock of the directory.
#[test]
fn a_leased_disk() {
    let disk = Arc::new(MemoryDisk::new());
    requests_conform(&LeasedDisk::new(disk, DirLockMode::Exclusive).unwrap());
}
