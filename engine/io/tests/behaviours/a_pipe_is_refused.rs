//! An open of a pipe waits until something opens its other end: with one in the place of a file,
//! the open of a database did not return.

use holdfast_base::Error;
use holdfast_io::{DirLockMode, Disk, FileDisk, FileKind, FlushMethod, LOCK_FILE, OpenOptions};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn disk_with_pipe(name: &str) -> (tempfile::TempDir, FileDisk) {
    let dir = tempfile::tempdir().unwrap();
    mknodat(CWD, dir.path().join(name), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::ODirect).unwrap();
    (dir, disk)
}

fn assert_refused<T>(result: Result<T, Error>) {
    let error = result.err().unwrap();
    assert!(matches!(error, Error::Io { operation: "open", .. }), "{error}");
    assert!(error.to_string().contains("it is a pipe"), "{error}");
}

#[test]
fn in_the_place_of_a_file() {
    let (_dir, disk) = disk_with_pipe("file");
    for kind in [FileKind::Meta, FileKind::Data] {
        for read_only in [true, false] {
            assert_refused(disk.open("file", OpenOptions::new(kind).read_only(read_only)));
        }
    }
}

#[test]
fn in_the_place_of_the_lock() {
    let (_dir, disk) = disk_with_pipe(LOCK_FILE);
    for mode in [DirLockMode::Shared, DirLockMode::Exclusive] {
        assert_refused(disk.lock(mode));
    }
}
