//! Model check of the writer slots: a checkpoint never passes a writer whose pages it does not see.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p holdfast-wal --test loom_slots`
#![cfg(loom)]

use std::sync::Arc;

use holdfast_base::loom_plants::failure_with;
use holdfast_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use holdfast_wal::parts::WriterSlots;
use loom::thread;

struct Model {
    slots: WriterSlots,
    next: AtomicU64,
    /// True if the pages of each writer are registered as dirty.
    registered: [AtomicBool; 2],
}

impl Model {
    fn write(&self, writer: usize) -> u64 {
        let slot = self.slots.enter(&self.next);
        let start = self.next.fetch_add(32, Ordering::AcqRel);
        self.registered[writer].store(true, Ordering::Relaxed);
        let _ = self.slots.leave(slot);
        start
    }
}

fn explore(slots: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(4);
    model.check(move || {
        let registered = [AtomicBool::new(false), AtomicBool::new(false)];
        let model = Arc::new(Model { slots: WriterSlots::new(slots), next: AtomicU64::new(4096), registered });
        let (first, second) = (model.clone(), model.clone());
        let first = thread::spawn(move || first.write(0));
        let second = thread::spawn(move || second.write(1));
        let oldest = model.slots.oldest(&model.next);
        let seen = [0, 1].map(|writer| model.registered[writer].load(Ordering::Relaxed));
        let starts = [first.join().unwrap(), second.join().unwrap()];
        for writer in 0..2 {
            assert!(seen[writer] || starts[writer] >= oldest, "writer {writer} is below the checkpoint and unseen");
        }
        assert_eq!(model.slots.oldest(&model.next), 4096 + 64);
    });
}

#[test]
fn a_slot_for_each_writer() {
    explore(2);
}

#[test]
fn one_slot_for_two_writers() {
    explore(1);
}

/// A checkpointer that marks the slots and then reads them either sees no writer, or is called at
/// its end.
#[test]
fn a_writer_that_is_seen_calls_at_its_end() {
    loom::model(|| {
        let model = Arc::new((WriterSlots::new(1), AtomicU64::new(4096), AtomicBool::new(false)));
        let writer = model.clone();
        let writer = thread::spawn(move || {
            let (slots, next, called) = &*writer;
            let slot = slots.enter(next);
            next.fetch_add(32, Ordering::AcqRel);
            if slots.leave(slot) {
                called.store(true, Ordering::Relaxed);
            }
        });
        let (slots, next, called) = &*model;
        let end = next.load(Ordering::Acquire);
        slots.watch(end);
        let holds = slots.oldest(next) < end;
        writer.join().unwrap();
        assert!(!holds || called.load(Ordering::Relaxed));
    });
}

/// The mark comes between the writer's look at it and the end of the writer.
#[test]
fn a_slot_that_is_left_in_two_steps_is_found() {
    let failure = failure_with("slot-left-in-two-steps", a_writer_that_is_seen_calls_at_its_end);
    assert!(failure.contains("called"), "{failure}");
}
