//! A check and a backup said how far they had come. A restore, a compaction and a salvage, which go
//! through all pages, too, said nothing.

use std::cell::{Cell, RefCell};

use holdfast::{Database, Result, TableDefinition, VerifyProgress};

use crate::common::{self, ROWS};

/// Checks what `work` says: of one table each time at least as much as before, within its size.
fn grows<R>(work: impl FnOnce(&dyn Fn(&VerifyProgress)) -> Result<R>) {
    let said = RefCell::new(Vec::new());
    work(&|at: &VerifyProgress| said.borrow_mut().push(at.clone())).unwrap();
    let said = said.into_inner();
    assert!(said.iter().any(|at| !at.table.is_empty() && at.pages_total > 0), "{said:?}");
    assert!(said.iter().all(|at| at.pages_done <= at.pages_total), "{said:?}");
    let follows = |two: &[VerifyProgress]| {
        let [before, now] = two else { return false };
        let is_other = (&before.table, before.pages_total) != (&now.table, now.pages_total);
        is_other || before.pages_done <= now.pages_done
    };
    assert!(said.windows(2).all(follows), "{said:?}");
    assert!(said.iter().any(|at| at.pages_done > 0), "{said:?}");
}

#[test]
fn a_salvage() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 6_000);
    let target = common::small().in_memory().unwrap();
    target.create_table(&ROWS).unwrap();
    grows(|progress| db.salvage_table_with("rows", &target, progress));
}

#[test]
fn a_compaction() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 6_000);
    db.transact(|txn| (0..3_000).try_for_each(|n| txn.open_table(&ROWS)?.delete(n).map(drop))).unwrap();
    grows(|progress| db.compact_with(progress));
}

/// The files were asked for their lengths again, and what was done was more than there was.
#[test]
fn a_compaction_of_tables_that_grow_meanwhile() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 6_000);
    db.create_table(&TableDefinition::<u64, u64>::new("a table")).unwrap();
    db.create_table(&TableDefinition::<u64, u64>::new("the last table")).unwrap();
    let has_grown = Cell::new(false);
    grows(|progress| {
        db.compact_with(&|at| {
            if at.table == "a table" && !has_grown.replace(true) {
                common::fill(&db, 6_000, 20_000);
            }
            progress(at);
        })
    });
}

#[test]
fn a_restore_and_a_salvage_of_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = common::small().create(&path).unwrap();
    common::fill(&db, 0, 6_000);
    db.close().unwrap();
    grows(|progress| common::small().restore_with(&path, progress));
    let target = Database::builder().page_size(4096).in_memory().unwrap();
    grows(|progress| target.salvage_files_with(&path, None, progress));
}
