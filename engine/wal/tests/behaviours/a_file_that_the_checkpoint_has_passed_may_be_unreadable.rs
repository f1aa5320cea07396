//! A file of the log that the checkpoint has passed, and that waits to be used again, may be one
//! that the device does not return: it is passed over, and stays as it is. It kept the database
//! shut. A file that may hold log does so still.

use std::sync::Arc;

use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common::*;

/// A log whose checkpoint has passed some of its files, which are still there, with one group
/// behind it. The names of all, and the number of those that it has passed.
fn passed_some(closes: bool) -> (Arc<FaultDisk>, Vec<String>, usize) {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    for i in 0..200 {
        append_synced(&wal, &payload(i, 8000));
    }
    let at = wal.next_lsn();
    wal.set_checkpoint(at, b"").unwrap();
    append_synced(&wal, b"behind the checkpoint");
    if closes {
        wal.close().unwrap();
    }
    drop(wal);
    let mut names: Vec<String> = disk.list().unwrap().into_iter().filter(|name| name.starts_with("wal.")).collect();
    names.sort_unstable();
    let passed = names.iter().position(|name| *name == place(at).0).unwrap();
    assert!(passed > 0 && passed + 1 < names.len(), "{names:?}");
    (disk, names, passed)
}

fn bytes_of(disk: &FaultDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, OpenOptions::new(FileKind::Log)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn it_is_passed_over_and_stays() {
    for (op, kind) in
        [(FaultOp::Open, FaultKind::Eacces), (FaultOp::Open, FaultKind::Eio), (FaultOp::Read, FaultKind::Eio)]
    {
        let (disk, names, _) = passed_some(false);
        let before = bytes_of(&disk, &names[0]);
        disk.schedule(Fault::nth(op, 1).kind(kind).on(&names[0]).sticky());
        assert_eq!(read(&disk).unwrap().0, [b"behind the checkpoint"], "{op:?}");
        let unread = open(&disk).unwrap().1.unread().to_vec();
        assert!(matches!(&unread[..], [(name, error)] if *name == names[0] && error.is_unread()), "{unread:?}");
        // The log goes round with the others.
        let (wal, groups) = recover(&disk).unwrap();
        assert_eq!(groups.len(), 1, "{op:?}");
        for i in 0..400 {
            append_synced(&wal, &payload(i, 8000));
            if i % 20 == 19 {
                wal.set_checkpoint(wal.next_lsn(), b"").unwrap();
            }
        }
        drop(wal);
        disk.clear();
        assert!(bytes_of(&disk, &names[0]) == before, "{op:?}");
        // It is an ordinary file that waits to be used once it can be read.
        assert!(open(&disk).unwrap().1.unread().is_empty());
        recover(&disk).unwrap();
    }
}

#[test]
fn one_that_may_hold_log_keeps_the_database_shut() {
    for closes in [false, true] {
        let (disk, names, passed) = passed_some(closes);
        for name in &names[passed..] {
            disk.schedule(Fault::nth(FaultOp::Read, 1).on(name).sticky());
            assert!(read(&disk).unwrap_err().is_unread(), "{name}");
            assert!(open(&disk).unwrap_err().is_unread(), "{name}");
            disk.clear();
        }
        assert_eq!(recover(&disk).unwrap().1.len(), 1);
    }
}
