//! A copy of files went wrong: in the place of a table's file is that of another database. The
//! table was damaged, and to drop it removed the other file, perhaps the only one with its rows.

use holdfast::io::{Disk, FileKind, OpenOptions};
use holdfast::{BackupOptions, TableDefinition};

use crate::common;

const OTHER: TableDefinition<u64, &str> = TableDefinition::new("other");

#[test]
fn that_of_another_database_stays() {
    let [(disk, db), (_, other)] = [common::on_memory_disk(), common::on_memory_disk()];
    [&db, &other].iter().for_each(|db| common::fill(db, 0, 100));
    db.create_table(&OTHER).unwrap();
    let file_of = |table: &str| db.list_tables().into_iter().find(|t| t.name == table).unwrap().file;
    let [rows, of_other] = ["rows", "other"].map(file_of);
    db.close().unwrap();
    let from_there = tempfile::tempdir().unwrap();
    other.backup(from_there.path().join("copy"), &BackupOptions::new()).unwrap();
    let bytes = std::fs::read(from_there.path().join("copy").join(&rows)).unwrap();
    let theirs = |name: &str, bytes: &[u8]| {
        let file = disk.open(name, OpenOptions::new(FileKind::Data)).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        file.write_at(0, bytes).unwrap();
    };
    theirs(&rows, &bytes);
    let db = common::open_on(&disk);
    db.drop_table("rows").unwrap();
    assert!(disk.exists(&rows).unwrap(), "it is not this database's");
    common::fill(&db, 0, 100);
    assert!(db.list_tables().iter().all(|table| table.file != rows));
    // Its own file goes, whatever else is wrong with it.
    db.close().unwrap();
    theirs(&of_other, &[0xee; 8 * 4096]);
    let db = common::open_on(&disk);
    db.drop_table("other").unwrap();
    assert!(!disk.exists(&of_other).unwrap());
    common::assert_filled(&db, 0, 100);
}
