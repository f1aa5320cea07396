//! The checkpointer keeps the age of the log where it belongs, without being asked.

use holdfast_base::PageNo;
use holdfast_metrics::Counter;
use holdfast_wal::SpaceClass;

use crate::common::Bed;

#[test]
fn the_age_settles_and_nobody_runs_out_of_log() {
    let bed = Bed::with_threads(256);
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

/// One old page among many young ones is written although it does not fill a batch. Else the
/// checkpoint would not advance until user threads are delayed.
#[test]
fn nobody_is_delayed_while_the_checkpointer_has_little_to_do() {
    let bed = Bed::with_threads(256);
    bed.create_many(200);
    bed.pool.flush_all().unwrap();
    bed.update(0, 1).unwrap();
    let capacity = bed.wal.capacity();
    let end = bed.wal.next_lsn().0 + 2 * capacity;
    let mut young = 1..200;
    while bed.wal.next_lsn().0 < end {
        let ticket = bed.wal.reserve(4096, SpaceClass::User).unwrap();
        bed.wal.append(&[0; 2000]).unwrap();
        if bed.wal.age() > capacity / 2
            && let Some(no) = young.next()
        {
            bed.update(no, 1).unwrap();
        }
        drop(ticket);
        let mut waits = 0;
        while bed.wal.throttle_delay().as_micros() >= 50 {
            assert!(waits < 50_000_000, "the age stays at {} of {capacity}", bed.wal.age());
            waits += 1;
            std::thread::yield_now();
        }
    }
}

/// The checkpointer waited for the latch of each page that it had to write. Among hundreds of
/// sessions on few cores one with a latch is always preempted, and for that time nothing was
/// written: the log filled up and all had to wait.
#[test]
fn a_latched_page_does_not_hold_up_the_others() {
    let bed = Bed::with_threads(256);
    bed.create_many(200);
    (0..200).for_each(|no| bed.update(no, 1).unwrap());
    let acc = bed.access();
    let oldest = bed.pool.fix_exclusive(&bed.space, PageNo(0), &acc).unwrap();
    // As old as they may become without being overdue.
    let fill = || {
        while bed.wal.age() < bed.wal.capacity() / 2 {
            let ticket = bed.wal.reserve(4096, SpaceClass::User).unwrap();
            bed.wal.append(&[0; 2000]).unwrap();
            drop(ticket);
        }
    };
    std::thread::scope(|scope| scope.spawn(fill).join()).unwrap();
    let written = || bed.metrics.get(Counter::FlushedCheckpoint);
    for _ in 0..50_000_000 {
        if written() >= 20 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(written() >= 20, "{} pages were written", written());
    drop(oldest);
}
