//! Creating, and opening, leave alone what they cannot account for: the files of a database that
//! lacks some, files of other databases, files of none. Only a creation that was cut short is
//! cleared away.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast::io::{Create, DirLock, DirLockMode, Disk, File, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Error, Result, VerifyOptions};
use holdfast_testkit::CrashDisk;

use crate::common::{self, ROWS};

type Files = Vec<(String, Vec<u8>)>;

fn files(disk: &MemoryDisk) -> Files {
    let read = |name: String| {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

/// A closed database with 1,000 rows, and the name of their file.
fn closed() -> (MemoryDisk, String) {
    let (disk, db) = common::on_memory_disk();
    common::fill(&db, 0, 1_000);
    let file = db.list_tables()[0].file.clone();
    db.close().unwrap();
    (disk, file)
}

fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(name, OpenOptions::new(FileKind::Meta).create(Create::IfMissing)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// Neither a creation nor an open takes the directory, nothing in it changes, and the error names
/// what is wrong.
fn assert_refused(disk: &MemoryDisk, what: &str) {
    let before = files(disk);
    let builder = common::small().disk(Arc::new(disk.clone()));
    for error in [
        builder.create("test").unwrap_err(),
        builder.open("test").unwrap_err(),
        builder.create_or_open("test").unwrap_err(),
        builder.open_read_only("test").unwrap_err(),
    ] {
        assert!(!matches!(error, Error::NotADatabase(_)), "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains(what) || matches!(error, Error::AlreadyExists(_)), "{what}: {text}");
    }
    assert!(files(disk) == before, "{what}");
}

#[test]
fn a_database_without_one_of_its_own_files_is_refused_and_kept() {
    for lost in ["holdfast.meta", "checkpoint", "system.hf", "undo.hf"] {
        let (disk, _) = closed();
        let bytes = files(&disk).into_iter().find(|(name, _)| name == lost).unwrap().1;
        disk.remove(lost).unwrap();
        assert_refused(&disk, lost);
        for cut in [0, 100.min(bytes.len() / 2)] {
            put(&disk, lost, &bytes[..cut]);
            assert_refused(&disk, lost);
        }
        put(&disk, lost, &bytes);
        common::assert_filled(&common::open_on(&disk), 0, 1_000);
    }
}

#[test]
fn what_a_copy_has_brought_so_far_is_kept() {
    let (disk, file) = closed();
    for name in ["checkpoint", "system.hf", "undo.hf", &file, "wal.000001"] {
        let bytes = files(&disk).into_iter().find(|(found, _)| found == name).unwrap().1;
        let copy = MemoryDisk::new();
        put(&copy, name, &bytes);
        assert_refused(&copy, name);
        // The mark of an unfinished creation does not make a table's file one of its own.
        put(&copy, "holdfast.meta.new", b"HOLDFAST");
        if name == file {
            assert_refused(&copy, name);
        }
    }
}

/// An empty disk to which a copy brings these files behind the last of so many looks at what is
/// there, unless a creation has begun by then.
#[derive(Clone)]
struct CopiedTo {
    disk: MemoryDisk,
    files: Arc<Files>,
    looks: Arc<AtomicUsize>,
}

impl Disk for CopiedTo {
    fn open(&self, name: &str, options: OpenOptions) -> Result<Arc<dyn File>> {
        self.disk.open(name, options)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>> {
        let names = self.disk.list()?;
        if self.looks.fetch_sub(1, Ordering::Relaxed) == 1 && !self.disk.exists("holdfast.meta.new")? {
            self.files.iter().for_each(|(name, bytes)| put(&self.disk, name, bytes));
        }
        Ok(names)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.disk.exists(name)
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir()
    }

    fn lock(&self, mode: DirLockMode) -> Result<DirLock> {
        self.disk.lock(mode)
    }

    fn location(&self) -> String {
        self.disk.location()
    }
}

/// The files that were removed were not those that had been looked at: a database that was moved
/// there in between was erased.
#[test]
fn a_database_that_is_copied_there_before_the_creation_begins_is_kept() {
    let (whole, _) = closed();
    let whole = Arc::new(files(&whole));
    for looks in 1.. {
        let disk = MemoryDisk::new();
        let copied_to = CopiedTo { disk: disk.clone(), files: whole.clone(), looks: Arc::new(AtomicUsize::new(looks)) };
        let created = common::small().disk(Arc::new(copied_to)).create("test");
        if created.is_ok() {
            assert!(looks > 2, "the copy came behind each look");
            break;
        }
        let there = files(&disk);
        assert!(whole.iter().all(|file| there.contains(file)), "behind {looks} looks");
        common::assert_filled(&common::open_on(&disk), 0, 1_000);
    }
}

#[test]
fn a_creation_that_was_cut_short_is_cleared_away() {
    let operations = {
        let (disk, _db) = common::on_crash_disk();
        disk.operations()
    };
    let step = if common::exhaustive() { 1 } else { 7 };
    for cut in (0..operations).step_by(step) {
        let disk = CrashDisk::new();
        disk.crash_after(cut);
        let _ = common::small().disk(Arc::new(disk.clone())).create("test");
        for seed in 0..4 {
            let disk = disk.reboot(seed);
            let db = common::small().disk(Arc::new(disk.clone())).create_or_open("test").unwrap();
            common::fill(&db, 0, 10);
            common::assert_sound(&db);
            assert!(!disk.exists("holdfast.meta.new").unwrap());
        }
    }
}

#[test]
fn a_file_that_no_table_has_stays_unless_it_is_a_leftover() {
    let (disk, file) = closed();
    let (other, _) = closed();
    let of_other = files(&other).into_iter().find(|(name, _)| *name == file).unwrap().1;
    let own = files(&disk).into_iter().find(|(name, _)| *name == file).unwrap().1;
    // A number that the database has not given out; one that it has, but another database's file;
    // no file of pages.
    let strangers = [("t99.hf", &own), ("t18.hf", &of_other), ("t19.hf", &b"something else".to_vec())];
    for (name, bytes) in strangers {
        put(&disk, name, bytes);
    }
    // Two that a creation left: before its header was written, and with nothing in it.
    put(&disk, "t20.hf", &[0; 8 * 4096]);
    put(&disk, "t21.hf", &[]);
    let db = common::open_on(&disk);
    for (name, bytes) in strangers {
        assert!(files(&disk).contains(&(name.to_string(), bytes.clone())), "{name}");
    }
    assert!(!disk.exists("t20.hf").unwrap() && !disk.exists("t21.hf").unwrap());
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let mut found: Vec<&str> = report.findings.iter().map(|finding| finding.table.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["t18.hf", "t19.hf", "t99.hf"]);
    // New tables go round them.
    for n in 0..90 {
        db.create_table(&holdfast::TableDefinition::<u64, u64>::named(format!("table {n}"))).unwrap();
    }
    drop(db);
    let db = common::open_on(&disk);
    common::assert_filled(&db, 0, 1_000);
    assert_eq!(db.list_tables().len(), 91);
    for (name, bytes) in strangers {
        if name != "t99.hf" {
            assert!(files(&disk).contains(&(name.to_string(), bytes.clone())), "{name}");
        }
    }
}

#[test]
fn a_table_whose_file_is_another_databases_is_damaged_and_the_file_is_kept() {
    let (disk, file) = closed();
    let (other, _) = closed();
    let bytes = files(&other).into_iter().find(|(name, _)| *name == file).unwrap().1;
    put(&disk, &file, &bytes);
    let db = common::open_on(&disk);
    let error = db.begin_read().unwrap().open_table(&ROWS).unwrap().get(1).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("another database"), "{error}");
    db.close().unwrap();
    assert!(files(&disk).contains(&(file, bytes)));
}

#[test]
fn a_segment_of_the_log_of_another_database_is_refused_and_kept() {
    let (disk, _) = closed();
    let (other, _) = closed();
    let bytes = files(&other).into_iter().find(|(name, _)| name == "wal.000001").unwrap().1;
    put(&disk, "wal.000077", &bytes);
    assert_refused(&disk, "wal.000077");
}

#[test]
fn a_directory_with_other_files_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("checkpoint.old"), "mine").unwrap();
    let error = common::small().create(dir.path()).unwrap_err();
    assert!(error.to_string().contains("checkpoint.old"), "{error}");
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["checkpoint.old"]);
}
