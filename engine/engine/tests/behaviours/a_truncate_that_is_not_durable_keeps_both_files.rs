//! A truncation whose commit cannot be made durable: which of the two tables there is, only the
//! next open can tell, so both files stay.

use std::sync::Arc;

use holdfast::raw::RawDatabase;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common::{self, ROWS};

#[test]
fn the_next_open_finds_the_old_table_or_the_new_one() {
    let mut failed = 0;
    for (nth, seed) in (1..4).flat_map(|nth| (0..20).map(move |seed| (nth, seed))) {
        let crash = CrashDisk::new();
        let disk = FaultDisk::new(Arc::new(crash.clone()));
        let db = common::create_on(&disk);
        common::fill(&db, 0, 100);
        let raw = RawDatabase::new(db);
        disk.schedule(Fault::nth(FaultOp::Sync, nth));
        let truncated = raw.truncate_table("rows", common::WAIT);
        failed += u32::from(truncated.is_err());
        drop(raw);

        let db = common::open_on(&crash.reboot(seed));
        let txn = db.begin_read().unwrap();
        let rows = txn.open_table(&ROWS).unwrap().iter().unwrap().map(Result::unwrap).count();
        assert!(rows == 0 || truncated.is_err() && rows == 100, "sync {nth}: {rows} rows, {truncated:?}");
        common::assert_sound(&db);
    }
    assert!(failed > 0, "some of these syncs are those of a truncation");
}
