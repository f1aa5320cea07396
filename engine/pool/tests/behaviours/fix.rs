//! Fixing pages in the three ways: what is made is read back, in the pool and after it left it.

use holdfast_base::{Error, PageNo};
use holdfast_metrics::Counter;
use holdfast_pool::{AccessKind, PageRead};

use crate::common::{self, Bed, read_optimistic, value};

#[test]
fn pages_come_back_after_they_were_evicted() {
    let bed = Bed::new(32);
    bed.create_many(100);
    let acc = bed.access();
    for no in (0..100).chain((0..100).rev()) {
        assert_eq!(bed.read(no).unwrap(), u64::from(no));
        assert_eq!(read_optimistic(&bed.pool, &bed.space, no, &acc).unwrap(), u64::from(no));
    }
    drop(acc);
    assert!(bed.metrics.get(Counter::PagesEvictedClean) >= 100);
    let stats = bed.pool.stats();
    assert_eq!((stats.frames, stats.dirty), (32, 0));
    assert!(stats.resident <= 32);
}

#[test]
#[cfg_attr(miri, ignore = "optimistic guards hold the shared latch there")]
fn an_optimistic_read_fails_validation_only_after_a_change() {
    let bed = Bed::new(32);
    bed.create(3, 5).unwrap();
    let acc = bed.access();
    let guard = bed.pool.fix_optimistic(&bed.space, PageNo(3), &acc).unwrap();
    assert_eq!(bed.read(3).unwrap(), 5);
    assert!(guard.validate(), "reading changes nothing");
    drop(bed.pool.fix_exclusive(&bed.space, PageNo(3), &acc).unwrap());
    assert!(guard.validate(), "an exclusive holder that changed nothing does not disturb");
    let stamp = guard.stamp();
    bed.update(3, 6).unwrap();
    assert!(!guard.validate());
    assert!(!bed.pool.is_current(stamp));
    assert!(guard.upgrade().is_err());
}

#[test]
fn an_optimistic_read_fails_validation_after_the_page_left_its_frame() {
    let bed = Bed::new(32);
    bed.create_many(64);
    let acc = bed.access();
    bed.read(0).unwrap();
    let stamp = bed.pool.fix_optimistic(&bed.space, PageNo(0), &acc).unwrap().stamp();
    for _ in 0..3 {
        (1..64).for_each(|no| assert!(bed.read(no).is_ok()));
    }
    assert!(!bed.pool.is_current(stamp));
}

#[test]
fn guards_upgrade_and_downgrade() {
    let bed = Bed::new(32);
    bed.create(1, 10).unwrap();
    let acc = bed.access();
    let optimistic = bed.pool.fix_optimistic(&bed.space, PageNo(1), &acc).unwrap();
    assert_eq!(optimistic.page().u8(12), Some(3));
    let mut exclusive = optimistic.upgrade().unwrap();
    assert!(cfg!(miri) || bed.pool.fix_optimistic(&bed.space, PageNo(1), &acc).is_none());
    common::change(&bed.pool, &mut exclusive, 11).unwrap();
    let shared = exclusive.downgrade();
    assert_eq!(value(&shared), 11);
    let optimistic = bed.pool.fix_optimistic(&bed.space, PageNo(1), &acc).unwrap();
    let second = optimistic.to_shared().unwrap();
    assert_eq!(second.stamp(), shared.stamp());
}

#[test]
fn a_page_that_was_made_and_given_up_is_not_there() {
    let bed = Bed::new(32);
    let acc = bed.access();
    drop(bed.pool.fix_new(&bed.space, PageNo(5), &acc).unwrap());
    assert!(!bed.pool.is_resident(&bed.space, PageNo(5)));
    assert!(bed.read(5).unwrap_err().is_damage());
}

#[test]
fn a_page_past_the_end_is_damage_and_not_a_panic() {
    let bed = Bed::new(32);
    bed.create_many(4);
    let err = bed.read(1_000_000).unwrap_err();
    assert!(matches!(&err, Error::DamagedPage { what, .. } if what.contains("past the end")), "{err}");
    assert!(bed.space.damaged().is_some());
    assert_eq!(bed.read(2).unwrap(), 2, "the others are not affected");
    let free = bed.pool.stats().free;
    (0..50).for_each(|i| assert!(bed.read(2_000_000 + i).is_err()));
    assert_eq!(bed.pool.stats().free, free, "no frame is lost");
}

#[test]
fn a_blank_page_is_for_those_who_expect_it() {
    let bed = Bed::new(32);
    bed.create_many(4);
    bed.space.file().set_len(64 * common::PAGE as u64).unwrap();
    let acc = bed.access();
    assert!(bed.pool.load(&bed.space, PageNo(20), &acc).unwrap_err().to_string().contains("never written"));
    let acc = acc.expecting_blank(true);
    assert!(bed.pool.fix_shared(&bed.space, PageNo(20), &acc).unwrap().iter().all(|&b| b == 0));
    let past_the_end = bed.pool.fix_shared(&bed.space, PageNo(500), &acc).unwrap_err();
    assert!(past_the_end.to_string().contains("past the end"), "{past_the_end}");
    let recovery = bed.pool.access(AccessKind::Recovery);
    let page = bed.pool.fix_exclusive(&bed.space, PageNo(500), &recovery).unwrap();
    assert_eq!(page.lsn().0, 0, "past the end, for redo");
}

#[test]
fn what_an_access_counts_is_added_when_it_ends() {
    let bed = Bed::new(32);
    bed.create_many(80);
    let before = bed.metrics.get(Counter::BufferPoolReads);
    let stats = bed.space.stats();
    let acc = bed.access().with_stats(stats);
    for no in [0, 0, 0, 1] {
        drop(bed.pool.fix_shared(&bed.space, PageNo(no), &acc).unwrap());
    }
    assert_eq!((acc.requests(), acc.reads(), stats.requests()), (4, 2, 0));
    drop(acc);
    assert_eq!((stats.requests(), stats.reads()), (4, 2));
    assert_eq!(bed.metrics.get(Counter::BufferPoolReads) - before, 2);
}

/// A page that was zeroed and stayed dirty would be written as zeros with LSN 0, and redo would
/// find no page that its records fit.
#[test]
fn a_dirty_page_that_was_to_be_made_anew_and_is_given_up_is_what_it_was() {
    let bed = Bed::new(32);
    bed.create(5, 7).unwrap();
    let acc = bed.access();
    drop(bed.pool.fix_new(&bed.space, PageNo(5), &acc).unwrap());
    assert_eq!((bed.read(5).unwrap(), bed.pool.stats().dirty), (7, 1));
    let mut anew = bed.pool.fix_new(&bed.space, PageNo(5), &acc).unwrap();
    assert!(anew.bytes_mut()[24..].iter().all(|&b| b == 0), "but zeros to a thread that changes it");
}
