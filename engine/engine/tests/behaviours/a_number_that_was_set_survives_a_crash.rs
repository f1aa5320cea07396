//! `CREATE TABLE ... AUTO_INCREMENT = 1000` was acknowledged, the server died within a second of
//! it, and the table began with 1.

use holdfast::raw::{Lifetime, RawDatabase};
use holdfast_testkit::CrashDisk;

use crate::common;

/// The next number of a table after a crash.
fn after_a_crash(set: impl FnOnce(&RawDatabase)) -> u64 {
    let disk = CrashDisk::new();
    let db = RawDatabase::new(common::create_on(&disk));
    for (name, lifetime) in [("lasts", Lifetime::Lasting), ("goes", Lifetime::Temporary)] {
        db.create_table(name, &[], b"", lifetime).unwrap();
        db.open_table(name).unwrap().set_mark(0, 1000).unwrap();
    }
    set(&db);
    let left = disk.reboot(0);
    RawDatabase::new(common::open_on(&left)).open_table("lasts").unwrap().mark(0)
}

#[test]
fn when_the_table_is_made() {
    assert_eq!(after_a_crash(|_| ()), 1000);
}

#[test]
fn when_it_is_lowered() {
    let lower = |db: &RawDatabase| {
        let table = db.open_table("lasts").unwrap();
        table.take_mark(0, 1).unwrap();
        table.set_mark(0, 7).unwrap();
    };
    assert_eq!(after_a_crash(lower), 7);
}
