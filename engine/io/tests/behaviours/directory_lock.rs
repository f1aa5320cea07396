//! A directory is locked by one handle at a time, or shared by several, within one process and
//! across processes.

use holdfast_base::Error;
use holdfast_io::{DirLockMode, Disk, FileDisk, FlushMethod};

#[test]
fn a_second_handle_of_the_same_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = FileDisk::open(dir.path(), FlushMethod::ODirect).unwrap();
    let second = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
    let held = first.lock(DirLockMode::Exclusive).unwrap();
    let refused = second.lock(DirLockMode::Exclusive).unwrap_err();
    assert!(matches!(&refused, Error::AlreadyOpen(path) if *path == dir.path().display().to_string()), "{refused}");
    drop(held);
    second.lock(DirLockMode::Exclusive).unwrap();
}

#[test]
fn the_lock_outlives_the_disk_that_gave_it() {
    let dir = tempfile::tempdir().unwrap();
    let held = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap().lock(DirLockMode::Exclusive).unwrap();
    let second = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
    assert!(matches!(second.lock(DirLockMode::Exclusive), Err(Error::AlreadyOpen(_))));
    drop(held);
    second.lock(DirLockMode::Exclusive).unwrap();
}

#[test]
fn a_lock_of_another_process_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path(), FlushMethod::Fsync).unwrap();
    drop(disk.lock(DirLockMode::Exclusive).unwrap());
    // util-linux's flock(1) takes the lock and reports it; without it nothing competes.
    let holder = std::process::Command::new("flock")
        .arg(dir.path().join("lock"))
        .args(["sh", "-c", "echo held; read line"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let Ok(mut holder) = holder else { return };
    let mut line = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert!(matches!(disk.lock(DirLockMode::Exclusive), Err(Error::AlreadyOpen(_))));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    disk.lock(DirLockMode::Exclusive).unwrap();
}

#[test]
fn a_missing_directory_is_an_error_unless_it_shall_be_created() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    assert!(matches!(FileDisk::open(&path, FlushMethod::ODirect), Err(Error::Io { .. })));
    assert!(!path.exists());
    let disk = FileDisk::create(&path, FlushMethod::ODirect).unwrap();
    assert_eq!(disk.path(), path);
    assert!(FileDisk::create(&path, FlushMethod::ODirect).unwrap().list().unwrap().is_empty());
}
