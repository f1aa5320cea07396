//! A page with a right checksum that its log records do not fit does not keep the database shut. It
//! is passed over, all other pages get their records, and it does not pass for a sound page that
//! lacks changes: it is damaged for every reader, also after the log is gone.

use std::sync::Arc;

use holdfast_base::page::{self, OFF_TYPE, PageType};
use holdfast_base::{Error, PageId, PageNo, Result};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_tree::Tree;

use crate::common::*;

const PAGE: usize = 4096;

fn setup() -> Setup {
    Setup { frames: 1000, ..Setup::default() }
}

fn change_on_disk(disk: &dyn Disk, wanted: impl Fn(&[u8]) -> bool, change: impl FnOnce(&mut [u8])) -> PageNo {
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; PAGE];
    let pages = file.len().unwrap() / PAGE as u64;
    let no = (0..pages).find(|no| {
        file.read_at(no * PAGE as u64, &mut bytes).unwrap();
        wanted(&bytes)
    });
    let no = no.expect("a page as wanted");
    change(&mut bytes);
    page::seal(&mut bytes);
    file.write_at(no * PAGE as u64, &bytes).unwrap();
    PageNo(no as u32)
}

fn is_leaf(bytes: &[u8]) -> bool {
    bytes[OFF_TYPE] == PageType::Tree as u8 && bytes[page::OFF_LEVEL] == 0
}

/// A disk as a crash leaves it, and the root of its tree: behind the checkpoint, 500 rows have
/// other payloads than before it.
fn crashed() -> (Arc<dyn Disk>, PageNo) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let bed = Bed::create(disk.clone(), setup()).unwrap();
    let tree = bed.new_tree();
    (0..500u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[3; 100], &bed.access()).is_ok()));
    bed.checkpoint();
    (0..500u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[4; 90], &bed.access()).is_ok()));
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    bed.store.pool().shutdown();
    (disk, tree.root())
}

/// The damaged page is reported, by a verification and to its readers; the rest has its log.
fn assert_lost(bed: &Bed, tree: &Tree, no: PageNo) {
    let findings = bed.verify(&[tree]);
    assert!(!findings.is_empty() && findings.iter().all(|f| f.page.no == no), "{findings:?}");
    let (mut out, mut lost) = (Vec::new(), 0);
    for n in 0..500u32 {
        match tree.get(&n.to_be_bytes(), &bed.access(), &mut out) {
            Ok(found) => assert_eq!((found, out.as_slice()), (true, &[4; 90][..])),
            Err(Error::DamagedPage { page, .. }) => {
                assert_eq!(page, PageId::new(SPACE, no));
                lost += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!((1..100).contains(&lost), "{lost}");
}

#[test]
fn a_leaf_that_is_none_is_damaged_for_good() {
    let (disk, root) = crashed();
    let no = change_on_disk(&*disk, is_leaf, |bytes| bytes[OFF_TYPE] = PageType::Overflow as u8);
    let bed = Bed::open_passing_over(disk, setup()).unwrap();
    assert_lost(&bed, &bed.tree(root), no);
    // The log is gone after that.
    let bed = bed.reopen();
    assert_lost(&bed, &bed.tree(root), no);
}

#[test]
fn a_leaf_without_its_entries_is_damaged_for_good() {
    let (disk, root) = crashed();
    let no = change_on_disk(&*disk, is_leaf, |bytes| bytes[64] = 2);
    let bed = Bed::open_passing_over(disk, setup()).unwrap();
    assert_lost(&bed, &bed.tree(root), no);
    let bed = bed.reopen();
    assert_lost(&bed, &bed.tree(root), no);
}

#[test]
fn a_page_that_the_log_initialises_again_is_whole() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let bed = Bed::create(disk.clone(), setup()).unwrap();
    let tree = bed.new_tree();
    (0..500u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[3; 100], &bed.access()).is_ok()));
    bed.checkpoint();
    for round in 0..3 {
        (0..500u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[round; 90], &bed.access()).is_ok()));
        (0..500u32).for_each(|n| assert!(remove(&tree, &n.to_be_bytes(), &bed.access()).is_ok()));
    }
    (0..500u32).for_each(|n| assert!(put(&tree, &n.to_be_bytes(), &[4; 90], &bed.access()).is_ok()));
    bed.store.wal().flush_to(bed.store.wal().next_lsn()).unwrap();
    bed.store.pool().shutdown();
    let root = tree.root();
    change_on_disk(&*disk, |bytes| is_leaf(bytes) && bytes[8..12] != root.0.to_le_bytes(), |bytes| bytes[64] = 2);
    let bed = Bed::open_passing_over(disk, setup()).unwrap();
    bed.verify_clean(&[&bed.tree(root)]);
}

#[test]
fn a_wild_page_count_does_not_ask_for_the_whole_disk() -> Result<()> {
    let (disk, root) = crashed();
    let is_header = |bytes: &[u8]| bytes[OFF_TYPE] == PageType::SpaceHeader as u8;
    change_on_disk(&*disk, is_header, |bytes| bytes[108..112].copy_from_slice(&0xfff0_0000_u32.to_le_bytes()));
    let bed = Bed::open_passing_over(disk, setup())?;
    assert!(bed.space.space().file().len()? < 4 << 20);
    assert!(bed.verify(&[&bed.tree(root)]).iter().any(|f| f.page.no == PageNo(0)));
    assert!(bed.verify(&[&bed.tree(root)]).len() < 10);
    Ok(())
}
