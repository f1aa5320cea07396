//! Many threads append, flush, and checkpoint at once. Everything that was flushed is present, in
//! LSN order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use holdfast_io::MemoryDisk;
use holdfast_metrics::{Counter, Metrics};
use holdfast_wal::{LogReader, SpaceClass, Wal};

use crate::common::*;

#[test]
fn every_group_of_every_thread_is_there_once() {
    let disk = Arc::new(MemoryDisk::new());
    let metrics = Metrics::new();
    let wal = Wal::create(disk.clone(), UUID, small(), metrics.clone()).unwrap();
    let append = |thread: u64| {
        let mut mine = BTreeMap::new();
        for i in 0..400u64 {
            let bytes = payload(thread << 32 | i, 8 + (i as usize * 37) % 3000);
            let range = wal.append(&bytes).unwrap();
            if i % 61 == 0 {
                wal.flush_to(range.1).unwrap();
                assert!(wal.durable_lsn() >= range.1);
            } else if i % 61 == 30 {
                wal.write_to(range.1).unwrap();
                assert!(wal.written_lsn() >= range.1);
            }
            mine.insert(range.0, (range.1, bytes));
        }
        mine
    };
    let mut expected = BTreeMap::new();
    thread::scope(|s| {
        let append = &append;
        let threads: Vec<_> = (0..6).map(|t| s.spawn(move || append(t))).collect();
        for t in threads {
            expected.append(&mut t.join().unwrap());
        }
    });
    wal.close().unwrap();
    assert!(metrics.get(Counter::LogWaits) > 0, "the buffer was full now and then");
    let mut reader = LogReader::open(disk.as_ref(), None).unwrap();
    let mut expected = expected.into_iter();
    while let Some(group) = reader.next().unwrap() {
        let (start, (end, bytes)) = expected.next().unwrap();
        assert_eq!((group.start, group.end), (start, end));
        assert!(group.payload == bytes);
    }
    assert!(expected.next().is_none());
}

#[test]
fn writers_and_a_checkpointer_share_a_small_log() {
    // The log is a fraction of what is written, so all threads wait for the checkpointer all the
    // time.
    let disk = Arc::new(MemoryDisk::new());
    let wal = create(&disk);
    let stop = AtomicBool::new(false);
    let (wake, woken) = std::sync::mpsc::channel();
    let waker = std::sync::Mutex::new(wake.clone());
    wal.on_growth(|_| 100_000, move || waker.lock().unwrap().send(()).unwrap());
    thread::scope(|s| {
        let writers: Vec<_> = (0..4u64)
            .map(|t| {
                let wal = &wal;
                s.spawn(move || {
                    for i in 0..600 {
                        let bytes = payload(t << 32 | i, 10_000);
                        let ticket = wal.reserve(Wal::group_bytes(bytes.len()), SpaceClass::User).unwrap();
                        let slot = wal.enter();
                        let (start, _) = wal.append(&bytes).unwrap();
                        assert!(wal.checkpoint_lsn() <= start);
                        assert!(wal.oldest_writer() <= start);
                        assert!(wal.age() <= wal.capacity());
                        drop((slot, ticket));
                    }
                })
            })
            .collect();
        let (wal, stop) = (&wal, &stop);
        let checkpointer = s.spawn(move || {
            while woken.recv().is_ok() && !stop.load(Relaxed) {
                wal.set_checkpoint(wal.oldest_writer(), b"").unwrap();
            }
        });
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Relaxed);
        wake.send(()).unwrap();
        checkpointer.join().unwrap();
    });
    let last = append_synced(&wal, b"last");
    assert!(last.1.0 > 4 * 600 * 10_000);
    drop(wal);
    let (_, groups) = recover(&disk).unwrap();
    assert_eq!(groups.last().unwrap(), b"last");
    let files = holdfast_io::Disk::list(disk.as_ref()).unwrap().len() as u64;
    assert!(files <= 16 + 1, "{files} files: the capacity and the checkpoint");
}
