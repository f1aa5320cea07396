//! A check of the version tree followed its nodes and chains, and did not look at its entries: one
//! that cannot be decoded, that is under the key of another row, or about a transaction that there
//! never was, was called sound. A view that needs it gets an error, or not the version that it had.

use std::ops::Bound;

use holdfast_base::{IndexId, PageNo};
use holdfast_pool::AccessKind;
use holdfast_tree::{Action, Direction, Severity, Tree};
use holdfast_txn::Txn;
use holdfast_wal::SpaceClass;

use crate::common::*;

/// Where the root of the version tree is noted, and its index.
const ROOT_MARK: usize = 1;
const VERSIONS: IndexId = IndexId(u32::MAX);
/// Bytes of a value before the key: flags and the key's length; and of the image before its writer.
const BEFORE_KEY: usize = 2;
const BEFORE_WRITER: usize = 1;
const KEY: &str = "row";

/// A database whose version tree has one entry, with a view that needs it.
fn database() -> (Db, Txn) {
    let mut setup = Setup::default();
    setup.txn.shelf_bytes = 0;
    let db = Db::with(setup);
    db.put(&[(KEY, "old")]);
    db.purge();
    let view = db.snapshot();
    for _ in 0..20 {
        db.put(&[("other", "moves the commits on")]);
    }
    db.put(&[(KEY, "new")]);
    db.purge();
    assert!(db.sys.versions_stored() > 0);
    (db, view)
}

/// Changes the first entry of the version tree that is about [`KEY`].
fn disfigure(db: &Db, change: impl Fn(&mut Vec<u8>, &mut Vec<u8>)) {
    let acc = db.store.pool().access(AccessKind::Point);
    let root = PageNo(u32::try_from(db.files[0].mark(ROOT_MARK, &acc).unwrap()).unwrap());
    let tree = Tree::open(&db.files[0], VERSIONS, root);
    let mut found = None;
    {
        let mut cursor = tree.cursor(&acc);
        cursor.seek(Bound::Unbounded, Direction::Forward);
        while let Some((key, value)) = cursor.next().unwrap() {
            if value[BEFORE_KEY..].starts_with(KEY.as_bytes()) {
                found.get_or_insert((key.to_vec(), value.to_vec()));
            }
        }
    }
    let (mut key, mut value) = found.expect("an old version of the row is kept");
    change(&mut key, &mut value);
    tree.modify_as(SpaceClass::Rollback, &key, &acc, &mut |_| Ok(Action::Put(value.clone()))).unwrap();
}

fn damage(db: &Db) -> Vec<String> {
    let found = db.verify().into_iter().filter(|finding| finding.severity == Severity::Damage);
    found.map(|finding| finding.to_string()).collect()
}

#[test]
fn an_entry_that_purge_has_not_written_is_found() {
    type Change = fn(&mut Vec<u8>, &mut Vec<u8>);
    let changes: [(&str, Change); 7] = [
        ("has unknown flags", |_, value| value[0] |= 8),
        ("cannot be decoded", |_, value| value.truncate(1)),
        // Neither image nor delete mark, with an image behind the key; a delete mark alone.
        ("cannot be decoded", |_, value| value[0] = 0),
        ("cannot be decoded", |_, value| value[0] = 2),
        ("is under the key of another one", |_, value| value[BEFORE_KEY] ^= 1),
        ("is by a transaction that there never was", |_, value| {
            let at = BEFORE_KEY + KEY.len() + BEFORE_WRITER;
            value[at..at + 8].fill(0xff);
        }),
        ("was overwritten by a transaction that there never was", |key, _| {
            let at = key.len() - 8;
            key[at..].fill(0xff);
        }),
    ];
    for (what, change) in changes {
        let (db, view) = database();
        assert_eq!(damage(&db), Vec::<String>::new());
        disfigure(&db, change);
        let found = damage(&db);
        assert!(found.iter().any(|finding| finding.contains(what)), "{what}: {found:?}");
        drop(view);
    }
}

/// A change of an entry's key and value.
type Change = fn(&mut Vec<u8>, &mut Vec<u8>);

/// The view was told that there was no row: it passed over entries whose flags say that they have
/// no image, and over those about another key.
#[test]
fn a_view_that_needs_such_an_entry_gets_an_error() {
    let changes: [Change; 4] =
        [|_, value| value[0] = 0, |_, value| value[0] = 2, |_, value| value[0] |= 8, |_, value| value[BEFORE_KEY] ^= 1];
    for change in changes {
        let (db, mut view) = database();
        // The page of the undo log is another transaction's then.
        for _ in 0..40 {
            db.put(&[("other", "uses the pages again")]);
        }
        assert_eq!(get(&mut view, &db.rows, KEY), Some("old".into()));
        disfigure(&db, change);
        assert!(view.get(&db.rows, KEY.as_bytes(), &mut Vec::new()).unwrap_err().is_damage());
    }
}
