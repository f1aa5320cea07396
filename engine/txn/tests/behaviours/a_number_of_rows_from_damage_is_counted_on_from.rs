//! A number of rows that only damage can have left in a checkpoint is counted on from: the next row
//! once made it negative, so that the table counted as empty, and a sum of it and of what another
//! thread had inserted overflowed.

use crate::common::Db;

#[test]
fn it_stays_large() {
    let db = Db::new();
    db.rows.set_rows(u64::MAX);
    db.put(&[("1", "a"), ("2", "a")]);
    assert!(db.rows.rows() > 1 << 60, "{}", db.rows.rows());
}
