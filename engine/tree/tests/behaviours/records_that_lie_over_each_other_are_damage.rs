//! A slot whose offset was damaged led into the payload of another record. Where the bytes there
//! were a record of its key, of as many bytes as its own, the check of the node found nothing: it
//! added up the lengths of the records, and did not ask where they lie.

use holdfast_base::IndexId;
use holdfast_base::codec::{get_u16, put_u16};
use holdfast_base::page::{OFF_INDEX, OFF_TYPE, PageType};
use holdfast_tree::node::{EntryList, NodeMut, NodeRef, OFF_SLOTS, SLOT_LEN};

/// A record of the key `b` with a payload of three bytes.
const RECORD: &[u8] = b"\x03\x00bxyz";

fn node(page: &[u8]) -> NodeRef<'_, [u8]> {
    NodeRef::new(page, IndexId(5)).unwrap()
}

#[test]
fn a_record_within_another_one() {
    let mut page = vec![0; 4096];
    page[OFF_TYPE] = PageType::Tree as u8;
    page[OFF_INDEX] = 5;
    let mut entries = EntryList::new();
    entries.push(b"a", RECORD);
    entries.push(b"b", b"own");
    NodeMut::assume(&mut page).set_content(b"", entries.count(), entries.bytes());
    node(&page).check().unwrap();
    let first = get_u16(&page, OFF_SLOTS).unwrap();
    // Behind the length of the payload, and the key.
    put_u16(&mut page, OFF_SLOTS + SLOT_LEN, first + 3);
    assert_eq!(node(&page).payload(1), Some(&b"xyz"[..]));
    let what = node(&page).check().unwrap_err();
    assert!(what.contains("slots 0 and 1 lie over each other"), "{what}");
}
