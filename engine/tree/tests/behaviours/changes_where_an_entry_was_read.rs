//! A change at the spot where the entry was read, without a descent: it happens if the leaf is as
//! it was, and only then.

use std::ops::Bound;
use std::thread;

use holdfast_base::Result;
use holdfast_pool::Access;
use holdfast_testkit::SplitMix64;
use holdfast_tree::{Action, Batch, BatchLimit, Direction, Spot, Tree};
use holdfast_wal::SpaceClass;

use crate::common::*;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Puts `payload` at `spot`; whether that was possible.
fn put_at(bed: &Bed, tree: &Tree, spot: &Spot, key: &[u8], payload: &[u8], acc: &Access<'_>) -> Result<bool> {
    let mut mtr = bed.store.begin(bed.store.reserve(1024, SpaceClass::User)?, acc);
    let Some(page) = tree.latch_at(spot, &mut mtr) else { return Ok(false) };
    let Some(planned) = tree.plan_put(spot, &mtr, page, key, payload)? else { return Ok(false) };
    mtr.apply_planned(&planned);
    mtr.commit()?;
    Ok(true)
}

/// Many leaves of 100 entries or so.
fn filled(bed: &Bed) -> Tree {
    let tree = bed.new_tree();
    for n in 0..2_000 {
        put(&tree, &key(n), &0u64.to_le_bytes(), &bed.access()).unwrap();
    }
    tree
}

#[test]
fn a_spot_holds_until_its_leaf_changes() {
    let bed = Bed::new(Setup::default());
    let tree = filled(&bed);
    let (acc, mut out) = (bed.access(), Vec::new());

    let spot = tree.get_at(&key(7), &acc, &mut out).unwrap();
    assert!(spot.exists() && tree.is_current(&spot));
    put(&tree, &key(1_900), b"in another leaf", &acc).unwrap();
    assert!(put_at(&bed, &tree, &spot, &key(7), b"updated.", &acc).unwrap());
    assert_eq!(get(&tree, &key(7), &acc).unwrap(), b"updated.");

    assert!(!tree.is_current(&spot), "by that change itself");
    assert!(!put_at(&bed, &tree, &spot, &key(7), b"too late", &acc).unwrap());

    let (mine, other) = (b"key000008a", b"key000008b");
    let absent = tree.get_at(mine, &acc, &mut out).unwrap();
    assert!(!absent.exists() && out.is_empty());
    put(&tree, other, b"came between", &acc).unwrap();
    assert!(!put_at(&bed, &tree, &absent, mine, b"value", &acc).unwrap(), "its slot may be another one now");
    let absent = tree.get_at(mine, &acc, &mut out).unwrap();
    assert!(put_at(&bed, &tree, &absent, mine, b"value", &acc).unwrap());
    assert_eq!(get(&tree, mine, &acc).unwrap(), b"value");
    bed.verify_clean(&[&tree]);
}

/// Whatever happened to the leaf meanwhile: reading again gives what reading anew gives.
#[test]
fn an_entry_is_read_again_wherever_it_is_now() {
    let bed = Bed::new(Setup::default());
    let tree = filled(&bed);
    let (acc, mut out) = (bed.access(), Vec::new());
    let seen: Vec<Spot> = (0..2_000).map(|n| tree.get_at(&key(n), &acc, &mut out).unwrap()).collect();
    let agree = |what: &str| {
        let (mut again, mut anew) = (Vec::new(), Vec::new());
        for (n, seen) in (0..).zip(&seen) {
            let spot = tree.get_again(&key(n), seen, &acc, &mut again).unwrap();
            assert_eq!(spot.exists(), tree.get_at(&key(n), &acc, &mut anew).unwrap().exists(), "{n} after {what}");
            assert!(tree.is_current(&spot) && again == anew, "{n} after {what}");
        }
    };
    agree("nothing");
    for n in 0..2_000 {
        put(&tree, &key(n), &(n + 1).to_le_bytes(), &acc).unwrap();
    }
    agree("changes in place");
    for n in (0..2_000).step_by(3) {
        remove(&tree, &key(n), &acc).unwrap();
    }
    agree("removals in front of it");
    for n in 0..2_000 {
        put(&tree, &key(n), &[n as u8; 60], &acc).unwrap();
    }
    agree("splits");
    for n in 0..1_990 {
        remove(&tree, &key(n), &acc).unwrap();
    }
    agree("merges");
}

#[test]
fn a_batch_knows_where_its_entries_were_read() {
    let bed = Bed::new(Setup::default());
    let tree = filled(&bed);
    let (acc, mut out) = (bed.access(), Vec::new());
    for direction in [Direction::Forward, Direction::Reverse] {
        let (mut cursor, mut batch, mut seen) = (tree.cursor(&acc), Batch::default(), 0);
        cursor.seek(Bound::Unbounded, direction);
        let limit = BatchLimit { entries: 333, bytes: 1 << 20 };
        while cursor.fill(&mut batch, limit, Bound::Unbounded).unwrap() {
            for i in 0..batch.len() {
                let spot = tree.get_at(batch.get(i).0, &acc, &mut out).unwrap();
                assert_eq!(format!("{:?}", batch.spot(i).unwrap()), format!("{spot:?}"), "entry {i}, {direction:?}");
            }
            // What follows is read after a change of the last leaf.
            let last = batch.get(batch.len() - 1).0.to_vec();
            put(&tree, &last, b"updated.", &acc).unwrap();
            assert!(!tree.is_current(&batch.spot(batch.len() - 1).unwrap()));
            assert!(tree.is_current(&batch.spot(0).unwrap()), "that of another leaf");
            seen += batch.len();
            batch.clear();
            assert!(batch.spot(0).is_none());
        }
        assert_eq!(seen + batch.len(), 2_000);
    }
}

#[test]
fn what_takes_more_than_the_leaf_is_left_to_the_descent() {
    let bed = Bed::new(Setup::default());
    let tree = filled(&bed);
    let (acc, mut out) = (bed.access(), Vec::new());
    // A payload that the leaf has no room for, until it is split.
    let spot = tree.get_at(&key(7), &acc, &mut out).unwrap();
    let long = vec![1; 1_900];
    assert!(!put_at(&bed, &tree, &spot, &key(7), &long, &acc).unwrap());
    assert!(tree.is_current(&spot), "nothing has happened");
    // Payloads that shrink until the leaf is worth merging.
    put(&tree, &key(7), &long, &acc).unwrap();
    put(&tree, &key(8), &long, &acc).unwrap();
    let mut left = Vec::new();
    for n in 0..2_000 {
        let spot = tree.get_at(&key(n), &acc, &mut out).unwrap();
        if !put_at(&bed, &tree, &spot, &key(n), b"", &acc).unwrap() {
            assert!(tree.is_current(&spot));
            put(&tree, &key(n), b"", &acc).unwrap();
            left.push(n);
        }
    }
    assert!(!left.is_empty() && left.len() < 200, "{left:?}");
    bed.verify_clean(&[&tree]);
}

/// Each thread counts up entries, mostly where it has read them, while leaves are split and merged
/// around them. No count is lost, so no thread changed an entry other than the one that it had
/// read.
fn count_up(frames: usize, rounds: u64) {
    const THREADS: u64 = 3;
    const COUNTERS: u64 = 50;
    let bed = Bed::new(Setup { frames, background: true, ..Setup::default() });
    let tree = bed.new_tree();
    let counter = |n: u64| key(n * 100);
    for n in 0..COUNTERS {
        put(&tree, &counter(n), &0u64.to_le_bytes(), &bed.access()).unwrap();
    }
    let next = |old: &[u8]| (u64::from_le_bytes(old.try_into().unwrap()) + 1).to_le_bytes();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bed, tree) = (&bed, &tree);
            scope.spawn(move || {
                let (mut rng, mut out) = (SplitMix64::new(thread), Vec::new());
                for round in 0..rounds {
                    let (acc, counter) = (bed.access(), counter(rng.below(COUNTERS)));
                    let spot = tree.get_at(&counter, &acc, &mut out).unwrap();
                    if !put_at(bed, tree, &spot, &counter, &next(&out), &acc).unwrap() {
                        let add = &mut |old: Option<&[u8]>| Ok(Action::Put(next(old.unwrap()).to_vec()));
                        tree.modify(&counter, &acc, add).unwrap();
                    }
                    let n = rng.below(COUNTERS * 100);
                    if n.is_multiple_of(100) {
                        continue;
                    }
                    if round / 500 % 2 == 0 {
                        let new = rng.bytes(150);
                        let spot = tree.get_at(&key(n), &acc, &mut out).unwrap();
                        if !put_at(bed, tree, &spot, &key(n), &new, &acc).unwrap() {
                            put(tree, &key(n), &new, &acc).unwrap();
                        }
                    } else {
                        remove(tree, &key(n), &acc).unwrap();
                    }
                }
            });
        }
    });
    let acc = bed.access();
    let count = |n| u64::from_le_bytes(get(&tree, &counter(n), &acc).unwrap().try_into().unwrap());
    assert_eq!((0..COUNTERS).map(count).sum::<u64>(), THREADS * rounds);
    bed.verify_clean(&[&tree]);
}

#[test]
fn no_count_is_lost() {
    count_up(2_000, soak(4_000));
}

#[test]
fn no_count_is_lost_in_a_pool_that_evicts_all_the_time() {
    count_up(96, soak(2_000));
}
