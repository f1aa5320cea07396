//! A check has copied a leaf and follows the chains of its rows. Meanwhile a row goes, purge frees
//! its chain, and a compaction cuts the pages off. The check comes to a page that is not in the
//! file, or that the file has got again as zeros: that disabled the table.

use holdfast_base::PageNo;
use holdfast_tree::PageSet;
use holdfast_tree::overflow::{OverflowRef, read_chain, release_chain, write_chain};
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Frees the chain and cuts off what it leaves free at the end of the file.
fn cut_off(bed: &Bed, chain: OverflowRef) {
    let acc = bed.access();
    release_chain(&bed.space, INDEX, chain, &acc, SpaceClass::User).unwrap();
    let (pages, shrunk) = bed.space.shrink(&acc).unwrap();
    assert!(pages > 300, "{pages} pages are given up");
    let checkpoint = bed.checkpoint();
    assert!(bed.space.truncate_file(shrunk, checkpoint, &acc).unwrap());
}

#[test]
fn of_a_chain_that_a_check_follows() {
    // A chain of more pages than the cache has.
    let bed = Bed::new(Setup { frames: 64, ..Setup::default() });
    let (tree, acc) = (bed.new_tree(), bed.access());
    let chain = write_chain(&bed.space, INDEX, &vec![1; 400 * 4_000], PageNo(0), &acc).unwrap();
    put(&tree, b"key", b"payload", &acc).unwrap();
    let len = bed.space.space().file().len().unwrap();
    let mut found = Vec::new();
    let mut find = |_: &[u8], _: &[u8]| {
        cut_off(&bed, chain);
        Some(chain)
    };
    tree.verify(&acc, &mut PageSet::new(), &mut find, &mut |finding| found.push(finding.what)).unwrap();
    assert!(matches!(&found[..], [what] if what.contains("past the end")), "{found:?}");
    assert_eq!(bed.space.space().damaged().map(ToString::to_string), None);

    bed.space.space().file().set_len(len).unwrap();
    let read = read_chain(&bed.space, INDEX, chain, &acc, &mut Vec::new()).unwrap_err();
    assert!(read.to_string().contains("never written"), "{read}");
    assert_eq!(bed.space.space().damaged().map(ToString::to_string), None);
    bed.verify_clean(&[&tree]);
}

#[test]
fn a_page_that_never_was_in_the_file_is() {
    let bed = Bed::new(Setup::default());
    let chain = OverflowRef { first: PageNo(5_000), len: 100 };
    read_chain(&bed.space, INDEX, chain, &bed.access(), &mut Vec::new()).unwrap_err();
    assert!(bed.space.space().damaged().is_some());
}
