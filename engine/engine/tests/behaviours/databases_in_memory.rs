//! A database in memory does what one on disk does, and is gone when it is closed.

use crate::common;

#[test]
fn is_a_database_like_any_other() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 5_000);
    common::assert_filled(&db, 0, 5_000);
    let stats = db.stats();
    assert_eq!(stats.tables.len(), 1);
    assert!(stats.tables[0].resident_bytes() > 0 && stats.log.lsn > 0);
    assert!(db.status_text().contains("BUFFER POOL"));
    common::assert_sound(&db);
    db.close().unwrap();
}

#[test]
fn a_closed_database_refuses_everything() {
    let db = common::small().in_memory().unwrap();
    common::fill(&db, 0, 10);
    let other = db.clone();
    db.close().unwrap();
    assert!(other.begin_read().is_err());
    assert!(other.begin_write().is_err());
    assert!(other.create_table(&common::ROWS).is_err());
}
