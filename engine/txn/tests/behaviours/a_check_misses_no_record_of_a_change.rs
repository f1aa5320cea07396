//! The undo record of a change named another index, or another key, on a page with the right
//! checksum. A snapshot that needs the version before found no row, and the delete mark of a change
//! stayed for good: the change had no record. A check asked for the records of active transactions
//! alone, and not for those that wait for purge.

use holdfast_pool::AccessKind;
use holdfast_txn::VersionHeader;

use crate::common::*;

/// Changes the undo record of the newest version of "row", at `at` from its index on.
fn disfigure_record(db: &Db, at: usize) {
    let acc = db.store.pool().access(AccessKind::Point);
    let mut payload = Vec::new();
    assert!(db.rows.tree().get(b"row", &acc, &mut payload).unwrap());
    let newest = VersionHeader::decode(&payload).unwrap().0;
    let mut page = db.store.pool().fix_exclusive(db.files[0].space(), newest.roll.page(), &acc).unwrap();
    let bytes = page.bytes_mut();
    // The record is: kind, index, key with its length.
    let begin = bytes.windows(5).position(|w| w == b"\x05\x03row").unwrap();
    bytes[begin + at] ^= 2;
}

fn found(db: &Db) -> Vec<String> {
    db.verify().into_iter().filter(|f| f.page.space == TABLE).map(|f| f.what).collect()
}

#[test]
fn that_waits_for_purge() {
    for (deletes, at) in [(false, 0), (false, 2), (true, 0), (true, 4)] {
        let db = Db::new();
        db.put(&[("other", "1"), ("row", "1")]);
        while db.purge() > 0 {}
        let view = db.snapshot();
        db.commit(|txn| match deletes {
            true => assert!(txn.delete(&db.rows, b"row", None).unwrap()),
            false => assert!(txn.update(&db.rows, b"row", b"2", None).unwrap()),
        });
        assert_eq!(found(&db), [""; 0]);
        disfigure_record(&db, at);
        let found = found(&db);
        let is_it = |what: &String| what.contains("the entry 726f77") && what.contains("without its undo record");
        assert!(found.len() == 1 && is_it(&found[0]), "{found:?}");
        drop(view);
    }
}
