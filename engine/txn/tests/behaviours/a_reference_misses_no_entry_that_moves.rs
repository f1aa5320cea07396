//! A cursor that looks for what a reference leads to has a range at READ COMMITTED, too, while it
//! is open: an entry that another transaction moves to behind the cursor's place is not left out.

use std::ops::Bound;
use std::sync::mpsc::channel;

use holdfast_txn::*;

use crate::common::session::Session;
use crate::common::{session, *};

/// All keys, behind each of which `then` is called.
fn read(db: &Db, session: &Session, then: impl Fn() + Send + 'static) -> session::Pending<Vec<String>> {
    let rows = db.rows.clone();
    session.run(move |txn| {
        let options = CursorOptions { lock: Some(LockMode::Shared), linked: true, ..CursorOptions::default() };
        let mut cursor = txn.cursor(&rows, Bound::Unbounded, Bound::Unbounded, options)?;
        let mut keys = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            keys.push(String::from_utf8(key.to_vec()).unwrap());
            then();
        }
        Ok(keys)
    })
}

fn sessions<const N: usize>(db: &Db) -> [Session; N] {
    [(); N].map(|()| Session::new(db, TxnOptions::at(Isolation::ReadCommitted)))
}

#[test]
fn while_it_waits() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", "")]);
    let [holder, reader] = sessions(&db);
    let rows = db.rows.clone();
    holder.run(move |txn| Ok(txn.delete(&rows, b"1", None).unwrap())).result().unwrap();
    let reading = read(&db, &reader, || {}).blocked();
    db.commit(|txn| {
        assert!(txn.delete(&db.rows, b"5", None).unwrap());
        txn.insert(&db.rows, b"0", b"").unwrap();
    });
    holder.commit().unwrap();
    assert_eq!(reading.result().unwrap(), ["0"]);
}

/// What it has read is free again when it is done, though its transaction goes on.
#[test]
fn while_it_goes_on() {
    let db = Db::new();
    db.put(&[("1", ""), ("5", "")]);
    let [reader, inserter] = sessions(&db);
    let ((at_entry, is_at_entry), (go_on, goes_on)) = (channel(), channel());
    let reading = read(&db, &reader, move || {
        at_entry.send(()).unwrap();
        goes_on.recv().unwrap();
    });
    is_at_entry.recv().unwrap();
    let inserting = inserter.insert("0", "").blocked();
    go_on.send(()).unwrap();
    is_at_entry.recv().unwrap();
    go_on.send(()).unwrap();
    assert_eq!(reading.result().unwrap(), ["1", "5"]);
    inserting.result().unwrap();
    inserter.insert("6", "").result().unwrap();
    inserter.commit().unwrap();
    reader.commit().unwrap();
}
