//! A transaction shares the chain of a large value, and then gives its own reference up. When purge
//! had given up that reference the chain did not count among old versions any more, and each part
//! of it that was freed then was taken off what other values count.

use std::sync::Arc;

use holdfast_io::MemoryDisk;
use holdfast_pool::AccessKind;
use holdfast_txn::*;

use crate::common::*;

const PAGE: u64 = 4096;
const LONG: usize = 1 << 20;

fn value(head: &str) -> Vec<u8> {
    let mut value = format!("{head:HEAD$}").into_bytes();
    value.resize(HEAD + 2 * LONG, b'a');
    value
}

fn used(db: &Db) -> u64 {
    let info = db.files[1].info(&db.store.pool().access(AccessKind::Maintenance)).unwrap();
    u64::from(info.pages - info.free_pages)
}

#[test]
fn what_is_not_free_counts() {
    let mut setup = Setup { frames: 2048, ..Setup::default() };
    setup.txn.shelf_bytes = 0;
    let db = Db::create(Arc::new(MemoryDisk::new()), setup).unwrap();
    db.commit(|txn| {
        txn.insert(&db.rows, b"one", &vec![b'b'; LONG]).unwrap();
        txn.insert(&db.rows, b"shared", headed(&value("old"))).unwrap();
    });
    while db.purge() > 0 {}
    db.commit(|txn| {
        assert!(txn.update(&db.rows, b"one", b"short", None).unwrap());
        assert!(txn.get_locked(&db.rows, b"shared", LockMode::Exclusive, None, &mut Vec::new()).unwrap());
        assert!(txn.update(&db.rows, b"shared", headed(&value("new")), None).unwrap());
        assert!(txn.update(&db.rows, b"shared", b"short", None).unwrap());
    });
    let mut samples = vec![(used(&db), db.sys.stats().old_version_bytes)];
    while db.sys.purge(1).unwrap() > 0 {
        samples.push((used(&db), db.sys.stats().old_version_bytes));
    }
    let at_end = used(&db);
    for (used, counted) in samples {
        let kept = (used - at_end) * PAGE;
        // A page of a chain has a header, which is not counted.
        assert!(counted + counted / 16 >= kept, "{kept} bytes are kept, and {counted} are counted");
        assert!(counted <= kept + 4 * PAGE, "{kept} bytes are kept, and {counted} are counted");
    }
    db.verify_clean();
}
