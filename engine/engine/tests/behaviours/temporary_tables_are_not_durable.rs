//! Nothing waits for the disk on account of a temporary table. It ends with the run of the
//! database: an open drops what a crash has left of it, and a backup does not have it.

use std::sync::Arc;

use holdfast::BackupOptions;
use holdfast::Database;
use holdfast::FlushAtCommit;
use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::metrics::Counter;
use holdfast::raw::{Lifetime, RawDatabase};
use holdfast_base::{Lsn, page};
use holdfast_testkit::{CrashDisk, Fault, FaultDisk, FaultOp};

use crate::common::{self, rows};

const COMMITS: u32 = 200;

fn raw(db: &Database) -> RawDatabase {
    RawDatabase::new(db.clone())
}

fn create(db: &RawDatabase, name: &str, lifetime: Lifetime) -> holdfast::Result<()> {
    db.create_table(name, &[("second", false)], b"", lifetime)
}

/// Inserts rows, a transaction each.
fn insert(db: &RawDatabase, name: &str, rows: u32) -> holdfast::Result<()> {
    let table = db.open_table(name)?;
    for n in 0..rows {
        let mut txn = db.begin(&rows::OPTIONS)?;
        rows::insert(&mut txn, &table, n, b"row", 1000 - n)?;
        txn.commit(FlushAtCommit::Sync)?;
    }
    Ok(())
}

#[test]
fn nobody_waits_for_the_disk() {
    let disk = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let db = raw(&common::small().disk(Arc::new(disk.clone())).create("test").unwrap());
    create(&db, "lasting", Lifetime::Lasting).unwrap();
    let syncs = || db.database().metrics().get(Counter::OsLogFsyncs);
    let before = syncs();
    insert(&db, "lasting", COMMITS).unwrap();
    assert!(syncs() >= before + u64::from(COMMITS));

    // The second table's file, and the directory, cannot be synced.
    disk.schedule(Fault::nth(FaultOp::SyncDir, 1).sticky());
    disk.schedule(Fault::nth(FaultOp::Sync, 1).on("t17.hf").sticky());
    let before = syncs();
    create(&db, "temporary", Lifetime::Temporary).unwrap();
    insert(&db, "temporary", COMMITS).unwrap();
    db.truncate_table("temporary", common::WAIT).unwrap();
    insert(&db, "temporary", COMMITS).unwrap();
    db.drop_table("temporary", common::WAIT).unwrap();
    // The log is synced now and then for itself.
    assert!(syncs() < before + u64::from(COMMITS) / 2, "{} syncs", syncs() - before);
    assert!(create(&db, "other", Lifetime::Lasting).is_err());
    disk.clear();
}

#[test]
fn an_open_drops_what_a_crash_has_left() {
    for n in 0.. {
        let disk = CrashDisk::new();
        let db = raw(&common::create_on(&disk));
        create(&db, "lasting", Lifetime::Lasting).unwrap();
        insert(&db, "lasting", 10).unwrap();
        disk.crash_after(n);
        let run = || -> holdfast::Result<()> {
            create(&db, "temporary", Lifetime::Temporary)?;
            insert(&db, "temporary", 20)?;
            insert(&db, "temporary", 1).unwrap_err();
            db.database().checkpoint()?;
            db.drop_table("temporary", common::WAIT)?;
            create(&db, "temporary", Lifetime::Temporary)
        };
        let done = run().is_ok();
        let alive = !disk.is_dead();
        for seed in 0..3 {
            let after = disk.reboot(seed);
            let db = raw(&common::open_on(&after));
            let table = db.open_table("lasting").unwrap();
            assert_eq!(table.rows(0).unwrap(), 10, "after {n} operations, seed {seed}");
            assert_eq!(db.tables().len(), 1, "after {n} operations, seed {seed}");
            common::assert_sound(db.database());
            create(&db, "temporary", Lifetime::Temporary).unwrap();
            insert(&db, "temporary", 20).unwrap();
        }
        if alive {
            assert!(done);
            break;
        }
    }
}

/// A power cut brought the file of a dropped table back, and the log began behind the making of its
/// header: redo put a later change into a first page that was never written, and the file stayed.
#[test]
fn a_file_goes_whose_header_has_changes_and_was_never_made() {
    const PAGES: usize = 108;
    let (disk, db) = common::on_memory_disk();
    create(&raw(&db), "temporary", Lifetime::Temporary).unwrap();
    db.close().unwrap();
    let file = disk.open("t17.hf", OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
    let mut first = vec![0; 4096];
    first[PAGES] = 9;
    page::set_lsn(&mut first, Lsn(4096));
    page::seal(&mut first);
    file.set_len(8 * 4096).unwrap();
    file.write_at(0, &first).unwrap();
    let db = common::open_on(&disk);
    assert!(!disk.exists("t17.hf").unwrap());
    common::assert_sound(&db);
}

#[test]
fn a_check_finds_nothing_wrong_with_a_temporary_table() {
    let (_disk, db) = common::on_memory_disk();
    let raw = raw(&db);
    create(&raw, "temporary", Lifetime::Temporary).unwrap();
    common::assert_sound(&db);
    insert(&raw, "temporary", 10).unwrap();
    common::assert_sound(&db);
    raw.truncate_table("temporary", common::WAIT).unwrap();
    common::assert_sound(&db);
}

#[test]
fn a_backup_beside_it_can_be_restored() {
    let (_disk, db) = common::on_memory_disk();
    let raw = raw(&db);
    create(&raw, "lasting", Lifetime::Lasting).unwrap();
    insert(&raw, "lasting", 10).unwrap();
    create(&raw, "temporary", Lifetime::Temporary).unwrap();
    insert(&raw, "temporary", 10).unwrap();
    let copy: Arc<MemoryDisk> = Arc::new(MemoryDisk::new());
    db.backup("copy", &BackupOptions::new().disk(copy.clone())).unwrap();
    let builder = common::small().disk(copy);
    assert!(builder.restore("copy").unwrap().is_clean());
    let restored = self::raw(&builder.open("copy").unwrap());
    assert_eq!(restored.tables().iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["lasting"]);
}
