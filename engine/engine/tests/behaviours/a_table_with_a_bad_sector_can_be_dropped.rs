//! A crash leaves a transaction that has changed a row on a page which the device does not return.
//! It cannot be rolled back, so the table could be neither dropped nor truncated: both got the
//! error of the read, in this life of the database and in the next. If the background thread had
//! met the error just before, they got [`holdfast::Error::LockTimeout`], at once.

use std::sync::Arc;

use holdfast::raw::RawDatabase;
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::redo::{self, OTHER};
use crate::common::{self, ROWS, WAIT, tight_on};

/// Which thread meets the error first is up to the scheduler.
const ROUNDS: usize = 5;

#[test]
fn although_a_transaction_has_changed_what_is_there() {
    let mut met = 0;
    let kinds = [false, true].into_iter().flat_map(|truncated| (1..4).map(move |nth| (truncated, nth)));
    for (truncated, nth) in (0..ROUNDS).flat_map(|_| kinds.clone()) {
        let (disk, db, _open, file) = redo::with_records_in_the_log();
        db.checkpoint().unwrap();
        // No image of a page is looked at.
        let left = common::copy(&disk);
        holdfast::io::Disk::remove(&left, "doublewrite").unwrap();
        let faults = FaultDisk::new(Arc::new(left));
        // The header is read twice.
        faults.schedule(Fault::nth(FaultOp::Read, 2 + nth).on(&file).sticky());
        let db = tight_on(&faults).open("test").unwrap();
        if truncated {
            RawDatabase::new(db.clone()).truncate_table("rows", WAIT).unwrap();
            assert_eq!(db.begin_read().unwrap().open_table(&ROWS).unwrap().iter().unwrap().count(), 0);
        } else {
            db.drop_table("rows").unwrap();
        }
        met += faults.fired();
        faults.clear();
        db.transact(|txn| txn.open_table(&OTHER)?.insert(9, "later")).unwrap();
        common::assert_sound(&db);
        db.close().unwrap();
        common::assert_sound(&tight_on(&faults).open("test").unwrap());
    }
    assert!(met > 0);
}
