//! A child number far beyond the end of the file, in an inner node with a right checksum:
//! verification reports it, and neither the set of pages that it keeps nor the pool's translation
//! grows by the numbers between.

use holdfast_base::PageNo;
use holdfast_pool::AccessKind;
use holdfast_tree::PageSet;

use crate::common::*;

#[test]
fn a_wild_child_number_takes_no_memory() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    for n in 0..5000u32 {
        put(&tree, &n.to_be_bytes(), &[3; 100], &bed.access()).unwrap();
    }
    let acc = bed.store.pool().access(AccessKind::Maintenance);
    let before = bed.store.pool().stats().translation_bytes;
    {
        let mut root = bed.store.pool().fix_exclusive(bed.space.space(), tree.root(), &acc).unwrap();
        let bytes = root.bytes_mut();
        let short = |bytes: &[u8], at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let slot = 80 + 3 * 8;
        let child = short(bytes, slot) + 2 + short(bytes, slot + 2);
        bytes[child..child + 4].copy_from_slice(&0xffff_fff0_u32.to_le_bytes());
    }
    let (mut reached, mut findings) = (PageSet::new(), Vec::new());
    tree.verify(&acc, &mut reached, &mut |_, _| None, &mut |f| findings.push(f)).unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].page.no, PageNo(0xffff_fff0));
    assert!(findings[0].what.contains("past the end"), "{findings:?}");
    assert!(!reached.contains(PageNo(0xffff_fff0)));
    assert!(reached.bytes() < 4096, "{} bytes", reached.bytes());
    assert_eq!(bed.store.pool().stats().translation_bytes, before);
}
