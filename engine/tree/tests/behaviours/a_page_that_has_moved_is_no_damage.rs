//! A reader has read the number of a leaf, and a compaction moves the leaf and cuts off the end of
//! the file before the reader comes to load it. The reader got the error of a damaged page, and the
//! advice to restore the table from a backup.

use std::sync::{Arc, Mutex};

use holdfast_base::PageNo;
use holdfast_pool::AccessKind;
use holdfast_testkit::HookedDisk;
use holdfast_tree::Tree;

use crate::common::*;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Moves all nodes to the front of the file and cuts it.
fn compact(bed: &Bed, tree: &Tree) {
    let acc = bed.store.pool().access(AccessKind::Maintenance);
    let moves = |last: PageNo| tree.relocate_page(last, &acc).unwrap().is_some_and(|to| to < last);
    while moves(bed.space.last_allocated(&acc).unwrap()) {}
    let (pages, shrunk) = bed.space.shrink(&acc).unwrap();
    assert!(pages > 300, "{pages} pages are given up");
    assert!(bed.space.truncate_file(shrunk, bed.checkpoint(), &acc).unwrap());
}

#[test]
fn of_which_a_reader_has_the_number() {
    let (disk, rows) = (HookedDisk::default(), 5_000);
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let tree = bed.new_tree();
    let root = tree.root();
    let acc = bed.access();
    for n in 0..rows {
        put(&tree, &key(n), &[7; 1_000], &acc).unwrap();
    }
    for n in 0..rows - 500 {
        remove(&tree, &key(n), &acc).unwrap();
    }
    drop((acc, tree));
    // Nothing is in the pool, and it knows nothing of the end of the file.
    let bed = Arc::new(bed.reopen());
    let tree = Arc::new(bed.tree(root));
    let acc = bed.access();
    assert!(get(&tree, &key(rows - 500), &acc).is_some());
    let (at, others) = (Arc::clone(&bed), Arc::clone(&tree));
    let moving = Arc::new(Mutex::new(Some(move || compact(&at, &others))));
    let next = Arc::clone(&moving);
    disk.on_len(move |_| {
        let moves = next.lock().unwrap().take();
        if let Some(compact) = moves {
            compact();
        }
    });
    assert_eq!(get(&tree, &key(rows - 1), &acc), Some(vec![7; 1_000]));
    assert!(moving.lock().unwrap().is_none(), "the leaf was asked for");
    assert_eq!(bed.space.space().damaged().map(ToString::to_string), None);
    bed.verify_clean(&[&tree]);
}
