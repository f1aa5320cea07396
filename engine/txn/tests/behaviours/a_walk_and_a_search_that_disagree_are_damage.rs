//! The check of a unique index walks over the entries of an index key; the lock of the entry that
//! refuses an insert is found by a search for its key. On a damaged leaf with a right checksum the
//! walk found the entry and the search did not, and the insert began again for ever: no transaction
//! was waited for, so KILL and the lock timeout did not end it.

use std::sync::mpsc;
use std::time::Duration;

use holdfast_base::page::{PageHeader, PageType, seal};
use holdfast_base::{Error, PageId, PageNo};
use holdfast_io::{FileKind, OpenOptions};
use holdfast_txn::{FlushAtCommit, LockMode};

use crate::common::*;

/// A hang is told from a slow machine by this.
const PATIENCE: Duration = Duration::from_secs(120);
const PAGE: usize = 4096;
/// The lowest byte of the first slot's head: the first bytes of its key, as a number.
const HEAD: usize = 84;

/// A database with one entry in its unique index, whose slot says that its key is a greater one;
/// and the number of the leaf.
fn database() -> (Db, PageNo) {
    let db = Db::new();
    db.commit(|txn| txn.insert_unique(&db.secondary, b"ab9", 2, b"\x02").unwrap());
    while db.purge() > 0 {}
    let index = db.secondary.id();
    let (disk, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let file = disk.open("t16.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; PAGE];
    let is_leaf = |page: &[u8]| {
        PageHeader::decode(page).is_some_and(|h| h.page_type == PageType::Tree && h.index == index && h.level == 0)
    };
    let found = (2..file.len().unwrap() / PAGE as u64).find(|no| {
        file.read_at(no * PAGE as u64, &mut page).unwrap();
        is_leaf(&page)
    });
    let no = found.unwrap();
    page[HEAD] += 1;
    seal(&mut page);
    file.write_at(no * PAGE as u64, &page).unwrap();
    (Db::open(disk, setup).unwrap(), PageNo(u32::try_from(no).unwrap()))
}

#[test]
fn a_refused_insert_does_not_look_for_ever() {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let (db, no) = database();
        let mut txn = db.begin();
        let refused = txn.insert_or_lock(&db.secondary, b"ab3", Some(2), b"\x02", LockMode::Shared);
        assert!(is(refused, |e| matches!(e, Error::DamagedPage { page, .. } if *page == PageId::new(TABLE, no))));
        txn.insert_or_lock(&db.secondary, b"cd3", Some(2), b"\x02", LockMode::Shared).unwrap();
        txn.commit(FlushAtCommit::Lazy).unwrap();
        let _ = done.send(());
    });
    match ended.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it looks again for ever"),
        _ => thread.join().unwrap(),
    }
}
