//! After `close` the database can be opened again in the same process, whatever lives on of the
//! closed one: handles, snapshots, transactions. These are refused, and nothing of theirs reaches
//! the files.

use std::sync::Arc;

use holdfast::io::{Disk, MemoryDisk};
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{BackupOptions, Database, Error, Listing, TableDefinition, VerifyOptions};
use holdfast_testkit::{Fault, FaultDisk, FaultOp};

use crate::common::{self, ROWS};

fn is_closed<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Closed(_)))
}

#[test]
fn while_handles_and_transactions_of_the_closed_one_live() {
    let dir = tempfile::tempdir().unwrap();
    let old = common::small().create(dir.path()).unwrap();
    common::fill(&old, 0, 2_000);
    let (clone, snapshot, unfinished) = (old.clone(), old.begin_read().unwrap(), old.begin_write().unwrap());
    let seen = snapshot.open_table(&ROWS).unwrap();
    let mut range = seen.iter().unwrap();
    assert!(range.next().unwrap().is_ok());
    let changed = unfinished.open_table(&ROWS).unwrap();
    for row in 0..2_000 {
        changed.upsert(row, "not committed").unwrap();
    }
    old.close().unwrap();

    let new = common::small().open(dir.path()).unwrap();
    common::assert_filled(&new, 0, 2_000);
    common::fill(&new, 2_000, 2_500);
    assert!(is_closed(clone.begin_read()) && is_closed(clone.begin_write()) && is_closed(clone.checkpoint()));
    assert!(is_closed(seen.get(1)) && is_closed(changed.get(1)) && is_closed(changed.upsert(1, "late")));
    assert!(is_closed(seen.contains(1)) && is_closed(seen.len_estimate()) && is_closed(unfinished.savepoint()));
    assert!(is_closed(unfinished.open_table(&TableDefinition::<u64, u64>::new("other"))));
    assert!(is_closed(clone.backup(dir.path().join("copy"), &BackupOptions::new())) && is_closed(clone.compact()));
    assert!(is_closed(clone.verify(&VerifyOptions::new(), &mut |_| {})) && is_closed(clone.drop_table("rows")));
    // What the closed one was doing can still be looked at.
    assert_eq!(clone.stats().tables.len(), 1);
    assert!(clone.status_text().contains("END OF"));
    Listing::ALL.iter().for_each(|listing| clone.list(*listing, &mut |_| true));
    assert!(range.all(is_closed) || is_closed(seen.iter()));
    assert!(clone.clone().close().is_ok(), "it is closed");
    assert!(is_closed(unfinished.commit()));
    drop(range);
    drop((snapshot, clone));
    common::fill(&new, 2_500, 3_000);
    common::assert_sound(&new);
    new.close().unwrap();
    let newest = common::small().open(dir.path()).unwrap();
    common::assert_filled(&newest, 0, 3_000);
    common::assert_sound(&newest);
}

#[test]
fn after_a_failed_sync_while_a_snapshot_lives() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let disk: Arc<dyn Disk> = Arc::new(faults.clone());
    let builder = common::small().disk(disk);
    let db: Database = builder.create("test").unwrap();
    common::fill(&db, 0, 100);
    let (clone, _snapshot) = (db.clone(), db.begin_read().unwrap());
    faults.schedule(Fault::nth(FaultOp::Sync, 1).sticky());
    let failed = db.transact(|txn| txn.open_table(&ROWS)?.upsert(1, "lost"));
    assert!(failed.is_err());
    faults.clear();
    assert!(matches!(db.close(), Err(Error::Poisoned(_))));
    let db = builder.open("test").unwrap();
    common::fill(&db, 100, 200);
    assert!(is_closed(clone.begin_read()));
    drop(clone);
    common::assert_sound(&db);
}

#[test]
fn the_name_of_a_table_that_was_dropped_before_stays_free_for_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let old = common::small().create(dir.path()).unwrap();
    common::fill(&old, 0, 100);
    // The file stays as long as the snapshot does.
    let snapshot = old.begin_read().unwrap();
    old.drop_table("rows").unwrap();
    old.close().unwrap();
    let new = common::small().open(dir.path()).unwrap();
    common::fill(&new, 0, 100);
    drop(snapshot);
    common::assert_filled(&new, 0, 100);
    common::assert_sound(&new);
}

/// Numbers that a table counts up are saved at the end; when that failed, the database stayed open
/// for as long as a table of it did.
#[test]
fn after_numbers_could_not_be_saved() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let builder = common::small().disk(Arc::new(faults.clone()));
    let db = RawDatabase::new(builder.create("test").unwrap());
    db.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let table = db.open_table("t").unwrap();
    assert_eq!(table.take_mark(0, 5).unwrap(), 1);
    faults.schedule(Fault::nth(FaultOp::Sync, 1).sticky());
    assert!(table.take_mark(0, 5_000).is_err() || db.flush_log().is_err());
    faults.clear();
    assert!(matches!(db.close(), Err(Error::Poisoned(_))));
    let db = RawDatabase::new(builder.open("test").unwrap());
    assert!(db.open_table("t").is_ok());
    drop(table);
    db.close().unwrap();
}
