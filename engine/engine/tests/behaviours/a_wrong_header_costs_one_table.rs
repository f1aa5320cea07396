//! A table's file whose header counts too few pages, or that a newer version wrote, disables its
//! table: nothing of it is overwritten, and the database opens, whatever the log has for the file.

use holdfast::io::{Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{BackupOptions, Database, Error, TableDefinition, VerifyOptions};
use holdfast_base::page;

use crate::common::{self, ROWS};

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

/// The files of a database that was killed, with the header of the file of `rows` changed; the
/// checksum is right.
fn killed(change: impl FnOnce(&mut [u8])) -> MemoryDisk {
    damaged(|header| {
        change(header);
        page::seal(header);
    })
}

/// The same, with whatever checksum `change` leaves.
fn damaged(change: impl FnOnce(&mut [u8])) -> MemoryDisk {
    let (disk, db) = common::on_memory_disk();
    db.transact(|txn| (0..100).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    common::fill(&db, 0, 1_000);
    db.checkpoint().unwrap();
    common::fill(&db, 1_000, 1_010);
    let file = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    let copy = common::copy(&disk);
    drop(db);
    copy.remove("doublewrite").unwrap();
    let file = copy.open(&file, OpenOptions::new(FileKind::Data)).unwrap();
    let mut header = vec![0; 4096];
    file.read_at(0, &mut header).unwrap();
    change(&mut header);
    file.write_at(0, &header).unwrap();
    copy
}

fn other_is_whole(db: &Database) {
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&OTHER).unwrap().iter().unwrap().count(), 100);
}

#[test]
fn too_few_pages() {
    for pages in [0u32, 1, 7] {
        let disk = killed(|header| header[108..112].copy_from_slice(&pages.to_le_bytes()));
        let db = common::open_on(&disk);
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        assert!(report.findings.iter().any(|f| f.table == "rows"), "{pages}: {:?}", report.findings);
        let written = db.transact(|txn| {
            let rows = txn.open_table(&ROWS)?;
            (2_000..2_200).try_for_each(|i| rows.insert(i, &"x".repeat(900)))
        });
        assert!(written.unwrap_err().is_damage(), "{pages}");
        other_is_whole(&db);
        db.close().unwrap();
        // The rows are where they were.
        let saved = Database::in_memory().unwrap();
        assert!(common::open_on(&disk).salvage_table("rows", &saved).unwrap().rows >= 1_000, "{pages}");
    }
}

/// A compaction cut the file behind the pages that the header counts, with rows in what it cut off,
/// and a backup left them out and was reported as complete.
#[test]
fn fewer_pages_than_are_in_use() {
    let (disk, db) = common::on_memory_disk();
    db.transact(|txn| (0..100).try_for_each(|i| txn.open_table(&OTHER)?.insert(i, "fine"))).unwrap();
    common::fill(&db, 0, 10_000);
    let file = db.list_tables().iter().find(|t| t.name == "rows").unwrap().file.clone();
    db.close().unwrap();
    let data = disk.open(&file, OpenOptions::new(FileKind::Data)).unwrap();
    let len = data.len().unwrap();
    let mut header = vec![0; 4096];
    data.read_at(0, &mut header).unwrap();
    header[108..112].copy_from_slice(&100u32.to_le_bytes());
    page::seal(&mut header);
    data.write_at(0, &header).unwrap();

    let db = common::open_on(&disk);
    let left_out = db.compact().unwrap().left_out;
    assert!(left_out.len() == 1 && left_out[0].table == "rows", "{left_out:?}");
    assert_eq!(data.len().unwrap(), len, "nothing is cut off");
    let dir = tempfile::tempdir().unwrap();
    let error = db.backup(dir.path().join("copy"), &BackupOptions::new()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&file), "{error}");
    other_is_whole(&db);
    let saved = Database::in_memory().unwrap();
    assert_eq!(db.salvage_table("rows", &saved).unwrap().rows, 10_000);
    db.close().unwrap();
}

#[test]
fn a_newer_version() {
    let disk = killed(|header| header[104] = 0x80);
    let db = common::open_on(&disk);
    let error = db.begin_read().unwrap().open_table(&ROWS).and_then(|rows| rows.get(1).map(drop)).unwrap_err();
    assert!(matches!(&error, Error::Incompatible(what) if what.contains("newer version")), "{error}");
    other_is_whole(&db);
    let error = db.salvage_table("rows", &Database::in_memory().unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Incompatible(_)), "{error}");
}

#[test]
fn a_flipped_bit_that_looks_like_a_newer_version() {
    let disk = damaged(|header| header[104] = 0x80);
    let db = common::open_on(&disk);
    let error = db.begin_read().unwrap().open_table(&ROWS).and_then(|rows| rows.get(1).map(drop)).unwrap_err();
    assert!(error.is_damage(), "{error}");
    other_is_whole(&db);
    // Recovery has applied the log to its pages.
    let saved = db.salvage_table("rows", &Database::in_memory().unwrap()).unwrap();
    assert_eq!((saved.rows, saved.lost_pages), (1_010, 1), "{saved:?}");
}
