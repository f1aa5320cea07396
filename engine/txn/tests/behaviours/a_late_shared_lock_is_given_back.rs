//! A reader that is granted a shared lock on a row which its writer has locked shared, and then
//! changed, came too late.
//!
//! It gives the lock back and waits behind the writer, where the search for deadlocks sees it.

use holdfast_base::Error;
use holdfast_txn::*;

use crate::common::*;

#[test]
fn so_that_its_wait_is_seen() {
    let db = Db::new();
    db.put(&[("j", "1"), ("k", "1")]);
    let serializable = || db.sys.begin(TxnOptions::at(Isolation::Serializable));
    let (mut writer, mut reader) = (serializable(), serializable());
    let mut value = Vec::new();
    assert!(reader.get(&db.rows, b"j", &mut value).unwrap());
    assert!(writer.get(&db.rows, b"k", &mut value).unwrap());
    assert!(writer.update(&db.rows, b"k", b"2", None).unwrap());
    let (first, second) = std::thread::scope(|s| {
        let rows = &db.rows;
        let reading = s.spawn(move || {
            let result = reader.get(rows, b"k", &mut Vec::new());
            reader.rollback().unwrap();
            result
        });
        let writing = writer.update(&db.rows, b"j", b"2", None);
        writer.rollback().unwrap();
        (reading.join().unwrap(), writing)
    });
    let deadlocks = [&first, &second].iter().filter(|r| matches!(r, Err(Error::Deadlock))).count();
    assert_eq!(deadlocks, 1, "{first:?} {second:?}");
}
