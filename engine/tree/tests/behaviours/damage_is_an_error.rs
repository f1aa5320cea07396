//! Pages with a right checksum and a nonsensical content: every operation ends with a result or
//! with an error that names the page. Nothing panics, no loop is endless, and verification finds
//! the page.

use std::ops::Bound;
use std::sync::Arc;

use holdfast_base::page::{self, HEADER_LEN};
use holdfast_base::{Error, PageNo};
use holdfast_io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast_pool::Access;
use holdfast_testkit::SplitMix64;
use holdfast_tree::{Batch, BatchLimit, Direction, Tree};

use crate::common::*;

const PAGE: usize = 4096;
const SETUP: Setup = Setup { page_size: PAGE, frames: 256, background: false, log_bytes: 16 << 20 };

/// A closed database with a tree of three levels, made once per test; returns the disk and the
/// tree's root.
fn database() -> (Arc<dyn Disk>, PageNo) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let bed = Bed::create(disk.clone(), SETUP).unwrap();
    let tree = bed.new_tree();
    for n in 0..8000u32 {
        let key = format!("{:05}{}", n * 7919 % 8000, "x".repeat(90));
        put(&tree, key.as_bytes(), &[4; 60], &bed.access()).unwrap();
    }
    assert_eq!(tree.stats(&bed.access()).unwrap().height, 3);
    let root = tree.root();
    drop(tree);
    drop(bed.reopen());
    (disk, root)
}

fn spoil(disk: &dyn Disk, no: u32, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let file = disk.open(FILE, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; PAGE];
    file.read_at(u64::from(no) * PAGE as u64, &mut bytes).unwrap();
    let before = bytes.clone();
    change(&mut bytes);
    page::seal(&mut bytes);
    file.write_at(u64::from(no) * PAGE as u64, &bytes).unwrap();
    before
}

fn accept<T>(result: Result<T, Error>, seed: u64) {
    if let Err(error) = result {
        assert!(matches!(error, Error::DamagedPage { .. }), "seed {seed}: {error}");
    }
}

/// Far more entries than the tree has, also if every inner node leads to the same leaf over and
/// over.
const ENTRIES_MAX: usize = 200_000;

fn walk_entries(tree: &Tree, direction: Direction, acc: &Access<'_>) -> Result<(), Error> {
    let mut cursor = tree.cursor(acc);
    cursor.seek(Bound::Unbounded, direction);
    let mut seen = 0;
    while cursor.next()?.is_some() {
        seen += 1;
        assert!(seen < ENTRIES_MAX, "the walk comes back to where it was");
    }
    Ok(())
}

/// As a scan reads: each batch by a cursor of its own, from behind the last key of the one before.
fn walk_batches(tree: &Tree, direction: Direction, entries: usize, acc: &Access<'_>) -> Result<(), Error> {
    let (mut batch, mut last, mut seen) = (Batch::default(), None::<Vec<u8>>, 0);
    loop {
        let mut cursor = tree.cursor(acc);
        cursor.seek(last.as_deref().map_or(Bound::Unbounded, Bound::Excluded), direction);
        batch.clear();
        let more = cursor.fill(&mut batch, BatchLimit { entries, bytes: 16 << 10 }, Bound::Unbounded)?;
        if !more {
            return Ok(());
        }
        seen += batch.len();
        assert!(seen < ENTRIES_MAX, "the walk comes back to where it was");
        last = batch.len().checked_sub(1).map(|at| batch.get(at).0.to_vec());
    }
}

fn use_everything(bed: &Bed, tree: &Tree, rng: &mut SplitMix64, seed: u64) {
    let acc = bed.access();
    let mut out = Vec::new();
    for _ in 0..150 {
        let key = format!("{:05}{}", rng.below(8200), "x".repeat(90));
        accept(tree.get(key.as_bytes(), &acc, &mut out), seed);
        match rng.below(3) {
            0 => accept(put(tree, key.as_bytes(), &vec![5; rng.below(300) as usize], &acc), seed),
            1 => accept(remove(tree, key.as_bytes(), &acc), seed),
            _ => accept(tree.estimate(Bound::Included(key.as_bytes()), Bound::Unbounded, &acc), seed),
        }
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        accept(walk_entries(tree, direction, &acc), seed);
        accept(walk_batches(tree, direction, 100, &acc), seed);
    }
    accept(tree.stats(&acc), seed);
}

#[test]
fn random_nonsense_in_nodes() {
    let (disk, root) = database();
    for seed in 0..soak(25) {
        let mut rng = SplitMix64::new(seed);
        let no = 2 + rng.below(400) as u32;
        let before = spoil(disk.as_ref(), no, |bytes| {
            for _ in 0..1 + rng.below(12) {
                // Headers and slots more often than records.
                let range = if rng.below(2) == 0 { 40 } else { (PAGE - HEADER_LEN) as u64 };
                let at = HEADER_LEN + rng.below(range) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
        });
        let copy: Arc<dyn Disk> = Arc::new(copy_of(disk.as_ref()));
        let bed = Bed::open(copy, SETUP).unwrap();
        let tree = bed.tree(root);
        use_everything(&bed, &tree, &mut rng, seed);
        let _ = bed.verify(&[&tree]);
        drop((tree, bed));
        spoil(disk.as_ref(), no, |bytes| bytes.copy_from_slice(&before));
    }
}

/// Two keys of a node have changed places. (A walk went back to the smaller one for ever.)
#[test]
fn walks_end_where_keys_are_not_in_order() {
    let (disk, root) = database();
    let mut errors = 0;
    for no in (2..400).step_by(13).chain([root.0]) {
        let before = spoil(disk.as_ref(), no, |bytes| {
            let count = usize::from(u16::from_le_bytes([bytes[64], bytes[65]]));
            if bytes[HEADER_LEN..].iter().any(|b| *b != 0) && (3..400).contains(&count) {
                let (first, last) = bytes.split_at_mut(80 + 8 * (count - 1));
                first[88..96].swap_with_slice(&mut last[..8]);
            }
        });
        let bed = Bed::open(Arc::new(copy_of(disk.as_ref())), SETUP).unwrap();
        let (tree, acc) = (bed.tree(root), bed.access());
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut results = vec![walk_entries(&tree, direction, &acc)];
            results.extend([1, 5, 7, 100].map(|entries| walk_batches(&tree, direction, entries, &acc)));
            for result in results {
                errors += u32::from(result.is_err());
                accept(result, u64::from(no));
            }
        }
        drop(acc);
        drop((tree, bed));
        spoil(disk.as_ref(), no, |bytes| bytes.copy_from_slice(&before));
    }
    assert!(errors > 0, "some walks find that out");
}

fn copy_of(disk: &dyn Disk) -> MemoryDisk {
    let copy = MemoryDisk::new();
    for name in disk.list().unwrap() {
        let from = disk.open(&name, OpenOptions::new(FileKind::Data)).unwrap();
        let options = OpenOptions::new(FileKind::Data).create(holdfast_io::Create::New);
        let to = copy.open(&name, options).unwrap();
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(0, &mut bytes).unwrap();
        to.write_at(0, &bytes).unwrap();
    }
    copy
}

#[test]
fn verification_finds_what_is_wrong() {
    let (disk, root) = database();
    let leaf = {
        let bed = Bed::open(disk.clone(), SETUP).unwrap();
        let mut no = bed.space.info(&bed.access()).unwrap().pages - 1;
        while !bed.space.is_allocated(PageNo(no), &bed.access()).unwrap() {
            no -= 1;
        }
        no
    };
    type Change = fn(&mut [u8]);
    let cases: [(&str, Change); 6] = [
        ("an inner node", |p| p[13] = 3),
        ("no node of it", |p| p[24] = 77),
        ("head", |p| p[80 + 4] ^= 1),
        ("add up", |p| p[72] += 1),
        ("more slots", |p| p[65] = 0xff),
        ("not greater", |p| {
            let (first, second): (Vec<u8>, Vec<u8>) = (p[80..88].to_vec(), p[88..96].to_vec());
            p[80..88].copy_from_slice(&second);
            p[88..96].copy_from_slice(&first);
        }),
    ];
    for (what, change) in cases {
        let before = spoil(disk.as_ref(), leaf, change);
        let bed = Bed::open(Arc::new(copy_of(disk.as_ref())), SETUP).unwrap();
        let findings = bed.verify(&[&bed.tree(root)]);
        assert!(findings.iter().any(|f| f.page.no == PageNo(leaf) && f.what.contains(what)), "{what}: {findings:?}");
        spoil(disk.as_ref(), leaf, |bytes| bytes.copy_from_slice(&before));
    }
    let bed = Bed::open(disk, SETUP).unwrap();
    bed.verify_clean(&[&bed.tree(root)]);
}
