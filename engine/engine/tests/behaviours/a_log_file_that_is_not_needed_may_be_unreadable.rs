//! A file of the log that the checkpoint has passed is passed over if the disk does not return it,
//! and a check names it. The open failed.

use std::sync::Arc;

use holdfast::VerifyOptions;
use holdfast::io::{Create, Disk, FileKind, OpenOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultKind, FaultOp};

use crate::common;

/// The log begins with the number 1.
const PASSED: &str = "wal.000000";

#[test]
fn a_check_names_it() {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    db.close().unwrap();
    let faults = FaultDisk::new(Arc::new(common::copy(&disk)));
    faults.open(PASSED, OpenOptions::new(FileKind::Log).create(Create::New)).unwrap();
    for (kind, is_refusal) in [(FaultKind::Eio, false), (FaultKind::Eacces, true)] {
        faults.schedule(Fault::nth(FaultOp::Open, 1).kind(kind).on(PASSED).sticky());
        let db = common::open_on(&faults);
        common::assert_filled(&db, 0, 100);
        let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
        let (named, others) =
            if is_refusal { (report.refused, report.findings) } else { (report.findings, report.refused) };
        assert!(others.is_empty(), "{others:?}");
        assert_eq!(named.iter().map(|finding| finding.table.as_str()).collect::<Vec<_>>(), [PASSED]);
        db.close().unwrap();
        faults.clear();
        assert!(faults.exists(PASSED).unwrap(), "it stays as it is");
    }
    common::assert_sound(&common::open_on(&faults));
}
