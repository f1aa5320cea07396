//! Model check of the log buffer: groups are published whole, in order, over a lap of the ring.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal --test loom_ring`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_wal::parts::Ring;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const GROUP: u64 = 32;

struct Log {
    ring: Ring,
    next: AtomicU64,
    freed: AtomicU64,
}

impl Log {
    /// As `Wal::append` does it, with a payload that fills a second line for one of the writers.
    fn append(&self, payload: &[u8]) {
        let len = GROUP + (payload.len() as u64).next_multiple_of(GROUP);
        let start = self.next.fetch_add(len, Ordering::AcqRel);
        while start + len > self.freed.load(Ordering::Acquire) + self.ring.capacity() {
            thread::yield_now();
        }
        self.ring.put(start, [start + 1, start + 2, payload.len() as u64, start + 4], payload);
        self.ring.publish(start, start + len);
    }

    /// As the writer does it: everything that is published, checked, freed. Returns the new
    /// position.
    fn drain(&self, position: u64) -> u64 {
        let (ready, groups) = self.ring.ready_from(position);
        assert_eq!(groups > 0, ready > position);
        let mut bytes = vec![0; (ready - position) as usize];
        self.ring.copy_out(position, &mut bytes);
        let words: Vec<u64> = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
        let mut at = 0;
        while at < words.len() {
            let start = position + at as u64 * 8;
            assert_eq!((words[at], words[at + 1], words[at + 3]), (start + 1, start + 2, start + 4));
            let payload = words[at + 2];
            at += 4;
            if payload > 0 {
                assert_eq!(words[at..at + 4], [0x0707_0707_0707_0707, 0x0707, 0, 0]);
                at += 4;
            }
        }
        self.freed.store(ready, Ordering::Release);
        ready
    }
}

fn explore(ring: usize, check: impl Fn(Arc<Log>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let log = Log { ring: Ring::new(ring), next: AtomicU64::new(0), freed: AtomicU64::new(0) };
        check(Arc::new(log));
    });
}

#[test]
fn two_writers_and_a_drainer() {
    explore(128, |log| {
        let other = log.clone();
        let writer = thread::spawn(move || other.append(&[7; 10]));
        let other = log.clone();
        let second = thread::spawn(move || other.append(&[]));
        let mut position = 0;
        while position < 3 * GROUP {
            let now = log.drain(position);
            if now == position {
                thread::yield_now();
            }
            position = now;
        }
        writer.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn a_writer_laps_a_full_ring() {
    explore(64, |log| {
        let other = log.clone();
        let writer = thread::spawn(move || {
            for _ in 0..3 {
                other.append(&[]);
            }
        });
        let mut position = 0;
        while position < 3 * GROUP {
            let now = log.drain(position);
            if now == position {
                thread::yield_now();
            }
            position = now;
        }
        writer.join().unwrap();
    });
}
