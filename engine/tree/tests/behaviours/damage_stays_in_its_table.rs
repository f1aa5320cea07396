//! One page with a right checksum and a wrong content: a change that meets it fails with an error
//! that names a page, and has changed nothing. It does not poison the database, so all other tables
//! stay usable.

use holdfast_base::page::{OFF_LEVEL, OFF_TYPE, PageType};
use holdfast_base::{Error, PageNo, Result};
use holdfast_testkit::SplitMix64;
use holdfast_tree::{Tree, overflow};
use holdfast_wal::SpaceClass;

use crate::common::*;

const SLOTS: usize = 80;

/// A store with a tree of `rows` rows, every tenth key.
fn filled(rows: u32) -> (Bed, Tree) {
    let bed = Bed::new(Setup::default());
    let tree = bed.new_tree();
    for n in 0..rows {
        put(&tree, &(n * 10).to_be_bytes(), &[3; 100], &bed.access()).unwrap();
    }
    (bed, tree)
}

/// Changes the bytes of a page without the log, as a memory error before the checksum is computed
/// would.
fn spoil(bed: &Bed, no: PageNo, change: impl FnOnce(&mut [u8])) {
    let acc = bed.access();
    change(bed.store.pool().fix_exclusive(bed.space.space(), no, &acc).unwrap().bytes_mut());
}

fn page(bed: &Bed, no: PageNo) -> Vec<u8> {
    bed.store.pool().fix_shared(bed.space.space(), no, &bed.access()).unwrap().to_vec()
}

/// The pages of the space, by number, whose bytes suit `wanted`.
fn pages(bed: &Bed, wanted: impl Fn(&[u8]) -> bool) -> Vec<PageNo> {
    let all = 0..bed.space.info(&bed.access()).unwrap().pages;
    let allocated = all.map(PageNo).filter(|&no| bed.space.is_allocated(no, &bed.access()).unwrap());
    allocated.filter(|&no| wanted(&page(bed, no))).collect()
}

fn nodes(bed: &Bed, level: u8) -> Vec<PageNo> {
    pages(bed, |bytes| bytes[OFF_TYPE] == PageType::Tree as u8 && bytes[OFF_LEVEL] == level)
}

fn swap_slots(bytes: &mut [u8], a: usize, b: usize) {
    (0..8).for_each(|i| bytes.swap(SLOTS + 8 * a + i, SLOTS + 8 * b + i));
}

fn clear_bit(bed: &Bed, no: PageNo) {
    spoil(bed, PageNo(1), |bytes| bytes[SLOTS + no.0 as usize / 8] &= !(1 << (no.0 % 8)));
}

fn assert_damage<T: std::fmt::Debug>(bed: &Bed, result: Result<T>) {
    assert!(matches!(result, Err(Error::DamagedPage { .. })), "{result:?}");
    bed.store.wal().check_poisoned().unwrap();
}

/// Puts until something fails, and at most `n` rows.
fn fill_until_error(bed: &Bed, tree: &Tree, n: u32) -> Result<()> {
    (0..n).try_for_each(|n| put(tree, &n.to_be_bytes(), &[4; 100], &bed.access()).map(drop))
}

#[test]
fn a_split_of_a_leaf_with_keys_out_of_order_is_refused() {
    let (bed, tree) = filled(200);
    let leaf = nodes(&bed, 0)[1];
    spoil(&bed, leaf, |bytes| swap_slots(bytes, 20, 21));
    let before = page(&bed, leaf);
    assert_damage(&bed, fill_until_error(&bed, &tree, 2000));
    assert_eq!(page(&bed, leaf).len(), before.len());
    assert!(bed.verify(&[&tree]).iter().all(|f| f.page.no == leaf), "only the damaged page is reported");
}

#[test]
fn a_root_with_keys_out_of_order_is_not_pushed_down() {
    let (bed, tree) = filled(20);
    assert_eq!(nodes(&bed, 0), [tree.root()]);
    spoil(&bed, tree.root(), |bytes| swap_slots(bytes, 2, 3));
    assert_damage(&bed, fill_until_error(&bed, &tree, 2000));
    assert_eq!(nodes(&bed, 0), [tree.root()]);
}

#[test]
fn a_page_that_is_not_marked_as_allocated_is_not_moved() {
    let (bed, tree) = filled(4000);
    for n in 0..2000u32 {
        remove(&tree, &(n * 10).to_be_bytes(), &bed.access()).unwrap();
    }
    let last = *nodes(&bed, 0).last().unwrap();
    clear_bit(&bed, last);
    assert_damage(&bed, tree.relocate_page(last, &bed.access()));
    assert_eq!(walk(&tree, Default::default(), &bed.access()).len(), 2000);
}

#[test]
fn a_page_in_hand_is_not_allocated_again() {
    let (bed, tree) = filled(200);
    for leaf in nodes(&bed, 0) {
        clear_bit(&bed, leaf);
    }
    // Whichever leaf is split first finds its own page, which is near.
    let result = fill_until_error(&bed, &tree, 2000);
    assert!(matches!(&result, Err(Error::DamagedPage { what, .. }) if what.contains("not allocated")), "{result:?}");
    assert_damage(&bed, result);
}

#[test]
fn a_chain_that_comes_to_a_page_twice_is_not_freed() {
    let (bed, _) = filled(10);
    let acc = bed.access();
    let chain = overflow::write_chain(&bed.space, INDEX, &[7; 3 * 4016], PageNo(2), &acc).unwrap();
    let next = u32::from_le_bytes(page(&bed, chain.first)[64..68].try_into().unwrap());
    spoil(&bed, PageNo(next), |bytes| bytes[64..68].copy_from_slice(&chain.first.0.to_le_bytes()));
    let before = bed.space.info(&acc).unwrap();
    assert_damage(&bed, overflow::release_chain(&bed.space, INDEX, chain, &acc, SpaceClass::User));
    assert_eq!(bed.space.info(&acc).unwrap(), before);
}

#[test]
fn a_bitmap_that_is_none_stops_its_table_alone() {
    let (bed, tree) = filled(200);
    for (no, page_type) in [(PageNo(1), PageType::Tree), (PageNo(0), PageType::Overflow)] {
        let before = page(&bed, no);
        spoil(&bed, no, |bytes| bytes[OFF_TYPE] = page_type as u8);
        assert_damage(&bed, fill_until_error(&bed, &tree, 2000));
        assert_damage(&bed, overflow::write_chain(&bed.space, INDEX, &[7; 12_000], PageNo(2), &bed.access()));
        assert_damage(&bed, bed.space.free_pages(&nodes(&bed, 0)[..2], SpaceClass::User, &bed.access()));
        spoil(&bed, no, |bytes| bytes.copy_from_slice(&before));
    }
    bed.verify_clean(&[&tree]);
}

#[test]
fn a_page_count_that_is_too_small_cuts_nothing_off() {
    let (bed, tree) = filled(4000);
    let (len, pages) = (bed.space.space().file().len().unwrap(), bed.space.info(&bed.access()).unwrap().pages);
    for wrong in [0, 1, 9, pages / 2] {
        spoil(&bed, PageNo(0), |bytes| bytes[108..112].copy_from_slice(&wrong.to_le_bytes()));
        assert_damage(&bed, fill_until_error(&bed, &tree, 40_000));
        assert_eq!(bed.space.space().file().len().unwrap(), len);
    }
    spoil(&bed, PageNo(0), |bytes| bytes[108..112].copy_from_slice(&pages.to_le_bytes()));
    assert_eq!(bed.verify(&[&tree]), []);
}

/// Any page, any field: every later operation ends with a result or with damage of this table.
#[test]
fn no_damage_poisons_the_database() {
    for seed in 0..soak(60) {
        let mut rng = SplitMix64::new(seed);
        let (bed, tree) = filled(1200);
        let acc = bed.access();
        let long: Vec<_> = (1..6)
            .map(|n| overflow::write_chain(&bed.space, INDEX, &vec![1; n * 5000], PageNo(2), &acc).unwrap())
            .collect();
        let count = pages(&bed, |_| true).len() as u64;
        let no = pages(&bed, |_| true)[rng.below(count) as usize];
        spoil(&bed, no, |bytes| damage(bytes, &mut rng));
        for step in 0..600 {
            let key = (rng.below(13_000) as u32).to_be_bytes();
            let result = match rng.below(8) {
                0..4 => put(&tree, &key, &vec![5; rng.below(600) as usize], &acc).map(drop),
                4..6 => (0..30).try_for_each(|n| {
                    let key = u32::from_be_bytes(key) / 10 * 10 + n * 10;
                    remove(&tree, &key.to_be_bytes(), &acc).map(drop)
                }),
                6 => tree.relocate_page(PageNo(rng.below(300) as u32), &acc).map(drop),
                _ => overflow::write_chain(&bed.space, INDEX, &[2; 9000], PageNo(2), &acc).map(drop),
            };
            assert!(matches!(result, Ok(()) | Err(Error::DamagedPage { .. })), "seed {seed}, {step}: {result:?}");
            bed.store.wal().check_poisoned().unwrap_or_else(|e| panic!("seed {seed}, {step}: {e}"));
        }
        for chain in long {
            let _ = overflow::release_chain(&bed.space, INDEX, chain, &acc, SpaceClass::User);
        }
        let _ = bed.verify(&[&tree]);
        bed.store.wal().check_poisoned().unwrap();
    }
}

/// Gives one or two fields another value: of the common header, of the body's header, of a slot, or
/// any bytes.
fn damage(bytes: &mut [u8], rng: &mut SplitMix64) {
    for _ in 0..1 + rng.below(2) {
        let slots = u64::from(u16::from_le_bytes([bytes[64], bytes[65]])).clamp(1, 400);
        let at = match rng.below(6) {
            0 => [OFF_TYPE, OFF_LEVEL, 24][rng.below(3) as usize],
            1 => 64 + 2 * rng.below(8) as usize,
            2 => return swap_slots(bytes, rng.below(slots) as usize, rng.below(slots) as usize),
            3 | 4 => SLOTS + 2 * rng.below(4 * slots) as usize,
            _ => 64 + rng.below(bytes.len() as u64 - 66) as usize,
        };
        match rng.below(3) {
            0 => bytes[at] = rng.next_u64() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            _ => bytes[at..at + 2].copy_from_slice(&(rng.next_u64() as u16).to_le_bytes()),
        }
    }
}

#[test]
fn a_key_is_not_put_into_a_leaf_with_another_prefix() {
    let bed = Bed::new(Setup::default());
    let (tree, acc) = (bed.new_tree(), bed.access());
    let key = |n: u32| format!("prefix-{n:05}").into_bytes();
    for n in 0..200 {
        put(&tree, &key(n * 10), &[3; 100], &acc).unwrap();
    }
    for leaf in nodes(&bed, 0) {
        // The prefix lies at the end of the page.
        spoil(&bed, leaf, |bytes| *bytes.last_mut().unwrap() ^= 1);
    }
    let entries = |no| page(&bed, no)[64..66].to_vec();
    let before: Vec<_> = nodes(&bed, 0).into_iter().map(entries).collect();
    // The outermost leaves have no prefix.
    (50..150).for_each(|n| assert_damage(&bed, put(&tree, &key(n * 10 + 1), &[4; 20], &acc)));
    assert_eq!(nodes(&bed, 0).into_iter().map(entries).collect::<Vec<_>>(), before);
}
