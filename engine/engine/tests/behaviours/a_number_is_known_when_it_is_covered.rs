//! The mark of a table's numbers could not be written, and the number was known all the same: the
//! next session found that there was nothing to raise, and a crash gave its number out again.

use std::sync::Arc;

use holdfast::FlushAtCommit;
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common;
use crate::common::rows::begin;

#[test]
fn a_mark_that_cannot_be_written_is_not_known() {
    let crashes = CrashDisk::new();
    let faults = FaultDisk::new(Arc::new(crashes.clone()));
    let db = RawDatabase::new(common::tight_on(&faults).create("test").unwrap());
    let create = |name: &str| {
        db.create_table(name, &[], b"", Lifetime::Lasting).unwrap();
        db.open_table(name).unwrap()
    };
    let (numbered, large) = (create("numbered"), create("large"));
    // Several times what the cache holds: the header of the first table is not in it any more.
    for rows in 0..200u32 {
        let mut txn = begin(&db);
        (0..50).for_each(|row| txn.insert(&large, 0, &(rows * 50 + row).to_be_bytes(), &[7; 3_000]).unwrap());
        txn.commit(FlushAtCommit::Lazy).unwrap();
    }
    let tables = db.database().list_tables();
    let file = tables.iter().find(|table| table.name == "numbered").unwrap().file.clone();
    faults.schedule(Fault::nth(FaultOp::Read, 1).on(file).sticky());
    assert!(numbered.raise_mark(0, 5_000, 0).is_err());
    assert!(numbered.take_mark(0, 1).is_err());
    assert!(numbered.set_mark(0, 9_000).is_err());
    faults.clear();
    assert_eq!(numbered.mark(0), 1);
    numbered.raise_mark(0, 5_000, 0).unwrap();
    assert_eq!(numbered.take_mark(0, 1).unwrap(), 5_000);
    numbered.raise_mark(1, 7, 0).unwrap();
    let mut txn = begin(&db);
    txn.insert(&numbered, 0, b"5000", b"row").unwrap();
    txn.commit(FlushAtCommit::Sync).unwrap();
    let left = crashes.reboot(0);
    let db = RawDatabase::new(common::open_on(&left));
    let numbered = db.open_table("numbered").unwrap();
    assert!(numbered.mark(0) > 5_000 && numbered.mark(1) == 7, "{} {}", numbered.mark(0), numbered.mark(1));
}
