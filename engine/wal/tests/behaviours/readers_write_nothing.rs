//! A log can be read on a disk that refuses every write.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};
use holdfast_wal::{EndReason, LogReader};

use crate::common::*;

#[test]
fn dump_needs_no_writes() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let wal = create(&disk);
    for i in 0..100 {
        append_synced(&wal, &payload(i, 9000));
    }
    wal.set_checkpoint(wal.checkpoint_lsn(), b"payload").unwrap();
    drop(wal);
    use FaultOp::{Remove, Rename, SetLen, Sync, SyncDir, Write};
    for op in [Write, Sync, SetLen, Remove, Rename, SyncDir] {
        disk.schedule(Fault::nth(op, 1).sticky());
    }
    let mut reader = LogReader::open(disk.as_ref(), None).unwrap();
    assert_eq!((reader.uuid(), reader.checkpoint_payload()), (UUID, &b"payload"[..]));
    let mut n = 0;
    while let Some(group) = reader.next().unwrap() {
        assert_eq!(group.payload, payload(n, 9000));
        assert_eq!(group.epoch, 1);
        n += 1;
    }
    assert_eq!(n, 100);
    assert_eq!(reader.end().unwrap().reason, EndReason::Blank);
    assert_eq!(reader.progress().done, reader.progress().total);
    assert!(reader.next().unwrap().is_none(), "and stays at the end");
    assert_eq!(disk.fired(), 0);
}
