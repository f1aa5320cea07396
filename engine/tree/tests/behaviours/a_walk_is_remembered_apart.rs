//! The leaves of a walk that no caller has declared a scan are remembered apart from other pages
//! when they are evicted, whichever way the walk goes: pages that were read once before it are
//! known when they come back.
//!
//! The story behind: only ascending pages were taken for a walk. The leaves of one from the end of
//! a table took the places of all other pages in the ghost.

use std::ops::Bound;

use holdfast_base::PageNo;
use holdfast_tree::{Direction, Tree};

use crate::common::*;

/// Rows of the tree: about 36 in a leaf.
const ROWS: u32 = 80_000;
/// A walk over the first rows: three pools long, and far from the others.
const WALKED: u32 = 32_000;
/// Every so often one of the other rows is read: no two of their leaves are near each other.
const OTHERS: (u32, usize) = (40_000, 2_000);

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// The tree, with none of its pages in the pool.
fn cold_tree() -> (Bed, PageNo) {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let mut loader = tree.bulk_loader(&acc).unwrap();
    (0..ROWS).for_each(|i| loader.push(&key(i), &[7; 100]).unwrap());
    loader.finish().unwrap();
    drop(acc);
    let root = tree.root();
    (bed.reopen(), root)
}

/// Reads a row of each of the other leaves; how many there are.
fn read_others(bed: &Bed, tree: &Tree) -> u64 {
    let (from, step) = OTHERS;
    let read = (from..ROWS).step_by(step).filter(|&i| get(tree, &key(i), &bed.access()).is_some());
    read.count() as u64
}

/// How many of the other leaves are known when they come back after a walk.
fn remembered_after_a_walk(direction: Direction, from: u32) -> u64 {
    let (bed, root) = cold_tree();
    let tree = bed.tree(root);
    assert_eq!(read_others(&bed, &tree), 20);
    let acc = bed.access();
    let mut cursor = tree.cursor(&acc);
    cursor.seek(Bound::Included(&key(from)), direction);
    (0..WALKED).for_each(|_| assert!(cursor.next().unwrap().is_some()));
    assert!(cursor.walk().leaves > 700);
    let ghost_hits = || bed.store.pool().stats().policy.ghost_hits;
    let before = ghost_hits();
    read_others(&bed, &tree);
    ghost_hits() - before
}

#[test]
fn a_walk_forward_makes_no_other_page_forgotten() {
    assert!(remembered_after_a_walk(Direction::Forward, 0) >= 20);
}

#[test]
fn a_walk_backward_makes_no_other_page_forgotten() {
    assert!(remembered_after_a_walk(Direction::Reverse, WALKED - 1) >= 20);
}
