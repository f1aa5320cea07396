//! A reader whose snapshot is older than all versions of a row but the first followed their chain
//! to its end, millions of versions or not, also when it had been killed.

use holdfast_base::Error;

use crate::common::*;

#[test]
fn a_kill_ends_a_read_of_a_long_chain() {
    let db = Db::new();
    db.put(&[("a", "first"), ("b", "first")]);
    let mut old = db.snapshot();
    let mut writer = db.begin();
    for n in 0..500 {
        assert!(writer.update(&db.rows, b"a", n.to_string().as_bytes(), None).unwrap());
    }
    assert!(writer.update(&db.rows, b"b", b"second", None).unwrap());
    assert_eq!(get(&mut old, &db.rows, "a").as_deref(), Some("first"));
    assert!(db.sys.kill(old.serial()));
    let mut value = Vec::new();
    assert!(is(old.get(&db.rows, b"a", &mut value), |e| matches!(e, Error::Interrupted)));
    assert_eq!(get(&mut old, &db.rows, "b").as_deref(), Some("first"), "a short one is read to its end");
    old.statement_begin().unwrap();
    assert_eq!(get(&mut old, &db.rows, "a").as_deref(), Some("first"), "the next statement is not killed");
    drop(old);
    writer.rollback().unwrap();
}
