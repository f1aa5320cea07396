//! A file says of a copy of a running server's database that the first server which starts on it
//! has to roll back what was being committed. A backup of the copy lacked that file.

use std::sync::Arc;

use holdfast::BackupOptions;
use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};

use crate::common;

const MARK: &str = "copied-while-in-use";
const TEXT: &[u8] = b"A copy.\n";

fn back_up(disk: &MemoryDisk) -> MemoryDisk {
    let (db, target) = (common::open_on(disk), MemoryDisk::new());
    db.backup("copy", &BackupOptions::new().disk(Arc::new(target.clone()))).unwrap();
    db.close().unwrap();
    target
}

#[test]
fn until_a_server_has_started_on_it() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 10);
    db.close().unwrap();
    let copy = back_up(&disk);
    assert!(!copy.exists(MARK).unwrap());
    let mark = copy.open(MARK, OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
    mark.write_at(0, TEXT).unwrap();

    let second = back_up(&back_up(&copy));
    let mark = second.open(MARK, OpenOptions::new(FileKind::Meta)).unwrap();
    let mut text = vec![0; mark.len().unwrap() as usize];
    mark.read_at(0, &mut text).unwrap();
    assert_eq!(text, TEXT);
    common::assert_sound(&common::open_on(&second));

    second.remove(MARK).unwrap();
    assert!(!back_up(&second).exists(MARK).unwrap());
}
