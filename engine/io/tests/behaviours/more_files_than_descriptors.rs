//! A directory has more data files than the process may have descriptors.

use std::path::Path;
use std::sync::Arc;

use holdfast_io::{Create, Disk, File, FileDisk, FileDiskOptions, FileKind, FlushMethod, OpenOptions};

const OPEN: usize = 4;

fn disk(dir: &Path, flush_method: FlushMethod) -> FileDisk {
    let options = FileDiskOptions { flush_method, open_files: Some(OPEN), ..FileDiskOptions::default() };
    FileDisk::open_with(dir, options).unwrap()
}

fn create(disk: &FileDisk, name: &str) -> Arc<dyn File> {
    disk.open(name, OpenOptions::new(FileKind::Data).create(Create::New)).unwrap()
}

/// Data files with a descriptor, removed ones included.
fn descriptors(dir: &Path) -> usize {
    let dir = dir.canonicalize().unwrap();
    let own =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    own.filter(|file| file.parent() == Some(&dir)).count()
}

fn byte_at(file: &dyn File, offset: u64) -> u8 {
    let mut byte = [0];
    file.read_at(offset, &mut byte).unwrap();
    byte[0]
}

#[test]
fn those_not_used_for_a_while_are_closed_and_opened_again() {
    for flush_method in [FlushMethod::ODirect, FlushMethod::Fsync] {
        let dir = tempfile::tempdir().unwrap();
        let disk = disk(dir.path(), flush_method);
        let files: Vec<_> = (0..40).map(|n| create(&disk, &n.to_string())).collect();
        for (n, file) in (0..).zip(&files) {
            file.set_len(8192).unwrap();
            file.write_at(4096, &[n; 4096]).unwrap();
            assert!(descriptors(dir.path()) <= 2 * OPEN);
        }
        for (n, file) in (0..).zip(&files) {
            file.sync().unwrap();
            assert_eq!((file.len().unwrap(), byte_at(&**file, 0), byte_at(&**file, 4096)), (8192, 0, n));
            assert!(descriptors(dir.path()) <= 2 * OPEN);
        }
        drop(files);
        assert_eq!(descriptors(dir.path()), 0);
    }
}

#[test]
fn a_file_that_was_closed_outlives_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), FlushMethod::ODirect);
    let named = ["removed", "renamed", "replaced"].map(|name| create(&disk, name));
    named.iter().zip(1..).for_each(|(file, n)| file.write_at(0, &[n]).unwrap());
    let use_others = |round: &str| {
        let others: Vec<_> = (0..4 * OPEN).map(|n| create(&disk, &format!("{round}{n}"))).collect();
        others.iter().for_each(|file| file.write_at(0, b"x").unwrap());
    };
    use_others("before");
    disk.remove("removed").unwrap();
    disk.rename("renamed", "replaced").unwrap();
    use_others("after");
    assert_eq!(named.each_ref().map(|file| byte_at(&**file, 0)), [1, 2, 3]);
}

#[test]
fn threads_use_more_files_than_may_be_open() {
    let dir = tempfile::tempdir().unwrap();
    let disk = disk(dir.path(), FlushMethod::ODirect);
    let files: Vec<_> = (0..16).map(|n| create(&disk, &n.to_string())).collect();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let files = &files;
            scope.spawn(move || {
                for round in 0..50 {
                    for step in 0..files.len() {
                        let file = &files[(step * (2 * thread as usize + 1)) % files.len()];
                        file.write_at(thread, &[round]).unwrap();
                        assert_eq!(byte_at(&**file, thread), round);
                    }
                    files[thread as usize].sync().unwrap();
                }
            });
        }
    });
    assert!(files.iter().all(|file| (0..8).all(|thread| byte_at(&**file, thread) == 49)));
    // While all were in use none could be closed.
    let _another = create(&disk, "another");
    assert!(descriptors(dir.path()) <= 2 * OPEN);
}
