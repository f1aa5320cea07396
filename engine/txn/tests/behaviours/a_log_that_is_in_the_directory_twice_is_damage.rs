//! The directory of undo logs named a log twice, on a page with the right checksum. Two
//! transactions at a time took the page of the log, and one wrote over the records of the other.
//! The open is refused, and names the page.

use holdfast_base::page::{PageHeader, PageType, seal};
use holdfast_base::{Error, PageId, PageNo};
use holdfast_io::{FileKind, OpenOptions};

use crate::common::*;

/// Where a directory page has the number of its entries, and its first entry.
const COUNT: usize = 64;
const ENTRIES: usize = 72;

#[test]
fn the_open_is_refused() {
    let db = Db::new();
    db.put(&[("row", "committed")]);
    let (disk, setup) = db.close();
    let _ = disk.remove("doublewrite");
    let undo = disk.open("undo.hf", OpenOptions::new(FileKind::Data)).unwrap();
    let mut page = vec![0; 4096];
    let found = (2..undo.len().unwrap() / 4096).find(|no| {
        undo.read_at(no * 4096, &mut page).unwrap();
        PageHeader::decode(&page).is_some_and(|header| header.page_type == PageType::UndoDirectory)
    });
    let number = |page: &[u8], at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    let (count, first) = (number(&page, COUNT), number(&page, ENTRIES));
    assert!(count > 0);
    let behind = ENTRIES + 4 * count as usize;
    page[COUNT..COUNT + 4].copy_from_slice(&(count + 1).to_le_bytes());
    page[behind..behind + 4].copy_from_slice(&first.to_le_bytes());
    seal(&mut page);
    undo.write_at(found.unwrap() * 4096, &page).unwrap();
    let error = Db::open(disk, setup).err();
    let log = PageId::new(UNDO, PageNo(first));
    assert!(matches!(&error, Some(Error::DamagedPage { page, .. }) if *page == log), "{error:?}");
}
