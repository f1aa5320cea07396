//! A committed undo log whose page says that it is prepared was listed as a prepared transaction,
//! and its committed rows were hidden. The commit number says that it has committed: the open is
//! refused, and names the page.

use holdfast_base::page::{PageHeader, PageType, seal};
use holdfast_base::{Error, PageId, PageNo};
use holdfast_io::{FileKind, OpenOptions};

use crate::common::*;

const COMMITTED: u8 = 3;

/// Opens a database again after the state of its one committed log became `state`, on a page with
/// a right checksum.
fn reopen_with(state: u8) -> (Option<Error>, PageNo) {
    let db = Db::new();
    let held = db.snapshot();
    db.commit(|txn| txn.insert(&db.rows, b"row", b"committed").unwrap());
    drop(held);
    let (disk, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let undo = disk.open("undo.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; 4096];
    let is_committed = |page: &[u8]| {
        PageHeader::decode(page).is_some_and(|header| header.page_type == PageType::Undo) && page[77] == COMMITTED
    };
    let found = (2..undo.len().unwrap() / 4096).find(|no| {
        undo.read_at(no * 4096, &mut page).unwrap();
        is_committed(&page)
    });
    let no = found.unwrap();
    page[77] = state;
    seal(&mut page);
    undo.write_at(no * 4096, &page).unwrap();
    (Db::open(disk, setup).err(), PageNo(no as u32))
}

#[test]
fn a_committed_log_is_neither_prepared_nor_free() {
    for state in [0, 2] {
        let (error, no) = reopen_with(state);
        let page = PageId::new(UNDO, no);
        assert!(matches!(&error, Some(Error::DamagedPage { page: named, .. }) if *named == page), "{state}: {error:?}");
    }
    assert!(reopen_with(COMMITTED).0.is_none());
}
