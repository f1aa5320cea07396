//! A link of a dead chain is damaged, with a right checksum, and leads to pages of the chain of
//! another row. The parts of a long chain were freed before its end was looked at: those pages were
//! given back under the other row. And a chain that ends as its reference says was believed to be
//! that chain.

use std::sync::Arc;

use holdfast_base::codec::{get_u32, put_u32};
use holdfast_base::page::{HEADER_LEN, OFF_TYPE, PageType, seal};
use holdfast_io::{FileKind, MemoryDisk, OpenOptions};
use holdfast_metrics::Counter;

use crate::common::{Db, Setup};

const PAGE: usize = 4096;
const LONG: usize = 1 << 20;
const SHORT: usize = 10 * PAGE;
const OFF_NEXT: usize = HEADER_LEN;
const OFF_DATA: usize = HEADER_LEN + 16;

/// A row with a large value, all of whose bytes are the same.
type Row = (u8, usize);

/// A database with these rows, where the link of page `from` of the first byte's chain leads to
/// page `to` of that of the second byte.
fn misled(rows: &[Row], [from, to]: [(u8, usize); 2]) -> Db {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(MemoryDisk::new()), setup).unwrap();
    for &(byte, len) in rows {
        db.commit(|txn| txn.insert(&db.rows, &[byte], &vec![byte; len]).unwrap());
    }
    while db.purge() > 0 {}
    let (disk, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let file = disk.open("t16.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let read = |no: u32| {
        let mut page = vec![0; PAGE];
        file.read_at(u64::from(no) * PAGE as u64, &mut page).unwrap();
        page
    };
    let next = |no: u32| get_u32(&read(no), OFF_NEXT).unwrap();
    let page_of = |(byte, nth): (u8, usize)| {
        let is_of = |page: &[u8]| page[OFF_TYPE] == PageType::Overflow as u8 && page[OFF_DATA] == byte;
        let pages: Vec<u32> = (1..(file.len().unwrap() / PAGE as u64) as u32).filter(|&no| is_of(&read(no))).collect();
        let first = *pages.iter().find(|&&no| pages.iter().all(|&other| next(other) != no)).unwrap();
        (0..nth).fold(first, |no, _| next(no))
    };
    let (at, leads_to) = (page_of(from), page_of(to));
    let mut page = read(at);
    put_u32(&mut page, OFF_NEXT, leads_to);
    seal(&mut page);
    file.write_at(u64::from(at) * PAGE as u64, &page).unwrap();
    Db::open(disk, setup).unwrap()
}

/// The first row's value is replaced: the second one's keeps its pages, purge comes to an end, and
/// the pages that nothing leads to are a leak.
fn assert_only_lost(rows: &[Row], link: [(u8, usize); 2]) {
    let db = misled(rows, link);
    db.commit(|txn| assert!(txn.update(&db.rows, b"a", b"new", None).unwrap()));
    while db.purge() > 0 {}
    assert!(db.sys.keeps_nothing_old().unwrap());
    // What was given back is used again.
    db.commit(|txn| txn.insert(&db.rows, b"c", &vec![b'c'; 2 * LONG]).unwrap());
    let (mut value, len) = (Vec::new(), rows.iter().find(|row| row.0 == b'b').unwrap().1);
    assert!(db.begin().get(&db.rows, b"b", &mut value).unwrap() && value == vec![b'b'; len]);
    db.verify_undamaged();
    assert!(!db.verify().is_empty(), "the pages of the first row's value are lost");
    assert_eq!(db.store.metrics().get(Counter::OverflowLost), 1);
    assert!(db.sys.background_error().is_some_and(|error| error.is_damage()));
}

#[test]
fn into_a_chain_of_another_length() {
    assert_only_lost(&[(b'b', 2 * LONG), (b'a', LONG)], [(b'a', 5), (b'b', 3)]);
}

#[test]
fn behind_the_parts_that_are_freed_first() {
    assert_only_lost(&[(b'b', 2 * LONG), (b'a', LONG)], [(b'a', 100), (b'b', 3)]);
}

/// It ends as the reference says.
#[test]
fn into_a_younger_chain_of_the_same_length() {
    assert_only_lost(&[(b'a', LONG), (b'b', LONG)], [(b'a', 5), (b'b', 6)]);
    assert_only_lost(&[(b'a', SHORT), (b'b', SHORT)], [(b'a', 5), (b'b', 6)]);
}
