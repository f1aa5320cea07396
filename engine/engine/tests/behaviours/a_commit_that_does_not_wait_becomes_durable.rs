//! A commit that waits for less than a sync is durable about a second later, whatever the database
//! was opened with. Only a database opened with such a setting had a thread that flushed the log: a
//! server opens it with the default and says with each commit what it waits for, and what it
//! committed with `flush_log_at_trx_commit` 0 stayed in the memory of the process until another
//! commit or a checkpoint wrote it.

use std::time::Duration;

use holdfast::raw::{Lifetime, RawDatabase};
use holdfast::{Database, FlushAtCommit, WriteOptions};

use crate::common::rows::begin;
use crate::common::{self, ROWS};

const WITHOUT_SYNC: [FlushAtCommit; 2] = [FlushAtCommit::Write, FlushAtCommit::Lazy];

/// Waits until all that is in the log now is durable, and no other commit is needed for it.
fn wait_until_durable(db: &Database) {
    let end = db.stats().log.lsn;
    while db.stats().log.durable_lsn < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn as_its_transaction_says() {
    let (disk, db) = common::on_crash_disk();
    common::fill(&db, 0, 10);
    for (flush, row) in WITHOUT_SYNC.into_iter().zip(10..) {
        let options = WriteOptions::new().flush_at_commit(flush);
        db.transact_with(&options, |txn| txn.open_table(&ROWS)?.insert(row, &common::value(row))).unwrap();
        wait_until_durable(&db);
    }
    common::assert_filled(&common::open_on(&disk.reboot(1)), 0, 12);
}

#[test]
fn as_its_commit_says() {
    let (_disk, db) = common::on_crash_disk();
    let raw = RawDatabase::new(db.clone());
    raw.create_table("t", &[], b"", Lifetime::Lasting).unwrap();
    let table = raw.open_table("t").unwrap();
    for flush in WITHOUT_SYNC {
        let mut txn = begin(&raw);
        txn.insert(&table, 0, &[flush as u8], b"row").unwrap();
        txn.commit(flush).unwrap();
        wait_until_durable(&db);
    }
}
