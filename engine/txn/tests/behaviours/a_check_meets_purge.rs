//! A check beside purge may come to a page that purge has just cut from its log. The check reads
//! that log again, so that the pages before are not taken for lost ones.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_pool::AccessKind;
use holdfast_tree::{PageSet, Severity};
use holdfast_txn::*;

use crate::common::*;

/// Rows whose undo takes some thirty pages: fewer than the times that a check looks at a log that
/// changes.
const ROWS: usize = 600;

/// Pages of the undo space that a check takes for lost.
fn lost(db: &Db) -> Vec<String> {
    let acc = db.store.pool().access(AccessKind::Maintenance);
    let (mut reached, mut lost) = (PageSet::new(), Vec::new());
    // What is freed after it was met is in use and free at once: a matter of looking again.
    let mut note = |finding: holdfast_tree::PageFinding| {
        if finding.severity == Severity::Leak {
            lost.push(finding.to_string());
        }
    };
    db.sys.verify(&acc, &mut reached, &mut note).unwrap();
    db.files[0].verify(&reached, &acc, &mut note).unwrap();
    lost
}

#[test]
fn it_takes_nothing_for_lost() {
    for round in 0..150 {
        let db = Db::new();
        for value in ["old".repeat(60), "new".repeat(60)] {
            let mut txn = db.begin();
            for i in 0..ROWS {
                txn.upsert(&db.rows, format!("row{i:04}").as_bytes(), value.as_bytes(), None).unwrap();
            }
            txn.commit(FlushAtCommit::Lazy).unwrap();
        }
        let (started, purged) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                started.wait();
                while db.sys.purge(10).unwrap() > 0 {}
                purged.store(true, Ordering::Release);
            });
            started.wait();
            while !purged.load(Ordering::Acquire) {
                assert_eq!(lost(&db), Vec::<String>::new(), "round {round}");
            }
        });
        db.verify_clean();
    }
}
