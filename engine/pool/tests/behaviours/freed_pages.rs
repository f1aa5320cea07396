//! A page that was given back is written as a free page, once; then its frame is free for others,
//! and no page has to be evicted.

use holdfast_base::PageNo;
use holdfast_base::page::{OFF_TYPE, PageType};

use crate::common::{self, Bed};

fn free(bed: &Bed, no: u32) {
    let acc = bed.access();
    let mut guard = bed.pool.fix_exclusive(&bed.space, PageNo(no), &acc).unwrap();
    common::change(&bed.pool, &mut guard, 0).unwrap();
    guard.bytes_mut()[OFF_TYPE] = PageType::Free as u8;
}

#[test]
fn the_frame_of_a_freed_page_is_free_once_it_is_written() {
    let bed = Bed::new(64);
    bed.create_many(40);
    let before = bed.pool.stats();
    (10..30).for_each(|no| free(&bed, no));
    assert_eq!(bed.pool.stats().free, before.free, "they are dirty");
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().free, before.free + 20);
    assert!(!bed.pool.is_resident(&bed.space, PageNo(10)));
    assert!(bed.pool.is_resident(&bed.space, PageNo(9)));
}

#[test]
fn one_that_was_used_again_meanwhile_stays() {
    let bed = Bed::new(64);
    bed.create_many(40);
    let before = bed.pool.stats();
    (10..30).for_each(|no| free(&bed, no));
    for no in 10..20 {
        bed.create(no, 1_000 + u64::from(no)).unwrap();
    }
    bed.pool.flush_all().unwrap();
    assert_eq!(bed.pool.stats().free, before.free + 10);
    for no in 10..20 {
        assert!(bed.pool.is_resident(&bed.space, PageNo(no)));
        assert_eq!(bed.read(no).unwrap(), 1_000 + u64::from(no));
    }
}

#[test]
fn one_that_somebody_looks_at_is_left_alone() {
    let bed = Bed::new(64);
    bed.create_many(40);
    free(&bed, 10);
    let acc = bed.access();
    let guard = bed.pool.fix_shared(&bed.space, PageNo(10), &acc).unwrap();
    std::thread::scope(|scope| scope.spawn(|| bed.pool.flush_all().unwrap()).join()).unwrap();
    assert!(bed.pool.is_resident(&bed.space, PageNo(10)));
    assert_eq!(guard[OFF_TYPE], PageType::Free as u8);
}
