//! The page count of a file with several bitmap pages is damaged, and ends where a bitmap begins.
//! The check asked the last bitmap alone, of those that the count still has, so a compaction cut
//! the pages behind it off, a backup left them out, and a growth made their bitmap anew.

use holdfast_base::{Error, PageNo};
use holdfast_tree::PageSet;
use holdfast_tree::op::PageOp;
use holdfast_tree::space::bitmap;
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Where the header has the page count.
const OFF_PAGES: u16 = 108;

/// More than one bitmap page covers.
const PAGES: usize = 33_000;

/// A file whose pages are all in use, and whose header counts those of the first bitmap only.
fn bed_with_damaged_count() -> (Bed, u32, Vec<PageNo>) {
    let bed = Bed::new(Setup::default());
    let acc = bed.access();
    let pages = bed.alloc_many(PAGES);
    let count = bitmap::pages_covered(bed.store.page_size());
    let ticket = bed.store.reserve(64, SpaceClass::User).unwrap();
    let mut mtr = bed.store.begin(ticket, &acc);
    let head = mtr.fix(bed.space.space(), PageNo(0)).unwrap();
    mtr.apply(head, &PageOp::WriteBytes { offset: OFF_PAGES, bytes: &count.to_le_bytes() }).unwrap();
    mtr.commit().unwrap();
    drop(acc);
    bed.checkpoint();
    (bed, count, pages)
}

fn is_damage<T: std::fmt::Debug>(result: holdfast_base::Result<T>) {
    assert!(matches!(&result, Err(Error::DamagedPage { .. })), "{result:?}");
}

#[test]
fn before_pages_are_cut_off_or_left_out() {
    let (bed, ..) = bed_with_damaged_count();
    is_damage(bed.space.check_end(&bed.access()));
    let bed = bed.reopen();
    is_damage(bed.space.check_end(&bed.access()));
}

#[test]
fn for_a_growth() {
    for reopens in [false, true] {
        let (mut bed, _, pages) = bed_with_damaged_count();
        if reopens {
            bed = bed.reopen();
        }
        let acc = bed.access();
        let _frames = bed.space.reserve_alloc(PageNo(0), 1, &acc).unwrap();
        let mut mtr = bed.store.begin(bed.store.reserve(1_024, SpaceClass::User).unwrap(), &acc);
        is_damage(bed.space.alloc_page(&mut mtr, PageNo(0)));
        drop(mtr);
        assert!(bed.space.is_marked(pages[pages.len() - 1], &acc).unwrap(), "the bitmap is as it was");
    }
}

#[test]
fn for_a_check() {
    let (bed, count, pages) = bed_with_damaged_count();
    let mut reached = PageSet::new();
    for &no in &pages {
        reached.insert(no);
    }
    let mut found = Vec::new();
    bed.space.verify(&reached, &bed.access(), &mut |finding| found.push(finding.to_string())).unwrap();
    assert!(found[0].contains("allocated beyond the end of the file"), "{found:?}");
    let behind = pages.iter().filter(|no| no.0 >= count).count();
    assert_eq!(found.iter().filter(|what| what.contains("in use, but beyond the end")).count(), behind);
}
