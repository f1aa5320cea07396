//! `check --salvage` of a database that opens saves each table, whatever became of the others. Of a
//! table whose header is damaged it saves the rows from the pages of its file, and it names a table
//! of which it saves nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast::{Database, TableDefinition};
use holdfast_base::{IndexId, page};
use holdfast_tree::node::NodeRef;

const NAMES: [&str; 3] = ["first", "second", "third"];
const COUNT: u64 = 500;

fn definition(name: &str) -> TableDefinition<u64, &'static str> {
    TableDefinition::named(name)
}

/// A closed database with three tables, and the path of the file of `lost`.
fn database(dir: &Path, lost: &str) -> (PathBuf, PathBuf) {
    let data = dir.join("data.hf");
    let db = Database::builder().page_size(4096).create(&data).unwrap();
    for name in NAMES {
        db.transact(|txn| (0..COUNT).try_for_each(|n| txn.open_table(&definition(name))?.insert(n, "value"))).unwrap();
    }
    let file = db.list_tables().into_iter().find(|table| table.name == lost).unwrap().file;
    db.close().unwrap();
    (data.clone(), data.join(file))
}

fn salvage(data: &Path, target: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("check").arg(data).arg("--salvage").arg(target).args(more).output().unwrap()
}

fn rows(db: &Database, name: &str) -> usize {
    db.begin_read().unwrap().open_table(&definition(name)).unwrap().iter().unwrap().map(Result::unwrap).count()
}

#[test]
fn the_file_of_a_table_is_missing() {
    for lost in NAMES {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = database(dir.path(), lost);
        fs::remove_file(&file).unwrap();
        let target = dir.path().join("rescued.hf");
        let out = salvage(&data, &target, &[]);
        let shown = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(out.status.code(), Some(3), "{shown}{}", String::from_utf8_lossy(&out.stderr));
        assert!(shown.contains(&format!("{lost}: nothing was rescued")), "{shown}");
        let rescued = Database::open(&target).unwrap();
        let names: Vec<String> = rescued.list_tables().into_iter().map(|table| table.name).collect();
        let others: Vec<&str> = NAMES.into_iter().filter(|name| *name != lost).collect();
        assert_eq!(names, others);
        assert!(others.iter().all(|name| rows(&rescued, name) as u64 == COUNT));
    }
}

/// The check found the one table sound that it was asked to look at, and the command succeeded.
#[test]
fn of_tables_that_were_not_checked_too() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = database(dir.path(), "second");
    fs::remove_file(&file).unwrap();
    let target = dir.path().join("rescued.hf");
    let out = salvage(&data, &target, &["--table", "first"]);
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(shown.contains("is sound") && shown.contains("second: nothing was rescued"), "{shown}");
    assert_eq!(out.status.code(), Some(3), "{shown}");
}

/// Its file lies on another file system, and the log is lost.
#[test]
fn a_file_behind_a_link_is_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = database(dir.path(), "second");
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    let check = Command::new(env!("CARGO_BIN_EXE_holdfast")).arg("check").arg(&data).output().unwrap();
    assert_eq!(check.status.code(), Some(0), "{}", String::from_utf8_lossy(&check.stdout));
    fs::remove_file(data.join("checkpoint")).unwrap();
    let target = dir.path().join("rescued.hf");
    let out = salvage(&data, &target, &[]);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    let rescued = Database::open(&target).unwrap();
    assert!(NAMES.iter().all(|name| rows(&rescued, name) as u64 == COUNT));
}

#[test]
fn the_header_of_a_table_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = database(dir.path(), "second");
    let mut bytes = fs::read(&file).unwrap();
    bytes[..4096].fill(0xee);
    fs::write(&file, bytes).unwrap();
    let target = dir.path().join("rescued.hf");
    let out = salvage(&data, &target, &["--json"]);
    assert_eq!(out.status.code(), Some(3), "{}", String::from_utf8_lossy(&out.stderr));
    let shown: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let salvaged = shown["salvaged"].as_array().unwrap();
    let found: Vec<_> =
        salvaged.iter().map(|table| (table["table"].as_str().unwrap(), table["rows"].as_u64())).collect();
    assert_eq!(found, NAMES.map(|name| (name, Some(COUNT))), "{shown:#}");
    let rescued = Database::open(&target).unwrap();
    assert!(NAMES.iter().all(|name| rows(&rescued, name) as u64 == COUNT));
}

/// Changes what the catalog says of table `second`: `change` is given the page, and where the key
/// and the record begin. The page gets a right checksum.
fn change_catalog(data: &Path, change: impl FnOnce(&mut [u8], usize, usize)) {
    let system = data.join("system.hf");
    let mut bytes = fs::read(&system).unwrap();
    // The leaf of the catalog, which is index 1.
    let leaf = bytes.chunks_exact_mut(4096).find(|page| page[12] == 3 && page[13] == 0 && page[24] == 1).unwrap();
    let node = NodeRef::new(&*leaf, IndexId(1)).unwrap();
    let slot = (0..node.count().unwrap()).find(|&slot| node.key(slot).unwrap() == b"tsecond").unwrap();
    let at = |bytes: &[u8]| bytes.as_ptr() as usize - leaf.as_ptr() as usize;
    let key = at(node.suffix(slot).unwrap()) - node.prefix_len().unwrap();
    // The record comes behind a version header.
    let record = at(node.payload(slot).unwrap()) + 17;
    change(leaf, key, record);
    page::seal(leaf);
    fs::write(&system, bytes).unwrap();
    fs::remove_file(data.join("doublewrite")).unwrap();
}

/// A bit in the name flips, to a control character, which no table can have in its name. The
/// salvage of all tables ended there.
#[test]
fn the_name_of_a_table_is_damaged() {
    for opens in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (data, file) = database(dir.path(), "second");
        change_catalog(&data, |leaf, key, _| {
            let letter = &mut leaf[key + "tsec".len()];
            assert_eq!(*letter, b'o');
            *letter = 0x7f;
        });
        if !opens {
            fs::remove_file(data.join("checkpoint")).unwrap();
        }
        let target = dir.path().join("rescued.hf");
        let out = salvage(&data, &target, &[]);
        let shown = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let file = file.file_name().unwrap().to_str().unwrap();
        assert!(shown.contains(&format!("{file}: {COUNT} rows rescued")), "{shown}");
        let rescued = Database::open(&target).unwrap();
        assert!(["first", file, "third"].iter().all(|name| rows(&rescued, name) as u64 == COUNT));
    }
}

/// The catalog's record of a table is none. Its rows are in a file that no table has then, and
/// nothing of them was saved.
#[test]
fn the_record_of_a_table_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = database(dir.path(), "second");
    // Its format.
    change_catalog(&data, |leaf, _, record| leaf[record] = 9);

    let target = dir.path().join("rescued.hf");
    let out = salvage(&data, &target, &[]);
    let shown = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(out.status.code(), Some(3), "{shown}{}", String::from_utf8_lossy(&out.stderr));
    assert!(shown.contains("second: nothing was rescued"), "{shown}");
    let rescued = Database::open(&target).unwrap();
    assert!(["first", "third"].iter().all(|name| rows(&rescued, name) as u64 == COUNT));
    let plain = TableDefinition::untyped(file.file_name().unwrap().to_str().unwrap());
    let txn = rescued.begin_read().unwrap();
    let saved = txn.open_table(&plain).unwrap().iter().unwrap().map(Result::unwrap).count();
    assert_eq!(saved as u64, COUNT, "{shown}");
}
