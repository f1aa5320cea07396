//! Data files work on every file system: past the page cache if it supports that, else through it.

use std::path::Path;

use holdfast_io::{AlignedBuf, Create, Disk, FileDisk, FileKind, FlushMethod, OpenOptions};

/// Pages written past the page cache are read back by either way, and a file may end within a
/// block.
fn exercise(path: &Path) -> String {
    let dir = tempfile::tempdir_in(path).unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::ODirect).unwrap();
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    let page = AlignedBuf::from_slice(&[6; 16 << 10]);
    file.write_at(0, &page).unwrap();
    file.write_at(16 << 10, &page).unwrap();
    // Through the page cache, then past it, on the same block, and back.
    file.write_at(10, b"holdfast").unwrap();
    let mut back = AlignedBuf::zeroed(16 << 10);
    file.read_at(0, &mut back).unwrap();
    assert_eq!(&back[9..19], b"\x06holdfast\x06");
    file.write_at(0, &page).unwrap();
    let mut odd = [0; 8];
    file.read_at(10, &mut odd).unwrap();
    assert_eq!(odd, [6; 8]);
    // The file ends within a block, and the request at its end.
    file.set_len((32 << 10) + 1000).unwrap();
    file.read_at(16 << 10, &mut back).unwrap();
    assert_eq!(back[..], page[..]);
    let mut tail = AlignedBuf::zeroed(4096);
    assert!(file.read_at(32 << 10, &mut tail).is_err());
    file.read_at(32 << 10, &mut tail[..1000]).unwrap();
    assert_eq!(tail[..1000], [0; 1000]);
    file.sync().unwrap();
    disk.describe()
}

#[test]
fn on_the_file_system_of_temporary_files() {
    exercise(&std::env::temp_dir());
}

#[test]
fn on_a_file_system_in_memory() {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        exercise(shm);
    }
}

#[test]
fn the_flush_method_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
    disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    assert!(disk.describe().ends_with("(buffered)"), "{}", disk.describe());
}

#[test]
fn room_is_allocated_when_the_length_is_set() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::ODirect).unwrap();
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    let allocated = || std::fs::metadata(dir.path().join("t")).unwrap().blocks() * 512;
    file.set_len(1 << 20).unwrap();
    let size = allocated();
    assert!(size == 0 || size >= 1 << 20, "all, or nothing where the file system cannot: {size}");
}

#[test]
fn a_file_that_cannot_grow_keeps_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::ODirect).unwrap();
    let file = disk.open("t", OpenOptions::new(FileKind::Data).create(Create::New)).unwrap();
    file.write_at(0, &[1; 4096]).unwrap();
    // More than any file system here has: no space, or a file too large.
    assert!(file.set_len(1 << 60).is_err());
    assert_eq!(file.len().unwrap(), 4096);
}
