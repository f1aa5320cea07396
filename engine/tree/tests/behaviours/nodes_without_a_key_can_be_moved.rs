//! An inner node with one child, and an empty leaf, have no key by which they could be found. They
//! can be moved to the front of the file all the same: otherwise a compaction would stop at them
//! for good.

use holdfast_base::PageNo;
use holdfast_tree::Tree;
use holdfast_tree::node::EntryList;
use holdfast_tree::op::PageOp;
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Makes the page a node with these entries.
fn node(bed: &Bed, no: PageNo, level: u8, entries: &[(&[u8], &[u8])]) {
    let (acc, mut list) = (bed.access(), EntryList::new());
    entries.iter().for_each(|(key, payload)| list.push(key, payload));
    let mut mtr = bed.store.begin(bed.store.reserve(4096, SpaceClass::User).unwrap(), &acc);
    let page = mtr.fix_new(bed.space.space(), no).unwrap();
    mtr.apply(page, &PageOp::InitNode { index: INDEX, level }).unwrap();
    mtr.apply(page, &list.as_content(&[])).unwrap();
    mtr.commit().unwrap();
}

#[test]
fn nodes_without_a_key_can_be_moved() {
    let bed = Bed::new(Setup::default());
    let tree: Tree = bed.new_tree();
    let acc = bed.access();
    let ticket = bed.store.reserve(4096, SpaceClass::User).unwrap();
    let frames = bed.space.reserve_alloc(PageNo(2), 0, &acc).unwrap();
    let mut mtr = bed.store.begin(ticket, &acc);
    let pages = bed.space.alloc_pages(&mut mtr, PageNo(2), 12).unwrap();
    mtr.commit().unwrap();
    drop(frames);
    // A root of level 3, and below it twice an inner node with one inner child with one child.
    let [left, right, a, b, empty, leaf] = *pages.last_chunk().unwrap();
    let child = |no: PageNo| no.0.to_le_bytes();
    node(&bed, empty, 0, &[]);
    node(&bed, leaf, 0, &[(b"m", b"row")]);
    node(&bed, a, 1, &[(b"", &child(empty))]);
    node(&bed, b, 1, &[(b"", &child(leaf))]);
    node(&bed, left, 2, &[(b"", &child(a))]);
    node(&bed, right, 2, &[(b"", &child(b))]);
    node(&bed, tree.root(), 3, &[(b"", &child(left)), (b"g", &child(right))]);
    bed.space.free_pages(&pages[..6], SpaceClass::User, &acc).unwrap();
    bed.verify_clean(&[&tree]);
    for no in [left, right, a, b, empty, leaf] {
        let new = tree.relocate_page(no, &acc).unwrap().expect("there are free pages before it");
        assert!(new < no);
        assert!(!bed.space.is_allocated(no, &acc).unwrap());
        bed.verify_clean(&[&tree]);
        assert_eq!(walk(&tree, Default::default(), &acc), [(b"m".to_vec(), b"row".to_vec())]);
    }
    assert_eq!(tree.relocate_page(leaf, &acc).unwrap(), None, "it is no node any more");
}
