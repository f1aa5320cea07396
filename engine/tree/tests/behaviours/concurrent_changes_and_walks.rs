//! Writers and walkers at the same time: every walk sees the entries that exist all the time, in
//! order, exactly once, in both directions, however many splits, merges and evictions happen
//! meanwhile.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use holdfast_base::PageNo;
use holdfast_metrics::Counter;
use holdfast_pool::AccessKind;
use holdfast_testkit::SplitMix64;
use holdfast_tree::{Action, Batch, BatchLimit, Direction, Tree};

use crate::common::*;

/// Every 16th key stays for good; the writers insert and remove the others.
const STABLE: u32 = 16;
const KEYS: u32 = 6000;

fn key(n: u32) -> Vec<u8> {
    format!("user{n:08}").into_bytes()
}

fn write(bed: &Bed, tree: &Tree, seed: u64, rounds: u32) {
    let mut rng = SplitMix64::new(seed);
    for round in 0..rounds {
        let acc = bed.access();
        // Waves that grow and empty whole regions make splits and merges.
        let start = rng.below(u64::from(KEYS)) as u32;
        for n in (start..start + 120).map(|n| n % KEYS).filter(|n| !n.is_multiple_of(STABLE)) {
            if round % 2 == 0 {
                put(tree, &key(n), &vec![7; rng.below(150) as usize], &acc).unwrap();
            } else {
                remove(tree, &key(n), &acc).unwrap();
            }
        }
        let counter = (rng.below(u64::from(KEYS / STABLE)) as u32) * STABLE;
        let add = &mut |old: Option<&[u8]>| {
            let mut payload = old.expect("it stays").to_vec();
            let n = u64::from_le_bytes(payload[..8].try_into().unwrap()) + 1;
            payload[..8].copy_from_slice(&n.to_le_bytes());
            Ok(Action::Put(payload))
        };
        tree.modify(&key(counter), &acc, add).unwrap();
    }
}

/// What a walk has seen so far.
struct Seen {
    direction: Direction,
    stable: u32,
    last: Option<Vec<u8>>,
}

impl Seen {
    fn entry(&mut self, key: &[u8], payload: &[u8]) {
        if let Some(last) = &self.last {
            let ordered =
                if self.direction == Direction::Forward { key > last.as_slice() } else { key < last.as_slice() };
            assert!(ordered, "{:?}: {key:?} after {last:?}", self.direction);
        }
        self.last = Some(key.to_vec());
        let n: u32 = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
        if n.is_multiple_of(STABLE) {
            self.stable += 1;
            assert_eq!(payload.len(), 20);
        }
    }
}

fn check_walk(bed: &Bed, tree: &Tree, direction: Direction, in_batches: bool) {
    let acc = bed.access();
    let mut cursor = tree.cursor(&acc);
    cursor.seek(Bound::Unbounded, direction);
    let mut seen = Seen { direction, stable: 0, last: None };
    if in_batches {
        let (mut batch, mut more) = (Batch::default(), true);
        while more {
            batch.clear();
            more = cursor.fill(&mut batch, BatchLimit { entries: 300, bytes: 20_000 }, Bound::Unbounded).unwrap();
            (0..batch.len()).for_each(|i| seen.entry(batch.get(i).0, batch.get(i).1));
        }
    } else {
        while let Some((key, payload)) = cursor.next().unwrap() {
            seen.entry(key, payload);
        }
    }
    assert_eq!(seen.stable, KEYS.div_ceil(STABLE), "{direction:?}");
}

fn run(setup: Setup, writers: u64, rounds: u32) {
    let bed = Bed::new(setup);
    let tree = bed.new_tree();
    for n in (0..KEYS).step_by(STABLE as usize) {
        put(&tree, &key(n), &[0; 20], &bed.access()).unwrap();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (bed, tree, done) = (&bed, &tree, &done);
        let handles: Vec<_> = (0..writers).map(|seed| scope.spawn(move || write(bed, tree, seed, rounds))).collect();
        for i in 0..3 {
            scope.spawn(move || {
                let direction = if i == 0 { Direction::Reverse } else { Direction::Forward };
                for round in i.. {
                    check_walk(bed, tree, direction, round % 2 == 0);
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        scope.spawn(move || {
            let mut rng = SplitMix64::new(99);
            while !done.load(Ordering::Relaxed) {
                let n = rng.below(u64::from(KEYS / STABLE)) as u32 * STABLE;
                assert!(get(tree, &key(n), &bed.access()).is_some(), "{n}");
            }
        });
        scope.spawn(move || {
            // Moves nodes to the front of the file as long as there is room.
            let mut no = u32::MAX;
            while !done.load(Ordering::Relaxed) {
                let acc = bed.store.pool().access(AccessKind::Maintenance);
                let pages = bed.space.info(&acc).unwrap().pages;
                no = if no > 2 { (no - 1).min(pages - 1) } else { pages - 1 };
                if bed.space.is_allocated(PageNo(no), &acc).unwrap() {
                    tree.relocate_page(PageNo(no), &acc).unwrap();
                }
            }
        });
        let results: Vec<_> = handles.into_iter().map(|h| h.join()).collect();
        done.store(true, Ordering::Relaxed);
        results.into_iter().for_each(|r| r.unwrap());
    });
    // Restarts and moves happen too, but whether they do is up to the scheduler.
    let counted = bed.store.metrics().snapshot();
    for counter in [Counter::IndexPageSplits, Counter::IndexPageMerges] {
        assert!(counted.get(counter) > 0, "{counter:?} did not happen");
    }
    let acc = bed.access();
    let sum: u64 = walk(&tree, Direction::Forward, &acc)
        .iter()
        .filter(|(_, payload)| payload.len() == 20)
        .map(|(_, payload)| u64::from_le_bytes(payload[..8].try_into().unwrap()))
        .filter(|&n| n < 1 << 32)
        .sum();
    assert_eq!(sum, writers * u64::from(rounds), "no increment is lost");
    check_walk(&bed, &tree, Direction::Forward, false);
    bed.verify_clean(&[&tree]);
}

#[test]
fn in_memory() {
    run(Setup { frames: 2000, background: true, ..Setup::default() }, 3, soak(60) as u32);
}

#[test]
fn with_a_pool_that_evicts_all_the_time() {
    run(Setup { frames: 96, background: true, ..Setup::default() }, 3, soak(40) as u32);
}

#[test]
fn without_background_threads() {
    run(Setup { frames: 96, ..Setup::default() }, 2, soak(30) as u32);
}
