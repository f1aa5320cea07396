//! Databases that releases wrote open, are sound, and have all their rows. They are kept in
//! `engine/engine/tests/fixtures`, a folder for each version of the format, an archive for each
//! page size and way of ending: closed, or killed in the middle of transactions.
//!
//! `cargo xtask fixtures` writes those of the present version, from the functions below. What they
//! write never changes: a new kind of row gets a table of its own, and the check says from which
//! version of the format on an archive has it.

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::raw::{Lifetime, RawDatabase, RawOptions, RawTransaction};
use holdfast::{
    Builder, Database, FlushAtCommit, IndexDefinition, Isolation, Result, TableDefinition, WriteTransaction,
};
use holdfast_testkit::CrashDisk;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::common;

/// Rows of the table of people in which most happens.
const PEOPLE: u64 = 100;

type Person = (&'static str, Option<i64>);

const BY_NAME: IndexDefinition<u64, Person, &str> =
    IndexDefinition::new("by_name", |_: &u64, person: &(String, Option<i64>), keys| keys.push(&person.0));
const BY_DEBT: IndexDefinition<u64, Person, i64> =
    IndexDefinition::unique("by_debt", |_: &u64, person: &(String, Option<i64>), keys| {
        person.1.into_iter().for_each(|debt| keys.push(debt));
    });
const BLOBS: TableDefinition<u32, &[u8]> = TableDefinition::new("blobs");
const VISITS: TableDefinition<(&str, u16), (bool, [u8; 3])> = TableDefinition::new("visits");

fn people() -> TableDefinition<u64, Person> {
    TableDefinition::new("people").index(&BY_NAME).index(&BY_DEBT)
}

/// Lengths of values around every limit at which they are stored differently, for both page sizes.
const LENGTHS: [usize; 12] = [0, 1, 900, 1_900, 2_000, 2_048, 4_000, 4_096, 8_192, 16_384, 20_000, 70_000];

/// Parts of a thousand bytes that differ, each of one short line again and again.
fn blob(n: u32) -> Vec<u8> {
    let part = |part: u32| format!("{n}.{part} ").into_bytes().into_iter().cycle().take(1_000);
    (0..).flat_map(part).take(LENGTHS[n as usize % LENGTHS.len()]).collect()
}

/// How a kept database ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Closed,
    Killed,
}

/// What the table of people has at the end: the first rows of [`load`] after [`change`], and
/// those that were committed just before the kill.
fn expected_people(end: End) -> BTreeMap<u64, (String, Option<i64>)> {
    let rows = if end == End::Killed { PEOPLE + 20 } else { PEOPLE };
    let person = |id: u64| match (id < PEOPLE, id % 3, id % 5) {
        (true, _, 0) => None,
        (true, 0, _) => Some((format!("renamed {id}"), None)),
        _ => Some(loaded(id)),
    };
    (0..rows).filter_map(|id| Some((id, person(id)?))).collect()
}

fn loaded(id: u64) -> (String, Option<i64>) {
    (format!("name {:03}", id % 20), (!id.is_multiple_of(4)).then_some(id as i64 - 150))
}

fn expected_blobs() -> Vec<(u32, Vec<u8>)> {
    // Each third one was changed to the next one's content, the fourth deleted.
    let content = |n: u32| blob(if n.is_multiple_of(3) { n + 1 } else { n });
    (0..LENGTHS.len() as u32).filter(|&n| n != 4).map(|n| (n, content(n))).collect()
}

fn insert_people(txn: &WriteTransaction, ids: std::ops::Range<u64>) -> Result<()> {
    let table = txn.open_table(&people())?;
    ids.into_iter().try_for_each(|id| {
        let (name, debt) = loaded(id);
        table.insert(id, (&name, debt))
    })
}

fn load(db: &Database) {
    db.transact(|txn| insert_people(txn, 0..PEOPLE)).unwrap();
    db.transact(|txn| {
        let blobs = txn.open_table(&BLOBS)?;
        (0..LENGTHS.len() as u32).try_for_each(|n| blobs.insert(n, &blob(n)))?;
        let visits = txn.open_table(&VISITS)?;
        (0..60).try_for_each(|n: u16| {
            visits.insert((&format!("place {}", n % 9), n), (n.is_multiple_of(2), &[n as u8; 3]))
        })
    })
    .unwrap();
    for name in ["dropped", "before"] {
        let table: TableDefinition<u64, u64> = TableDefinition::new(name);
        db.transact(|txn| (0..50).try_for_each(|n| txn.open_table(&table)?.insert(n, n * n))).unwrap();
    }
    db.drop_table("dropped").unwrap();
    db.rename_table("before", "after").unwrap();
}

/// Changes and deletes rows; a snapshot that is taken before keeps their old versions.
fn change(db: &Database) {
    db.transact(|txn| {
        let table = txn.open_table(&people())?;
        for id in 0..PEOPLE {
            if id % 5 == 0 {
                table.delete(id)?;
            } else if id % 3 == 0 {
                table.update(id, (&format!("renamed {id}"), None))?;
            }
        }
        let blobs = txn.open_table(&BLOBS)?;
        blobs.delete(4)?;
        (0..LENGTHS.len() as u32).step_by(3).try_for_each(|n| blobs.update(n, &blob(n + 1)).map(drop))
    })
    .unwrap();
}

fn begin(raw: &RawDatabase) -> RawTransaction {
    let isolation = Isolation::RepeatableRead;
    raw.begin(&RawOptions { isolation, snapshot_isolation: true, read_only: false }).unwrap()
}

/// A table without types, as the server's are, and a prepared transaction that has changed it.
fn prepare(raw: &RawDatabase) {
    raw.create_table("raw", &[("second", false)], b"options of the table", Lifetime::Lasting).unwrap();
    let (table, mut txn) = (raw.open_table("raw").unwrap(), begin(raw));
    (0..30).for_each(|n| common::rows::insert(&mut txn, &table, n, b"row", 1_000 - n).unwrap());
    txn.commit(FlushAtCommit::Sync).unwrap();
    let mut txn = begin(raw);
    (30..35u32).for_each(|n| txn.insert(&table, 0, &n.to_be_bytes(), b"prepared").unwrap());
    txn.prepare(b"kept", FlushAtCommit::Sync).unwrap();
}

fn settings(page_size: usize, disk: Arc<dyn Disk>) -> Builder {
    common::small().page_size(page_size).log_capacity_bytes(4 << 20).warm_up(false).disk(disk)
}

/// The files of a database of the present version.
fn write(page_size: usize, end: End) -> MemoryDisk {
    let disk = CrashDisk::new();
    let builder = settings(page_size, Arc::new(disk.clone()));
    let db = builder.create("test").unwrap();
    load(&db);
    db.close().unwrap();
    let raw = RawDatabase::new(builder.open("test").unwrap());
    let db = raw.database().clone();
    let old = db.begin_read().unwrap();
    old.open_table(&BLOBS).unwrap().get(3).unwrap();
    change(&db);
    prepare(&raw);
    if end == End::Closed {
        raw.close().unwrap();
        return common::copy(&disk);
    }
    // Rows of a transaction that never ends come first in the log, then a commit that is synced.
    let open = db.begin_write().unwrap();
    insert_people(&open, 400..420).unwrap();
    open.open_table(&people()).unwrap().delete(1).unwrap();
    open.open_table(&people()).unwrap().update(2, ("never", Some(9_999))).unwrap();
    open.open_table(&BLOBS).unwrap().update(11, b"never").unwrap();
    db.transact(|txn| insert_people(txn, PEOPLE..PEOPLE + 20)).unwrap();
    common::copy(&disk.reboot(1))
}

fn check_rows(db: &Database, end: End) {
    let txn = db.begin_read().unwrap();
    let table = txn.open_table(&people()).unwrap();
    let expected = expected_people(end);
    assert_eq!(table.iter().unwrap().collect::<Result<BTreeMap<_, _>>>().unwrap(), expected);
    let by_name = table.index(&BY_NAME).unwrap().range(..).unwrap().collect::<Result<Vec<_>>>().unwrap();
    let mut sorted: Vec<_> = expected.iter().map(|(&id, person)| (person.0.clone(), id, person.clone())).collect();
    sorted.sort();
    assert_eq!(by_name, sorted);
    let by_debt = table.index(&BY_DEBT).unwrap();
    for (id, (_, debt)) in expected {
        let found = debt.map(|debt| by_debt.get(debt).unwrap().expect("an entry for each debt").0);
        assert!(found.is_none_or(|found| found == id), "row {id} by its debt");
    }
    let blobs = txn.open_table(&BLOBS).unwrap().iter().unwrap().collect::<Result<Vec<_>>>().unwrap();
    assert!(blobs == expected_blobs(), "values of all lengths");
    let visits = txn.open_table(&VISITS).unwrap();
    assert_eq!(visits.iter().unwrap().count(), 60);
    assert_eq!(visits.get(("place 5", 14)).unwrap(), Some((true, [14; 3])));
    let after: TableDefinition<u64, u64> = TableDefinition::new("after");
    assert_eq!(txn.open_table(&after).unwrap().get(49).unwrap(), Some(49 * 49));
}

/// The table without types has what was committed and, once that is, what was prepared.
fn check_raw(raw: &RawDatabase) {
    let names: Vec<String> = raw.tables().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["after", "blobs", "people", "raw", "visits"]);
    assert_eq!(raw.options("raw").unwrap(), b"options of the table");
    assert_eq!(raw.prepared(), [b"kept"]);
    let table = raw.open_table("raw").unwrap();
    let (mut txn, mut value) = (begin(raw), Vec::new());
    assert!(txn.get(&table, 0, &29u32.to_be_bytes(), None, &mut value).unwrap());
    assert_eq!(value, b"row");
    let entry = [971u32.to_be_bytes(), 29u32.to_be_bytes()].concat();
    assert!(txn.get(&table, 1, &entry, None, &mut value).unwrap());
    assert!(!txn.get(&table, 0, &30u32.to_be_bytes(), None, &mut value).unwrap());
    txn.commit(FlushAtCommit::Sync).unwrap();
    raw.adopt(b"kept").unwrap().commit(FlushAtCommit::Sync).unwrap();
    let mut txn = begin(raw);
    assert!(txn.get(&table, 0, &30u32.to_be_bytes(), None, &mut value).unwrap());
    assert_eq!(value, b"prepared");
}

/// Reads the database, first without writing to it, changes it, and opens it again.
fn check(disk: &MemoryDisk, page_size: usize, end: End) {
    let builder = settings(page_size, Arc::new(disk.clone()));
    let db = builder.open_read_only("test").unwrap();
    check_rows(&db, end);
    db.close().unwrap();

    let raw = RawDatabase::new(builder.open("test").unwrap());
    let db = raw.database().clone();
    check_rows(&db, end);
    common::assert_sound(&db);
    check_raw(&raw);
    let last = LENGTHS.len() as u32 - 1;
    db.transact(|txn| {
        txn.open_table(&BLOBS)?.update(last, &blob(last - 1))?;
        insert_people(txn, 1_000..1_300)
    })
    .unwrap();
    common::assert_sound(&db);
    raw.close().unwrap();

    let db = builder.open("test").unwrap();
    let txn = db.begin_read().unwrap();
    assert_eq!(txn.open_table(&people()).unwrap().iter().unwrap().count(), expected_people(end).len() + 300);
    assert_eq!(txn.open_table(&BLOBS).unwrap().get(last).unwrap(), Some(blob(last - 1)));
    common::assert_sound(&db);
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn kinds() -> impl Iterator<Item = (usize, End, String)> {
    [4_096, 16_384].into_iter().flat_map(|page_size| {
        [End::Closed, End::Killed].map(|end| {
            let name = format!("pages-of-{}k-{end:?}.zip", page_size >> 10).to_lowercase();
            (page_size, end, name)
        })
    })
}

fn zipped(disk: &MemoryDisk) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for name in disk.list().unwrap() {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        zip.start_file(name, options.compression_level(Some(9))).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn unzipped(path: &Path) -> MemoryDisk {
    let mut zip = ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    let disk = MemoryDisk::new();
    for i in 0..zip.len() {
        let mut entry = zip.by_index(i).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let file = disk.open(&entry.name().unwrap(), OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
        file.write_at(0, &bytes).unwrap();
    }
    disk
}

#[test]
fn every_kept_database_opens_and_has_all_its_rows() {
    let versions: Vec<_> = std::fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(versions.iter().any(|folder| folder.ends_with("format-1")), "the first format is never given up");
    for folder in versions {
        for (page_size, end, name) in kinds() {
            println!("{}", folder.join(&name).display());
            check(&unzipped(&folder.join(name)), page_size, end);
        }
    }
}

#[test]
fn a_database_of_the_present_version_has_the_same_rows() {
    for (page_size, end, _) in kinds() {
        check(&write(page_size, end), page_size, end);
    }
}

/// Not a test: `cargo xtask fixtures` runs it. `HOLDFAST_FORMAT` is the version of the format.
#[test]
#[ignore = "writes the archives of the present version"]
fn archives_are_written() {
    let version = std::env::var("HOLDFAST_FORMAT").expect("`cargo xtask fixtures` says which format this is");
    let folder = fixtures().join(format!("format-{version}"));
    // An archive that is there was written by a release, and stays.
    std::fs::create_dir(&folder).unwrap();
    for (page_size, end, name) in kinds() {
        std::fs::write(folder.join(name), zipped(&write(page_size, end))).unwrap();
    }
}
