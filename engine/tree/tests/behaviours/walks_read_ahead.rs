//! A long walk has the pages ahead of it read in time. A short one reads no page that it does not
//! visit, and no walk reads behind its end.
//!
//! The story behind: rows are read in batches, each with a cursor of its own that enters the last
//! leaf of the batch before once more. Counted again each time, these leaves made a range of a
//! hundred rows look like a long walk, and pages that were not needed were read through the scan
//! ring, to be read once more when they were. Later, each of these cursors had a read-ahead window
//! of its own, so that a dump's window was filled up by the few leaves of a batch instead of by
//! half, and the inner nodes that a dump comes back to for every leaf went through the ring with
//! its leaves: on a spinning disk the dump was at 0.4 of its pace.

use std::ops::Bound;

use holdfast_base::PageNo;
use holdfast_metrics::{Counter, Timing};
use holdfast_tree::{Direction, Tree, Walk};

use crate::common::*;

/// A tree of about 600 leaves, none of them in the pool, and its number of entries.
fn cold_tree() -> (Bed, PageNo, u32) {
    cold_tree_in(2048)
}

fn cold_tree_in(frames: usize) -> (Bed, PageNo, u32) {
    let bed = Bed::new(Setup { frames, ..Setup::default() });
    let tree = bed.new_tree();
    let n = 20_000;
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    (0..n).for_each(|i| loader.push(&key(i), &[7; 100]).unwrap());
    loader.finish().unwrap();
    drop(acc);
    let root = tree.root();
    (bed.reopen(), root, n)
}

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn pages_read(bed: &Bed) -> u64 {
    bed.store.metrics().get(Counter::PagesRead)
}

/// The rows of a walk.
#[derive(Clone, Copy)]
struct Range<'e> {
    direction: Direction,
    from: u32,
    rows: u32,
    /// The last key, if the walk is to know it.
    end: Option<&'e [u8]>,
}

impl Range<'_> {
    fn new(direction: Direction, from: u32, rows: u32) -> Range<'static> {
        Range { direction, from, rows, end: None }
    }
}

/// Walks over a range in batches of `batch`, as rows are read. Returns the number
/// of leaves that it counted.
fn walk(bed: &Bed, tree: &Tree, Range { direction, from, rows, end }: Range<'_>, batch: u32) -> u64 {
    let (mut so_far, mut left) = (Walk::default(), rows);
    let mut last: Option<[u8; 4]> = None;
    while left > 0 {
        let acc = bed.access();
        let mut cursor = tree.cursor(&acc);
        let from_key = key(from);
        match &last {
            None => cursor.seek(Bound::Included(&from_key), direction),
            Some(last) => cursor.seek(Bound::Excluded(last), direction),
        }
        cursor.continues(so_far, end);
        for _ in 0..batch.min(left) {
            let (key, _) = cursor.next().unwrap().expect("there are rows left");
            last = Some(<[u8; 4]>::try_from(key).unwrap());
        }
        left -= batch.min(left);
        so_far = cursor.walk();
    }
    so_far.leaves
}

#[test]
fn leaves_are_counted_once_however_small_the_batches_are() {
    let (bed, root, n) = cold_tree();
    let tree = bed.tree(root);
    let at_once = walk(&bed, &tree, Range::new(Direction::Forward, 0, n), n);
    assert!(at_once > 500, "{at_once}");
    assert_eq!(walk(&bed, &tree, Range::new(Direction::Forward, 0, n), 7), at_once);
    assert_eq!(walk(&bed, &tree, Range::new(Direction::Reverse, n - 1, n), 7), at_once);
}

#[test]
fn a_short_walk_reads_only_what_it_visits() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let (bed, root, n) = cold_tree();
        let tree = bed.tree(root);
        walk(&bed, &tree, Range::new(direction, n / 2, 1), 1);
        let before = pages_read(&bed);
        let leaves = walk(&bed, &tree, Range::new(direction, n / 2, 60), 3);
        assert!((2..=3).contains(&leaves), "{leaves}");
        assert_eq!(pages_read(&bed) - before, leaves - 1, "the first leaf was there");
    }
}

#[test]
fn a_long_walk_reads_nothing_behind_its_end() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let (bed, root, n) = cold_tree();
        let tree = bed.tree(root);
        let (rows, from) = (1000, n / 2);
        let end = if direction == Direction::Forward { key(from + rows - 1) } else { key(from - rows + 1) };
        walk(&bed, &tree, Range::new(direction, from, 1), 1);
        let before = pages_read(&bed);
        let leaves = walk(&bed, &tree, Range { end: Some(&end), ..Range::new(direction, from, rows) }, 50);
        assert!(leaves > 20, "{leaves}");
        let read = pages_read(&bed) - before;
        // A parent or two may be crossed.
        assert!((leaves - 1..=leaves + 1).contains(&read), "{read} pages for {leaves} leaves");
        let unbounded = walk(&bed, &tree, Range::new(direction, from, rows), 50);
        assert_eq!(unbounded, leaves);
        assert!(pages_read(&bed) - before > leaves + 4, "without an end the walk reads on ahead");
    }
}

/// As [`walk`] over up to `rows` rows from the end, as a declared scan that goes through the ring.
fn scan(bed: &Bed, tree: &Tree, direction: Direction, batch: u32, rows: u32) -> u64 {
    let (mut walk, mut plan, mut last) = (Walk::default(), None, None::<Vec<u8>>);
    for _ in 0..rows.div_ceil(batch) {
        let acc = bed.access().with_statement(7).with_scan_plan(plan);
        if plan.is_none() {
            acc.begin_scan(600);
            plan = acc.scan_plan();
            assert!(acc.is_ring_scan());
        }
        let mut cursor = tree.cursor(&acc);
        match &last {
            None => cursor.seek(Bound::Unbounded, direction),
            Some(last) => cursor.seek(Bound::Excluded(last.as_slice()), direction),
        }
        cursor.continues(walk, None);
        for _ in 0..batch {
            let Some((key, _)) = cursor.next().unwrap() else { return cursor.walk().leaves };
            last = Some(key.to_vec());
        }
        walk = cursor.walk();
    }
    walk.leaves
}

#[test]
fn a_scan_reads_each_page_once_and_many_at_a_time() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let (bed, root, _) = cold_tree_in(1024);
        let tree = bed.tree(root);
        let before = bed.store.metrics().snapshot();
        let leaves = scan(&bed, &tree, direction, 70, u32::MAX);
        let did = bed.store.metrics().snapshot().delta(&before);
        let inner = tree.stats(&bed.access()).unwrap().pages() - leaves;
        assert!(inner > 2, "the scan crosses parents");
        assert_eq!(did.get(Counter::PagesRead), leaves + inner);
        let reads = did.timing(Timing::PageRead).count();
        assert!(reads < leaves / 20, "{reads} reads for {leaves} leaves");
    }
}

/// In a small pool that is full most pages that were read ahead were evicted before the scan came
/// to them, and read once more.
#[test]
fn a_scan_reads_no_farther_ahead_than_the_pool_has_room_for() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let (bed, root, n) = cold_tree_in(256);
        let tree = bed.tree(root);
        let others = match direction {
            Direction::Forward => n / 2..n,
            Direction::Reverse => 0..n / 2,
        };
        others.step_by(10).for_each(|i| assert!(get(&tree, &key(i), &bed.access()).is_some()));
        let before = bed.store.metrics().snapshot();
        let leaves = scan(&bed, &tree, direction, 70, n / 2 - 1000);
        let did = bed.store.metrics().snapshot().delta(&before);
        assert_eq!(did.get(Counter::ReadAheadEvicted), 0);
        let (read, ahead) = (did.get(Counter::PagesRead), did.get(Counter::ReadAhead));
        assert!(ahead > leaves / 2 && read < leaves + 40, "{ahead} ahead, {read} in all for {leaves} leaves");
    }
}
