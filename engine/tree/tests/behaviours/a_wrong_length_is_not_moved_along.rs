//! A record whose length was damaged takes a byte of its neighbour. Code that moves records -
//! compaction, splits, a rebuild - finds that the node does not add up and leaves it alone:
//! otherwise the new node would be sound, and the wrong value would stay in it.

use holdfast_base::IndexId;
use holdfast_base::codec::{get_u16, put_u16};
use holdfast_base::page::{OFF_INDEX, OFF_TYPE, PageType};
use holdfast_tree::node::{EntryList, NodeMut, NodeRef, OFF_SLOTS, SLOT_LEN};

/// A leaf of eight entries, with one byte more or less in the length of the payload of entry 3.
fn damaged(by: i16) -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[OFF_TYPE] = PageType::Tree as u8;
    page[OFF_INDEX] = 5;
    let mut entries = EntryList::new();
    (0..8u8).for_each(|n| entries.push(&[b'k', n], &[n; 400]));
    NodeMut::assume(&mut page).set_content(b"", entries.count(), entries.bytes());
    let record = usize::from(get_u16(&page, OFF_SLOTS + 3 * SLOT_LEN).unwrap());
    let len = get_u16(&page, record).unwrap();
    put_u16(&mut page, record, len.checked_add_signed(by).unwrap());
    page
}

#[test]
fn neither_by_a_split_nor_by_a_compaction() {
    for (by, moves) in [(0, true), (1, false), (-1, false)] {
        let page = damaged(by);
        let node = NodeRef::new(page.as_slice(), IndexId(5)).unwrap();
        assert_eq!(node.check().is_ok(), moves);
        assert_eq!(EntryList::new().push_from(node, 4, 8, b"", None).is_some(), moves, "{by}");
        assert_eq!(node.can_rebuild(0, 4, 0), moves, "{by}");
        // Into the place that there is an entry still goes.
        assert!(node.can_insert(8, 2, 100, false));
    }
}
