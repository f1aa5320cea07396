//! Space: pages freed by merges are used again, files grow in steps and shrink again, a full disk
//! changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_base::{Error, IndexId, PageNo, SpaceId, page};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_pool::AccessKind;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultKind, FaultOp, HookedDisk, SplitMix64};
use holdfast_tree::{HEADS, SpaceFile, Tree};
use holdfast_wal::SpaceClass;

use crate::common::*;

#[test]
fn deleted_rows_give_their_pages_back() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    let used = |bed: &Bed| {
        let info = bed.space.info(&bed.access()).unwrap();
        (info.pages, info.pages - info.free_pages)
    };
    let fill = |from: u32| {
        for n in from..from + 8000 {
            put(&tree, &(n.wrapping_mul(2_654_435_761)).to_be_bytes(), &[3; 100], &acc).unwrap();
        }
    };
    fill(0);
    let (pages, full) = used(&bed);
    assert!(full > 200, "{full}");
    for round in 0..3u32 {
        for n in round * 8000..(round + 1) * 8000 {
            remove(&tree, &(n.wrapping_mul(2_654_435_761)).to_be_bytes(), &acc).unwrap();
        }
        let (_, left) = used(&bed);
        assert!(left <= 4, "{left} pages in use for nothing");
        fill((round + 1) * 8000);
        assert!(used(&bed).0 <= pages + pages / 8, "the file grows although there is room");
    }
    bed.verify_clean(&[&tree]);
}

/// A leaf that had no neighbour under its parent got one when the parent was merged, and stayed.
#[test]
fn so_do_those_of_a_high_tree() {
    let key = |n: usize| {
        let len = if (n / 30).is_multiple_of(3) { 1000 } else { 5 };
        [&(n / 8).to_be_bytes()[6..], &vec![7; len], &[n as u8]].concat()
    };
    for seed in 0..20 {
        let bed = Bed::new(Setup::default());
        let tree = bed.new_tree();
        let acc = bed.access();
        let mut rng = SplitMix64::new(seed);
        let mut numbers: Vec<usize> = (0..1000).collect();
        numbers.sort_by_cached_key(|_| rng.next_u64());
        for n in numbers {
            put(&tree, &key(n), &[3; 10], &acc).unwrap();
        }
        for n in 0..1000 {
            remove(&tree, &key(n), &acc).unwrap();
        }
        let info = bed.space.info(&acc).unwrap();
        let left = info.pages - info.free_pages;
        assert!(left <= 4, "seed {seed}: {left} pages in use for nothing");
        bed.verify_clean(&[&tree]);
    }
}

/// An emptied leaf that did not fit into its neighbour stayed when that neighbour was emptied, too,
/// and merged with the one on its other side.
#[test]
fn so_do_those_between_leaves_that_are_merged() {
    // A leaf in the middle of a group has a long prefix. A merge with others would put it into each
    // key.
    let key = |group: u16, n: u8| [&group.to_be_bytes()[..], &[7; 820], &[n]].concat();
    for seed in 0..20 {
        let bed = Bed::new(Setup::default());
        let tree = bed.new_tree();
        let acc = bed.access();
        let mut rng = SplitMix64::new(seed);
        let mut all: Vec<(u16, u8)> = (0..20).flat_map(|group| (0..16).map(move |n| (group, n))).collect();
        all.sort_by_cached_key(|_| rng.next_u64());
        for &(group, n) in &all {
            put(&tree, &key(group, n), &[3; 700], &acc).unwrap();
        }
        all.sort_by_cached_key(|(group, _)| (group % 2, rng.next_u64()));
        for (group, n) in all {
            remove(&tree, &key(group, n), &acc).unwrap();
        }
        let info = bed.space.info(&acc).unwrap();
        let left = info.pages - info.free_pages;
        assert!(left <= 3, "seed {seed}: {left} pages in use for nothing");
        bed.verify_clean(&[&tree]);
    }
}

#[test]
fn the_file_is_cut_off_after_a_checkpoint() {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    let acc = bed.access();
    for n in 0..4000u32 {
        put(&tree, &n.to_be_bytes(), &[3; 200], &acc).unwrap();
    }
    // Every other region goes; what stays is spread over the file.
    for n in (0..4000u32).filter(|n| n / 40 % 4 != 0) {
        remove(&tree, &n.to_be_bytes(), &acc).unwrap();
    }
    let before = bed.space.info(&acc).unwrap();
    for no in (2..before.pages).rev() {
        if bed.space.is_allocated(PageNo(no), &acc).unwrap() && tree.relocate_page(PageNo(no), &acc).unwrap().is_none()
        {
            break;
        }
    }
    bed.verify_clean(&[&tree]);
    let (gone, at) = bed.space.shrink(&acc).unwrap();
    assert!(gone > before.pages / 3, "{gone} of {}", before.pages);
    assert!(!bed.space.truncate_file(at, bed.store.wal().checkpoint_lsn(), &acc).unwrap());
    let checkpoint = bed.checkpoint();
    assert!(bed.space.truncate_file(at, checkpoint, &acc).unwrap());
    let len = bed.space.space().file().len().unwrap();
    assert_eq!(len, u64::from(before.pages - gone) * 4096);
    bed.verify_clean(&[&tree]);
    let root = tree.root();
    drop((acc, tree));
    let bed = bed.reopen();
    let tree = bed.tree(root);
    assert_eq!(walk(&tree, Default::default(), &bed.access()).len(), 1000);
    for n in 0..4000u32 {
        put(&tree, &n.to_be_bytes(), &[3; 200], &bed.access()).unwrap();
    }
    bed.verify_clean(&[&tree]);
}

/// A power cut after the cut may have brought back some sectors of the pages.
#[test]
fn what_was_cut_off_does_not_come_back() {
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let tree = bed.new_tree();
    let acc = bed.access();
    for n in 0..4000u32 {
        put(&tree, &n.to_be_bytes(), &[3; 200], &acc).unwrap();
    }
    for n in 100..4000u32 {
        remove(&tree, &n.to_be_bytes(), &acc).unwrap();
    }
    let (gone, at) = bed.space.shrink(&acc).unwrap();
    assert!(gone > 64, "{gone}");
    assert!(bed.space.truncate_file(at, bed.checkpoint(), &acc).unwrap());
    let len = bed.space.space().file().len().unwrap();
    for seed in 0..20 {
        let file = disk.reboot(seed).open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
        assert_eq!(file.len().unwrap(), len, "power cut {seed}");
    }
}

/// A crash while the file is cut leaves parts of its pages, with the file as long as it was. New
/// pages that were not written before the next crash are not among them.
#[test]
fn a_file_does_not_grow_into_parts_of_pages() {
    for cut in 0..3 {
        for seed in 0..8 {
            let disk = CrashDisk::new();
            let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
            let tree = bed.new_tree();
            let acc = bed.access();
            for n in 0..2000u32 {
                put(&tree, &n.to_be_bytes(), &[3; 200], &acc).unwrap();
            }
            for n in 100..2000u32 {
                remove(&tree, &n.to_be_bytes(), &acc).unwrap();
            }
            let (gone, at) = bed.space.shrink(&acc).unwrap();
            assert!(gone > 64, "{gone}");
            let checkpoint = bed.checkpoint();
            disk.crash_after(cut);
            let _ = bed.space.truncate_file(at, checkpoint, &acc);
            let left = disk.reboot(seed);
            let bed = Bed::open(Arc::new(left), Setup::default()).unwrap();
            let before = bed.space.info(&bed.access()).unwrap().pages;
            let pages = take_pages(&bed, 100);
            assert!(pages.iter().any(|no| no.0 >= before), "the file has grown");
            for no in pages {
                let acc = bed.store.pool().access(AccessKind::Maintenance);
                let read = bed.store.pool().fix_shared(bed.space.space(), no, &acc).map(|page| page.id().no);
                assert!(read.is_ok(), "crash after {cut} operations, power cut {seed}: {read:?}");
            }
        }
    }
}

/// Each open reads it, until a compaction cuts it off: one page at a time, that took minutes.
#[test]
fn what_lies_behind_the_end_is_read_in_large_pieces() {
    let disk = HookedDisk::default();
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let (acc, file) = (bed.access(), bed.space.space().file());
    let end = u64::from(bed.space.header(&acc).unwrap().pages);
    file.set_len((end + 200) * 4096).unwrap();
    // The first page of a piece, and the last one.
    let parts = [0, 63, 64, 199].map(|no| (end + no) * 4096);
    for at in parts {
        file.write_at(at, &[3; 512]).unwrap();
    }
    let reads = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&reads);
    disk.on_read(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    bed.space.wipe_tail(&acc).unwrap();
    assert!(reads.load(Ordering::Relaxed) <= 4, "{reads:?} reads of 200 pages");
    for at in parts {
        let mut bytes = [1; 4096];
        file.read_at(at, &mut bytes).unwrap();
        assert!(page::is_blank(&bytes), "at {at}");
    }
}

/// Allocates pages, and does not write them.
fn take_pages(bed: &Bed, count: usize) -> Vec<PageNo> {
    let acc = bed.access();
    let mut pages = Vec::new();
    while pages.len() < count {
        let ticket = bed.store.reserve(4096, SpaceClass::User).unwrap();
        let _frames = bed.space.reserve_alloc(PageNo(2), 0, &acc).unwrap();
        let mut mtr = bed.store.begin(ticket, &acc);
        pages.extend(bed.space.alloc_pages(&mut mtr, PageNo(2), 10).unwrap());
        mtr.commit().unwrap();
    }
    pages
}

#[test]
fn a_full_disk_is_an_error_of_the_statement_and_nothing_else() {
    let disk = Arc::new(FaultDisk::new(Arc::new(MemoryDisk::new())));
    let bed = Bed::create(disk.clone(), Setup { frames: 2000, ..Setup::default() }).unwrap();
    let tree = bed.new_tree();
    let acc = bed.access();
    disk.schedule(Fault::nth(FaultOp::SetLen, 3).kind(FaultKind::Enospc).on(FILE).sticky());
    let mut model = Model::new();
    let mut full = false;
    for n in 0..5000u32 {
        match put(&tree, &n.to_be_bytes(), &[1; 200], &acc) {
            Ok(_) => {
                model.insert(n.to_be_bytes().to_vec(), vec![1; 200]);
            }
            Err(Error::DiskFull(_)) => {
                full = true;
                break;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(full);
    assert_equals(&tree, &model, &acc);
    bed.verify_clean(&[&tree]);
    disk.clear();
    for n in 0..5000u32 {
        put(&tree, &n.to_be_bytes(), &[1; 200], &acc).unwrap();
    }
    bed.verify_clean(&[&tree]);
}

#[test]
fn two_indexes_of_one_space_do_not_meet() {
    let bed = Bed::new(Setup::default());
    let first = bed.new_tree();
    let other = IndexId(6);
    let second = Tree::open(&bed.space, other, Tree::create(&bed.space, other, &bed.access()).unwrap());
    for n in 0..3000u32 {
        put(&first, &n.to_be_bytes(), &[1; 50], &bed.access()).unwrap();
        put(&second, &(n * 7 % 3001).to_be_bytes(), &[2; 90], &bed.access()).unwrap();
    }
    bed.verify_clean(&[&first, &second]);
    let findings = bed.verify(&[&first]);
    assert!(findings.len() > 50 && findings.iter().all(|f| f.what.contains("nothing leads to it")));
}

#[test]
fn files_that_do_not_belong_here_are_refused() {
    let bed = Bed::new(Setup::default());
    bed.checkpoint();
    let (store, disk) = (&bed.store, bed.disk.as_ref());
    let message = |id: u32, name: &str, uuid| {
        SpaceFile::open(store, disk, SpaceId(id), name, uuid, false).unwrap_err().to_string()
    };
    assert!(message(16, FILE, [8; 16]).contains("another database"));
    assert!(message(17, FILE, UUID).contains("it is space 16"));
    let junk = disk.open("junk", OpenOptions::new(FileKind::Data).create(holdfast_io::Create::New)).unwrap();
    assert!(message(18, "junk", UUID).contains("not a Holdfast database"));
    junk.write_at(0, &[5; 8192]).unwrap();
    assert!(message(18, "junk", UUID).contains("not a Holdfast database"));
    let mut page = [0; 4096];
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    file.read_at(0, &mut page).unwrap();
    page[104] = 0x80;
    junk.write_at(0, &page).unwrap();
    assert!(message(16, "junk", UUID).contains("checksum"));
    page::seal(&mut page);
    junk.write_at(0, &page).unwrap();
    assert!(message(16, "junk", UUID).contains("newer version"));
}

#[test]
fn a_feature_is_named_from_when_it_is_required() {
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let named = |bed: &Bed| bed.space.header(&bed.access()).unwrap().features.incompatible;
    assert_eq!(named(&bed), 0);
    bed.space.require(HEADS, &bed.access()).unwrap();
    let end = bed.store.wal().next_lsn();
    bed.space.require(HEADS, &bed.access()).unwrap();
    assert_eq!((named(&bed), bed.store.wal().next_lsn()), (HEADS, end), "only the first call writes");
    bed.store.wal().flush_to(end).unwrap();
    let bed = Bed::open(Arc::new(disk.reboot(1)), Setup::default()).unwrap();
    assert_eq!(named(&bed), HEADS);
    bed.space.require(HEADS, &bed.access()).unwrap();
    bed.checkpoint();
    let bed = bed.reopen();
    let end = bed.store.wal().next_lsn();
    bed.space.require(HEADS, &bed.access()).unwrap();
    assert_eq!(bed.store.wal().next_lsn(), end, "the file says so already");
}

#[test]
fn marks_survive_a_crash() {
    let disk = CrashDisk::new();
    let bed = Bed::create(Arc::new(disk.clone()), Setup::default()).unwrap();
    let end = bed.space.set_mark(3, 4711, &bed.access()).unwrap();
    bed.store.wal().flush_to(end).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(disk.reboot(1));
    let bed = Bed::open(disk, Setup::default()).unwrap();
    assert_eq!(bed.space.mark(3, &bed.access()).unwrap(), 4711);
}
