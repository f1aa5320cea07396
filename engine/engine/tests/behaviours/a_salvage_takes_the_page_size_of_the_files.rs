//! A copy that was put together from two databases has the `holdfast.meta` of the other one, with
//! another page size. A salvage of the files believed it, and saved no row.

use std::sync::Arc;

use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Database, TableDefinition};

use crate::common::{self, ROWS};

const OTHERS: [TableDefinition<u64, &str>; 2] = [TableDefinition::new("first"), TableDefinition::new("second")];
const COUNT: u64 = 2_000;

/// The disk of a closed database with pages of 4 KiB.
fn disk() -> MemoryDisk {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, COUNT);
    for table in &OTHERS {
        db.transact(|txn| txn.open_table(table)?.insert(1, "one")).unwrap();
    }
    db.close().unwrap();
    disk
}

/// The disk of a closed database with pages of 16 KiB.
fn of_larger_pages() -> MemoryDisk {
    let disk = MemoryDisk::new();
    let db = common::small().page_size(16_384).disk(Arc::new(disk.clone())).create("test").unwrap();
    db.transact(|txn| txn.open_table(&ROWS)?.insert(1, "one")).unwrap();
    db.close().unwrap();
    disk
}

/// Replaces the file of `to` by that of `from`.
fn replace(to: &MemoryDisk, from: &MemoryDisk, name: &str) {
    let file = from.open(name, OpenOptions::new(FileKind::Meta)).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    to.remove(name).unwrap();
    to.open(name, OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap().write_at(0, &bytes).unwrap();
}

fn saved(disk: &MemoryDisk) -> u64 {
    let saved = Database::in_memory().unwrap().salvage_files_on(Arc::new(disk.clone())).unwrap();
    saved.iter().map(|(_, report)| report.rows).sum()
}

#[test]
fn where_the_identity_is_of_another_database() {
    let disk = disk();
    replace(&disk, &of_larger_pages(), "holdfast.meta");
    assert_eq!(saved(&disk), COUNT + 2);
}

#[test]
fn where_no_header_page_is_sound() {
    let disk = disk();
    replace(&disk, &of_larger_pages(), "holdfast.meta");
    for name in disk.list().unwrap().iter().filter(|name| name.starts_with('t')) {
        let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
        file.write_at(0, &[0xee; 4096]).unwrap();
    }
    assert_eq!(saved(&disk), COUNT + 2);
}

/// The first file in order; two are left of this database.
#[test]
fn where_the_file_of_a_table_is_of_another_database() {
    let disk = disk();
    disk.remove("holdfast.meta").unwrap();
    let other = of_larger_pages();
    let file = other.list().unwrap().into_iter().find(|name| name.starts_with('t')).unwrap();
    replace(&disk, &other, &file);
    assert_eq!(saved(&disk), 2);
}
