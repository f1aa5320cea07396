//! The length of a record was damaged on disk, on a page with the right checksum, and the log has a
//! longer payload for it. Redo wrote that into the record behind it, and what was in neither the
//! page nor the log came to be the value of a row. The page is passed over like one that its log
//! does not fit.

use std::sync::Arc;

use holdfast_base::Error;
use holdfast_base::codec::{get_u16, put_u16};
use holdfast_base::page::seal;
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_tree::node::{OFF_SLOTS, SLOT_LEN};

use crate::common::*;

const CHANGED: u32 = 7;

#[test]
fn the_page_is_damaged_for_good() {
    let (disk, setup): (Arc<dyn Disk>, _) = (Arc::new(MemoryDisk::new()), Setup::default());
    let bed = Bed::create(disk.clone(), setup).unwrap();
    let tree = bed.new_tree();
    let root = tree.root();
    (0..20u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[n as u8; 40], &bed.access()).is_ok()));
    bed.checkpoint();
    // Where the next record begins, it has the bytes of that record's header and key.
    let mut payload = [99; 60];
    payload[40..42].copy_from_slice(&40u16.to_le_bytes());
    payload[42..46].copy_from_slice(&(CHANGED - 1).to_be_bytes());
    put(&tree, &CHANGED.to_be_bytes(), &payload, &bed.access()).unwrap();
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    bed.store.pool().shutdown();
    drop((tree, bed));

    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; setup.page_size];
    let at = u64::from(root.0) * page.len() as u64;
    file.read_at(at, &mut page).unwrap();
    let record = usize::from(get_u16(&page, OFF_SLOTS + CHANGED as usize * SLOT_LEN).unwrap());
    put_u16(&mut page, record, 75);
    seal(&mut page);
    file.write_at(at, &page).unwrap();

    let bed = Bed::open_passing_over(disk, setup).unwrap();
    let tree = bed.tree(root);
    let mut out = Vec::new();
    let read = tree.get(&(CHANGED - 1).to_be_bytes(), &bed.access(), &mut out);
    assert!(matches!(&read, Err(Error::DamagedPage { page, .. }) if page.no == root), "{read:?} {out:?}");
    assert!(bed.verify(&[&tree]).iter().any(|finding| finding.page.no == root));
}
