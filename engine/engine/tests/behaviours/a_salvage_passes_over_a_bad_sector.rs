//! A page that the device does not return (EIO) is lost, and a salvage goes on with the next one,
//! of an open database as of its files alone. It gave up at the first such page, and saved nothing
//! behind it.

use std::sync::Arc;

use holdfast::{Database, SalvageReport};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common;

const ROWS: u64 = 2_000;

/// The disk of a closed database, and the file of its table.
fn disk() -> (FaultDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, ROWS);
    let file = db.list_tables()[0].file.clone();
    db.close().unwrap();
    (FaultDisk::new(Arc::new(disk)), file)
}

/// Salvages with the nth read of the table's file failing, for every n. Some reads are of pages
/// without rows.
fn each_read_fails(salvage: impl Fn(&FaultDisk, &str, u64) -> SalvageReport) {
    let (disk, file) = disk();
    let mut fewer = 0;
    for nth in 1.. {
        let fired = disk.fired();
        let report = salvage(&disk, &file, nth);
        if disk.fired() == fired {
            assert!(nth > 20 && fewer > 10, "{nth} reads, {fewer} of leaves");
            assert_eq!((report.rows, report.lost_pages), (ROWS, 0));
            return;
        }
        assert!(report.lost_pages <= 1 && report.rows > ROWS / 2, "read {nth}: {report:?}");
        fewer += u64::from(report.rows < ROWS);
        assert!(report.rows == ROWS || report.lost_pages == 1, "read {nth}: {report:?}");
        disk.clear();
    }
}

#[test]
fn of_an_open_database() {
    each_read_fails(|disk, file, nth| {
        let db = common::small().warm_up(false).disk(Arc::new(disk.clone())).open_read_only("test").unwrap();
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(file));
        db.salvage_table("rows", &Database::in_memory().unwrap()).unwrap()
    });
}

#[test]
fn of_files() {
    each_read_fails(|disk, file, nth| {
        disk.schedule(Fault::nth(FaultOp::Read, nth).on(file));
        let saved = Database::in_memory().unwrap().salvage_files_on(Arc::new(disk.clone())).unwrap();
        saved.into_iter().next().unwrap().1
    });
}
