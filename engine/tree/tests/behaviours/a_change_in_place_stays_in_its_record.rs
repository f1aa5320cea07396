//! The length of a record was damaged, on a page with the right checksum: the record reached into
//! the one behind it. A change of the payload, to one as long as the length said, wrote into that
//! other record. And if the damaged record was the first one of the heap, its removal left the
//! beginning of the other one to the next insert.

use std::sync::Arc;

use holdfast_base::codec::{get_u16, put_u16};
use holdfast_base::page::{OFF_LEVEL, OFF_TYPE, PageType, seal};
use holdfast_base::{Error, PageNo};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_tree::Tree;
use holdfast_tree::node::{OFF_SLOTS, SLOT_LEN};

use crate::common::*;

const ROWS: u32 = 20;
/// Bytes of a payload.
const LEN: usize = 40;
const MORE: usize = 30;

fn payload(n: u32) -> Vec<u8> {
    vec![n as u8; LEN]
}

/// A tree of one leaf, read from a disk where the record of row `n` is longer than it was written.
fn damaged(n: u32) -> (Bed, Tree) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let bed = Bed::create(disk.clone(), Setup::default()).unwrap();
    let root = bed.new_tree().root();
    let tree = bed.tree(root);
    (0..ROWS).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &payload(n), &bed.access()).is_ok()));
    drop(tree);
    drop(bed.reopen());
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; Setup::default().page_size];
    let at = u64::from(root.0) * page.len() as u64;
    file.read_at(at, &mut page).unwrap();
    assert_eq!((page[OFF_TYPE], page[OFF_LEVEL]), (PageType::Tree as u8, 0));
    let record = usize::from(get_u16(&page, OFF_SLOTS + n as usize * SLOT_LEN).unwrap());
    assert_eq!(get_u16(&page, record), Some(LEN as u16));
    put_u16(&mut page, record, (LEN + MORE) as u16);
    seal(&mut page);
    file.write_at(at, &page).unwrap();
    let bed = Bed::open(disk, Setup::default()).unwrap();
    let tree = bed.tree(root);
    (bed, tree)
}

fn assert_refused(bed: &Bed, root: PageNo, result: holdfast_base::Result<Option<holdfast_base::Lsn>>) {
    assert!(matches!(&result, Err(Error::DamagedPage { page, .. }) if page.no == root), "{result:?}");
    bed.store.wal().check_poisoned().unwrap();
}

/// Changes the row with the damaged record, and others, and looks at these.
fn change(n: u32) {
    let (bed, tree) = damaged(n);
    let (acc, root) = (bed.access(), tree.root());
    let key = |n: u32| n.to_be_bytes();
    // Another payload of as many bytes is a patch.
    let mut patched = get(&tree, &key(n), &acc).unwrap();
    *patched.last_mut().unwrap() ^= 1;
    for payload in [vec![7; LEN + MORE / 2], patched] {
        assert_refused(&bed, root, put(&tree, &key(n), &payload, &acc));
    }
    assert_refused(&bed, root, remove(&tree, &key(n), &acc));
    // Those that lie apart are changed as ever.
    let others = || (0..ROWS).filter(|other| other.abs_diff(n) > 1);
    others().for_each(|other| assert!(put(&tree, &key(other), &payload(other + 100), &acc).is_ok()));
    (ROWS..ROWS + 5).for_each(|new| assert!(put(&tree, &key(new), &payload(new), &acc).is_ok()));
    others().for_each(|other| assert_eq!(get(&tree, &key(other), &acc), Some(payload(other + 100))));
    for near in (0..ROWS).filter(|near| near.abs_diff(n) == 1) {
        assert_eq!(get(&tree, &key(near), &acc), Some(payload(near)));
    }
    assert!(bed.verify(&[&tree]).iter().any(|finding| finding.page.no == root));
}

#[test]
fn of_a_record_among_others() {
    change(7);
}

#[test]
fn of_the_first_one_of_the_heap() {
    change(ROWS - 1);
}
