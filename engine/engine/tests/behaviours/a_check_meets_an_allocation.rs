//! A page that is free when a check reads it, and holds what no page is, is allocated before the
//! check asks whether it is: that is no damage.

use std::sync::Arc;

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, VerifyOptions};
use holdfast_base::page::PageHeader;

use crate::common::ROWS;

const PAGE: usize = 4096;
/// Rows of a table that is larger than what a check reads at a time.
const COUNT: u64 = 12_000;
const VALUE: &str = concat!(
    "a value of about two hundred bytes, so that the table has some hundred pages, of which the check reads ",
    "those at the end of the file after it has told how far it is with those at its beginning"
);

fn fill(db: &Database) {
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        (0..COUNT).try_for_each(|i| rows.upsert(i, VALUE).map(drop))
    })
    .unwrap();
}

/// Gives every page of the table's file behind the first 256 that is free bytes that are no page.
fn spoil_free_pages(disk: &MemoryDisk, name: &str) -> usize {
    let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
    let pages = file.len().unwrap() / PAGE as u64;
    let (mut page, mut spoilt) = (vec![0; PAGE], 0);
    for no in 256..pages {
        file.read_at(no * PAGE as u64, &mut page).unwrap();
        if PageHeader::decode(&page).is_none_or(|header| header.page_type == holdfast_base::page::PageType::Free) {
            file.write_at(no * PAGE as u64, &[7; PAGE]).unwrap();
            spoilt += 1;
        }
    }
    spoilt
}

#[test]
fn of_pages_that_hold_anything() {
    let disk = MemoryDisk::new();
    let settings = || Database::builder().cache_size_bytes(16 << 20).page_size(PAGE).disk(Arc::new(disk.clone()));
    let db = settings().create("test").unwrap();
    fill(&db);
    db.transact(|txn| {
        let rows = txn.open_table(&ROWS)?;
        (0..COUNT).try_for_each(|i| rows.delete(i).map(drop))
    })
    .unwrap();
    db.close().unwrap();
    let db = settings().open("test").unwrap();
    let file = db.list_tables().remove(0).file;
    let spoilt = spoil_free_pages(&disk, &file);
    assert!(spoilt > 200, "{spoilt} free pages");
    let (mut filled, mut all) = (false, 0);
    let report = db
        .verify(&VerifyOptions::new().table("rows"), &mut |progress| {
            all = progress.pages_total;
            if !std::mem::replace(&mut filled, true) {
                fill(&db);
            }
        })
        .unwrap();
    assert!(all > 512, "the check has read {all} pages in several pieces");
    assert!(report.is_clean(), "{report:?}");
}
