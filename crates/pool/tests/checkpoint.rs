//! The checkpointer keeps the age of the log where it belongs, without being asked.
#![cfg(not(any(loom, shuttle)))]

mod common;

use std::sync::Arc;

use common::Bed;
use holdfast_io::MemoryDisk;
use holdfast_metrics::Counter;
use holdfast_wal::SpaceClass;

#[test]
fn the_age_settles_and_nobody_runs_out_of_log() {
    let adjust = |mut c: holdfast_pool::PoolConfig| {
        c.background = true;
        c
    };
    let bed = Bed::on(Arc::new(MemoryDisk::new()), adjust, 256);
    bed.create_many(200);
    let capacity = bed.wal.capacity();
    let (mut oldest, mut early) = (0, None);
    // Five times the capacity.
    let mut no = 0u32;
    while bed.wal.next_lsn().0 < 5 * capacity {
        no = (no + 77) % 200;
        let ticket = bed.wal.reserve(4096, SpaceClass::User).unwrap();
        let filler = vec![0u8; 2000];
        bed.wal.append(&filler).unwrap();
        bed.update(no, 1).unwrap();
        drop(ticket);
        oldest = oldest.max(bed.wal.age());
        if early.is_none() && bed.metrics.get(Counter::FlushedCheckpoint) > 0 {
            early = Some(oldest);
        }
    }
    // A lump that will be due is written ahead, but not while the log is young.
    assert!(early.unwrap() > capacity / 6, "nothing is written for the checkpoint while the log is young");
    assert!(bed.wal.age() <= bed.wal.user_limit());
    assert!(bed.metrics.get(Counter::Checkpoints) > 5);
}
