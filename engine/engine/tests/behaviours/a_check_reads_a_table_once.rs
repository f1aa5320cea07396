//! A table that is named twice is checked once. Its pages and rows were counted twice, and its
//! indexes listed twice.

use holdfast::VerifyOptions;

use crate::common;

#[test]
fn that_is_named_twice() {
    let (_, db) = common::on_memory_disk();
    common::fill(&db, 0, 100);
    let mut options = VerifyOptions::new();
    options.tables = vec!["rows".into()];
    let once = db.verify(&options, &mut |_| {}).unwrap();
    options.tables.push("rows".into());
    let twice = db.verify(&options, &mut |_| {}).unwrap();
    assert_eq!((twice.rows, twice.pages), (once.rows, once.pages));
    assert_eq!(twice.rows, 100);
}
