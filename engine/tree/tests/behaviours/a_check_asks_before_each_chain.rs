//! A check that was to end followed all chains of a leaf first, which may be gigabytes. It asks
//! before each of them whether to go on.

use std::cell::Cell;

use holdfast_base::{Error, PageNo};
use holdfast_tree::PageSet;
use holdfast_tree::overflow::write_chain;

use crate::common::*;

#[test]
fn a_check_ends_between_two_chains_of_a_leaf() {
    let bed = Bed::new(Setup::default());
    let (tree, acc) = (bed.new_tree(), bed.access());
    let mut chains = Vec::new();
    for n in 0..3u8 {
        chains.push(write_chain(&bed.space, INDEX, &[n; 9_000], PageNo(0), &acc).unwrap());
        put(&tree, &[n], b"payload", &acc).unwrap();
    }
    let mut rest = chains.iter().copied();
    let mut find = |_: &[u8], _: &[u8]| rest.next();
    let asked = Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        // Of the leaf, of the first chain, and of the second one.
        if asked.get() < 3 { Ok(()) } else { Err(Error::Interrupted) }
    };
    let (mut reached, mut found) = (PageSet::new(), Vec::new());
    let ended = tree.verify_while(&acc, &mut reached, &mut find, &mut |finding| found.push(finding), &go_on);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(found.is_empty(), "{found:?}");
    let followed: Vec<bool> = chains.iter().map(|chain| reached.contains(chain.first)).collect();
    assert_eq!(followed, [true, false, false]);
}
