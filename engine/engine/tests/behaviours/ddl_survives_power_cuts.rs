//! The power goes at every point of a create, a rename, a drop and a truncate: each has happened as
//! a whole or not at all, and no file is left over.

use holdfast::io::Disk;
use holdfast::raw::RawDatabase;
use holdfast::{Database, Result, TableDefinition};
use holdfast_testkit::CrashDisk;

use crate::common;

fn table(name: &str) -> TableDefinition<u64, &'static str> {
    TableDefinition::named(name)
}

fn names(db: &Database) -> Vec<String> {
    db.list_tables().into_iter().map(|t| t.name).collect()
}

fn rows(db: &Database, name: &str) -> u64 {
    let txn = db.begin_read().unwrap();
    txn.open_table(&table(name)).unwrap().iter().unwrap().try_fold(0, |n, row| row.map(|_| n + 1)).unwrap()
}

/// Runs `change` on a database with the filled table `a`, cutting the power after `n` operations,
/// for every `n`.
fn cut_everywhere(change: impl Fn(&Database) -> Result<()>, check: impl Fn(&Database, bool)) {
    for n in 0.. {
        let disk = CrashDisk::new();
        let db = common::create_on(&disk);
        db.transact(|txn| {
            let a = txn.open_table(&table("a"))?;
            (0..200).try_for_each(|i| a.insert(i, "row"))
        })
        .unwrap();
        disk.crash_after(n);
        let done = change(&db).is_ok();
        let alive = !disk.is_dead();
        for seed in 0..2 {
            let after = disk.reboot(seed);
            let db = common::open_on(&after);
            check(&db, done);
            common::assert_sound(&db);
            let spaces = db.list_tables().len();
            let files = after.list().unwrap().iter().filter(|f| f.starts_with('t') && f.ends_with(".hf")).count();
            assert_eq!(files, spaces, "after {n} operations, seed {seed}");
        }
        if alive {
            assert!(done);
            break;
        }
    }
}

#[test]
fn create() {
    cut_everywhere(
        |db| db.create_table(&table("b")),
        |db, done| {
            assert!(names(db) == ["a", "b"] || (!done && names(db) == ["a"]), "{:?}", names(db));
            assert_eq!(rows(db, "a"), 200);
            db.transact(|txn| txn.open_table(&table("b"))?.insert(1, "x")).unwrap();
            assert_eq!(rows(db, "b"), 1);
        },
    );
}

#[test]
fn rename() {
    cut_everywhere(
        |db| db.rename_table("a", "c"),
        |db, done| {
            assert!(names(db) == ["c"] || (!done && names(db) == ["a"]), "{:?}", names(db));
            assert_eq!(rows(db, &names(db)[0]), 200);
        },
    );
}

/// What tables keep of each other's names changes with the names.
#[test]
fn rename_with_options_of_others() {
    let options = |db: &Database, name: &str| RawDatabase::new(db.clone()).options(name).unwrap();
    cut_everywhere(
        |db| {
            db.create_table(&table("b"))?;
            let raw = RawDatabase::new(db.clone());
            raw.set_options(&[("a", b"I am a"), ("b", b"of a")])?;
            raw.rename_table("a", "c", &[("b", b"of c"), ("c", b"I am c")])
        },
        |db, done| {
            let names = names(db);
            match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["a"] => assert!(!done),
                ["a", "b"] => {
                    assert!(!done);
                    let both = (options(db, "a"), options(db, "b"));
                    let set = (b"I am a".to_vec(), b"of a".to_vec());
                    assert!(both == set || both == Default::default(), "{both:?}");
                }
                ["b", "c"] => assert_eq!((options(db, "b"), options(db, "c")), (b"of c".into(), b"I am c".into())),
                _ => panic!("{names:?}"),
            }
        },
    );
}

#[test]
fn drop_table() {
    cut_everywhere(
        |db| db.drop_table("a"),
        |db, done| {
            assert!(names(db).is_empty() || (!done && names(db) == ["a"]), "{:?}", names(db));
            if !names(db).is_empty() {
                assert_eq!(rows(db, "a"), 200);
            }
        },
    );
}

/// It used to be a create, a drop and a rename: a crash between them left the table dropped.
#[test]
fn truncate() {
    cut_everywhere(
        |db| RawDatabase::new(db.clone()).truncate_table("a", common::WAIT),
        |db, done| {
            assert_eq!(names(db), ["a"]);
            let left = rows(db, "a");
            assert!(left == 0 || (!done && left == 200), "{left} rows");
            db.transact(|txn| txn.open_table(&table("a"))?.insert(1000, "x")).unwrap();
            assert_eq!(rows(db, "a"), left + 1);
        },
    );
}

#[test]
fn creating_a_database() {
    for n in 0.. {
        let disk = CrashDisk::new();
        disk.crash_after(n);
        let created = common::small().disk(std::sync::Arc::new(disk.clone())).create("test");
        let (done, alive) = (created.is_ok(), !disk.is_dead());
        drop(created);
        for seed in 0..2 {
            let after = std::sync::Arc::new(disk.reboot(seed));
            let builder = common::small().disk(after);
            assert!(!done || builder.open("test").is_ok(), "after {n} operations");
            common::fill(&builder.create_or_open("test").unwrap(), 0, 10);
        }
        if alive {
            break;
        }
    }
}
