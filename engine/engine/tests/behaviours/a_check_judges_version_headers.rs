//! A row's version header named a writer that there never was, on a page with the right checksum. A
//! check called the database sound, and whatever read or changed the row did so for ever.

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, Error, VerifyOptions};
use holdfast_base::page;

use crate::common::{self, ROWS};

const PAGE: usize = 4096;
/// Bytes of a version header behind its flags: writer and roll pointer.
const WRITER_AND_ROLL: usize = 16;

/// A database whose row 700 was written by transaction `writer`, which says so itself.
fn database(writer: u64) -> (MemoryDisk, Database) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 1_000);
    let name = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    db.close().unwrap();
    let disk = common::copy(&disk);
    let _ = disk.remove("doublewrite");
    let file = disk.open(&name, OpenOptions::new(FileKind::Data)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    let value = common::value(700);
    let at = bytes.windows(value.len()).position(|window| window == value.as_bytes()).expect("the row is there");
    let at = at - WRITER_AND_ROLL;
    bytes[at..at + 8].copy_from_slice(&writer.to_le_bytes());
    for sheet in bytes.chunks_exact_mut(PAGE) {
        if sheet.iter().any(|byte| *byte != 0) {
            page::seal(sheet);
        }
    }
    file.write_at(0, &bytes).unwrap();
    let db = common::open_on(&disk);
    (disk, db)
}

#[test]
fn reads_changes_and_a_check_say_what_is_wrong() {
    for writer in [u64::MAX, 1 << 40] {
        let (_disk, db) = database(writer);
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        let is_found = report.findings.iter().any(|f| f.table == "rows" && f.what.contains("no such transaction"));
        assert!(is_found, "{report:?}");
        let read = db.begin_read().unwrap();
        let rows = read.open_table(&ROWS).unwrap();
        assert!(matches!(rows.get(700), Err(Error::DamagedPage { .. })));
        assert_eq!(rows.get(701).unwrap().as_deref(), Some(common::value(701).as_str()));
        let changed = db.transact(|txn| txn.open_table(&ROWS)?.upsert(700, "new").map(drop));
        assert!(matches!(changed, Err(Error::DamagedPage { .. })), "{changed:?}");
        db.transact(|txn| txn.open_table(&ROWS)?.upsert(702, "new").map(drop)).unwrap();
    }
}
