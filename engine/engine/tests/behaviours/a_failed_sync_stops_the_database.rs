//! After an fsync that failed nothing is acknowledged any more; a reopen recovers what had been.

use std::sync::Arc;

use holdfast::Error;
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common::{self, ROWS};

#[test]
fn until_it_is_opened_again() {
    let crash = CrashDisk::new();
    let disk = FaultDisk::new(Arc::new(crash.clone()));
    let db = common::create_on(&disk);
    common::fill(&db, 0, 100);
    disk.schedule(Fault::nth(FaultOp::Sync, 1));
    let insert = |i: u64| db.transact(|txn| txn.open_table(&ROWS)?.insert(i, "late"));
    assert!(insert(100).is_err());
    let error = insert(101).unwrap_err();
    assert!(matches!(error, Error::Poisoned(_)), "{error}");
    assert!(matches!(db.begin_write().map(drop), Err(Error::Poisoned(_))));
    assert!(db.close().is_err());

    let after = crash.reboot(3);
    let db = common::open_on(&after);
    let txn = db.begin_read().unwrap();
    let rows = txn.open_table(&ROWS).unwrap();
    (0..100).for_each(|i| assert_eq!(rows.get(i).unwrap(), Some(common::value(i))));
    assert_eq!(rows.get(101).unwrap(), None);
    common::assert_sound(&db);
}
