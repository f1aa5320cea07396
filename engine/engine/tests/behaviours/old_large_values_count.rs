//! Old versions of large values count among old versions. Only the undo records that refer to them
//! did: a limit of 1 MiB kept none of them from filling the disk, and a snapshot beside changes of
//! large values kept every version of them, not one for each row.

use holdfast::{Database, Error};

use crate::common::{ROWS, small};

const ROWS_OF_VALUES: u64 = 50;
const VALUE_BYTES: usize = 30_000;

fn write_each(db: &Database, letter: &str) {
    let value = letter.repeat(VALUE_BYTES);
    let write = |key| db.transact(|txn| txn.open_table(&ROWS)?.upsert(key, &value));
    (0..ROWS_OF_VALUES).try_for_each(|key| write(key).map(drop)).unwrap();
}

fn old_bytes(db: &Database) -> u64 {
    db.stats().transactions.version_bytes
}

#[test]
fn what_a_view_keeps_is_counted() {
    let db = small().in_memory().unwrap();
    write_each(&db, "a");
    let view = db.begin_read().unwrap();
    write_each(&db, "b");
    let kept = ROWS_OF_VALUES * VALUE_BYTES as u64;
    assert!(old_bytes(&db) >= kept, "{} of {kept}", old_bytes(&db));
    assert!(view.open_table(&ROWS).unwrap().get(7).unwrap().unwrap().starts_with('a'));
    drop(view);
    // Nothing is needed any more: a compaction purges what there is.
    db.compact().unwrap();
    assert_eq!(old_bytes(&db), 0);
}

#[test]
fn a_snapshot_gives_way_to_the_limit() {
    let db = small().version_limit_bytes(1 << 20).in_memory().unwrap();
    write_each(&db, "a");
    let view = db.begin_read().unwrap();
    let rows = view.open_table(&ROWS).unwrap();
    let is_given_up = (0..100).any(|_| {
        write_each(&db, "b");
        matches!(rows.get(7), Err(Error::SnapshotTooOld))
    });
    assert!(is_given_up, "{} bytes are kept", old_bytes(&db));
}
