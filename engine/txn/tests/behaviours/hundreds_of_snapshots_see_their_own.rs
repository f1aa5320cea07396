//! Hundreds of idle snapshots beside a row that changes all the time: each has a version of its own
//! of that row, and purge finds which one needs a version without asking all of them. With ten
//! thousand it asked all of them about each record, and committers waited for it.

use crate::common::*;

const SNAPSHOTS: usize = 400;

#[test]
fn whichever_end_first() {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    db.put(&[("cold", "old"), ("hot", "0")]);
    let mut snapshots = Vec::new();
    for n in 0..SNAPSHOTS {
        snapshots.push((n, db.snapshot()));
        db.put(&[("hot", &(n + 1).to_string())]);
        if n % 7 == 0 {
            db.purge();
        }
    }
    db.put(&[("cold", "new")]);
    (0..20).for_each(|n| db.put(&[("other", &n.to_string())]));
    db.purge();
    assert_eq!(db.sys.history_length(), 0);
    // One of the hot row for each, and one of the cold row for all of them.
    assert_eq!(db.sys.versions_stored(), SNAPSHOTS as u64 + 1);
    // The oldest, the youngest and those in between, in an order that has nothing to do with age.
    while !snapshots.is_empty() {
        for (n, snapshot) in snapshots.iter_mut().step_by(3) {
            assert_eq!(get(snapshot, &db.rows, "hot"), Some(n.to_string()));
            assert_eq!(get(snapshot, &db.rows, "cold"), Some("old".into()));
        }
        for _ in 0..snapshots.len().min(29) {
            let at = snapshots.len() * 37 % 101 % snapshots.len();
            snapshots.swap_remove(at);
        }
        while db.purge() > 0 {}
        let cold = u64::from(!snapshots.is_empty());
        assert_eq!(db.sys.versions_stored(), snapshots.len() as u64 + cold);
    }
    db.verify_clean();
}
