//! A flipped bit anywhere - in a page of any kind, in a record of any kind of the log, in any other
//! file - is a clear error that says where, or does no harm at all: never a panic, never a row that
//! is lost or changed without a word. A bad page disables its table, and the others go on. A sample
//! of bits by default, many more with `HOLDFAST_EXHAUSTIVE=1`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast::io::{Create, Disk, FileKind, MemoryDisk, OpenOptions};
use holdfast::{Builder, Database, Error, FlushAtCommit, ReadOptions, VerifyOptions, WriteOptions};
use holdfast_base::codec::Reader;
use holdfast_base::page::{self, PageHeader, PageType};
use holdfast_testkit::CrashDisk;
use holdfast_tree::op::PageOp;
use holdfast_wal::LogReader;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common;
use crate::common::script::{Act, Player, World, puts, script, table, value, world};

const PAGE: usize = 4096;

/// The files of a database.
type Files = BTreeMap<String, Vec<u8>>;

fn settings(disk: Arc<dyn Disk>) -> Builder {
    Database::builder()
        .cache_size_bytes(5 << 20)
        .log_capacity_bytes(4 << 20)
        .log_buffer_bytes(64 << 10)
        .version_limit_bytes(1 << 20)
        .page_size(PAGE)
        .warm_up(false)
        .disk(disk)
}

fn files(disk: &dyn Disk) -> Files {
    let read = |name: String| {
        let file = disk.open(&name, OpenOptions::new(FileKind::Meta)).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    };
    disk.list().unwrap().into_iter().map(read).collect()
}

fn disk(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for (name, bytes) in files {
        let file = disk.open(name, OpenOptions::new(FileKind::Meta).create(Create::New)).unwrap();
        file.write_at(0, bytes).unwrap();
    }
    disk
}

fn flipped(files: &Files, name: &str, offset: usize, bit: u32) -> MemoryDisk {
    let mut files = files.clone();
    files.get_mut(name).unwrap()[offset] ^= 1u8.rotate_left(bit);
    disk(&files)
}

/// A database in the middle of its life, and all the states that it was in.
struct Life {
    files: Files,
    states: Vec<World>,
    /// The file of each table.
    tables: BTreeMap<String, String>,
}

impl Life {
    fn last(&self) -> &World {
        self.states.last().unwrap()
    }
}

/// Plays the script, then makes history that a long snapshot holds back: undo pages and versions.
/// Ends with a clean stop or a power cut.
fn live(stop: bool) -> Life {
    live_in(settings, stop)
}

fn live_in(settings: impl Fn(Arc<dyn Disk>) -> Builder, stop: bool) -> Life {
    let crash = CrashDisk::new();
    let db = settings(Arc::new(crash.clone())).create("test").unwrap();
    let mut player = Player::new(&db, World::new());
    let mut states = Vec::new();
    for act in script() {
        player.play(&act).unwrap();
        states.push(player.world.clone());
    }
    player.play(&Act::Create("long")).unwrap();
    // Three levels; and what is rolled back removes rows, merges nodes, gives pages back.
    player.play(&Act::LoadLong("wide", 1_200)).unwrap();
    player.play(&Act::RollBack("c", puts(200..300, 1, 900))).unwrap();
    let mut rows = player.world;
    put(&db, &mut rows, 0, 9_000);
    let look = db.begin_read().unwrap();
    look.open_table(&table("long")).unwrap().get(0).unwrap();
    // So many commits behind, the snapshot needs versions of its own.
    (1..1_100).for_each(|version| put(&db, &mut rows, version, 400));
    // One transaction will not have ended.
    let open = db.begin_write().unwrap();
    open.open_table(&table("a")).unwrap().upsert(3, &value(3, 99, 9_000)).unwrap();
    db.transact(|txn| txn.open_table(&table("long"))?.upsert(9, &value(9, 0, 10)).map(drop)).unwrap();
    rows.get_mut("long").unwrap().insert(9, value(9, 0, 10));
    states.push(rows.clone());
    db.transact(|txn| txn.open_table(&table("long"))?.upsert(10, &value(10, 0, 10)).map(drop)).unwrap();
    rows.get_mut("long").unwrap().insert(10, value(10, 0, 10));
    states.push(rows);
    let tables = db.list_tables().into_iter().map(|t| (t.name, t.file)).collect();
    let files = if stop {
        db.clone().close().unwrap();
        files(&crash)
    } else {
        files(&crash.reboot(0))
    };
    drop((look, open));
    Life { files, states, tables }
}

fn put(db: &Database, world: &mut World, version: u32, len: usize) {
    let key = u64::from(version % 8);
    let lazily = WriteOptions::new().flush_at_commit(FlushAtCommit::Lazy);
    db.transact_with(&lazily, |txn| txn.open_table(&table("long"))?.upsert(key, &value(key, version, len)).map(drop))
        .unwrap();
    world.get_mut("long").unwrap().insert(key, value(key, version, len));
}

/// The rows of one table.
fn rows(db: &Database, name: &str) -> Result<BTreeMap<u64, String>, Error> {
    let txn = db.begin_read()?;
    txn.open_table(&table(name))?.range_with(.., &ReadOptions::new())?.collect()
}

fn says_where(error: &Error, file: &str, places: &[String]) {
    let text = error.to_string();
    assert!(error.is_damage(), "{file}: {text}");
    assert!(
        text.contains(file) || places.iter().any(|place| text.contains(place)),
        "{text} does not name {file} or {places:?}"
    );
}

/// Opens a database in whose `file` a bit of `page` is flipped, and holds it to its word. Returns
/// whether it was noticed.
fn check_page(life: &Life, flipped: MemoryDisk, file: &str, page: usize, kind: &str) -> bool {
    let own = ["system.hf", "undo.hf"].iter().position(|own| *own == file);
    let space = own.unwrap_or_else(|| file[1..].trim_end_matches(".hf").parse().unwrap());
    let places = [format!("{space}:{page}")];
    let db = match settings(Arc::new(flipped)).open("test") {
        Ok(db) => db,
        Err(error) => {
            says_where(&error, file, &places);
            assert!(own.is_some(), "a {kind} page of a table keeps the database shut: {error}");
            return true;
        }
    };
    let report = db.verify(&VerifyOptions::new(), &mut |_| {}).unwrap();
    let mut noticed = !report.is_clean();
    for (name, expected) in life.last() {
        match rows(&db, name) {
            Ok(found) => assert!(found == *expected, "{kind} page {page} of {file}: rows of {name} are lost"),
            Err(error) => {
                assert_eq!(life.tables[name], file, "{kind} page {page}: {error}");
                says_where(&error, file, &places);
                assert!(noticed, "{kind} page {page} of {file}: verify() finds nothing");
                noticed = true;
            }
        }
        // The others can be written to; of the table itself it depends on what is asked for.
        let written = db.transact(|txn| txn.open_table(&table(name))?.upsert(7_777, &value(7_777, 1, 30)).map(drop));
        if let Err(error) = written {
            assert!(own.is_some() || life.tables[name] == file, "{kind} page {page} of {file}, {name}: {error}");
            says_where(&error, file, &places);
        }
    }
    noticed
}

fn kind_of(file: &str, bytes: &[u8], roots: &BTreeSet<(String, u32)>, no: usize) -> Option<&'static str> {
    let header = PageHeader::decode(bytes)?;
    let is_root = roots.contains(&(file.to_string(), no as u32));
    Some(match (header.page_type, header.level, header.index.0) {
        (PageType::Free, ..) => "free",
        (PageType::Tree, ..) if file == "system.hf" => "catalog",
        (PageType::Tree, _, 0xffff_ffff) => "version tree",
        (PageType::Tree, _, _) if is_root => "root",
        (PageType::Tree, 0, _) => "leaf",
        (PageType::Tree, ..) => "inner",
        (page_type, ..) => page_type.name(),
    })
}

/// Pages by kind: file and number.
fn kinds(files: &Files) -> BTreeMap<&'static str, Vec<(String, usize)>> {
    let mut roots = BTreeSet::new();
    let mut highest = BTreeMap::new();
    let spaces = || files.iter().filter(|(name, _)| name.ends_with(".hf"));
    for (name, bytes) in spaces() {
        for (no, page) in bytes.chunks_exact(PAGE).enumerate() {
            if let Some(header) = PageHeader::decode(page).filter(|h| h.page_type == PageType::Tree) {
                let top = highest.entry((name.clone(), header.index.0)).or_insert((header.level, no as u32));
                *top = (*top).max((header.level, no as u32));
            }
        }
    }
    roots.extend(highest.into_iter().filter(|(_, (level, _))| *level > 0).map(|((name, _), (_, no))| (name, no)));
    let mut kinds: BTreeMap<&'static str, Vec<(String, usize)>> = BTreeMap::new();
    for (name, bytes) in spaces() {
        for (no, page) in bytes.chunks_exact(PAGE).enumerate() {
            let Some(kind) = kind_of(name, page, &roots, no) else { continue };
            kinds.entry(kind).or_default().push((name.clone(), no));
        }
    }
    kinds
}

/// True if the power cut came in the middle of writing a page home, which takes the double-write
/// file to repair.
fn is_a_page_torn(files: &Files) -> bool {
    let spaces = files.iter().filter(|(name, _)| name.ends_with(".hf"));
    spaces.flat_map(|(_, bytes)| bytes.chunks_exact(PAGE)).any(|page| {
        let id = PageHeader::decode(page).map(|header| header.id);
        !page::is_blank(page) && id.is_none_or(|id| page::check(page, id).is_err())
    })
}

fn samples() -> usize {
    if common::exhaustive() { 400 } else { 8 }
}

#[test]
fn in_every_kind_of_page() {
    let life = live(true);
    let mut rng = SmallRng::seed_from_u64(18);
    let kinds = kinds(&life.files);
    for kind in [
        "space header",
        "allocation",
        "root",
        "inner",
        "leaf",
        "overflow",
        "undo",
        "undo directory",
        "version tree",
        "catalog",
    ] {
        let pages = kinds.get(kind).unwrap_or_else(|| panic!("there is no {kind} page: {:?}", kinds.keys()));
        let mut noticed = 0;
        for _ in 0..samples() {
            let (file, page) = &pages[rng.random_range(0..pages.len())];
            let mut files = life.files.clone();
            // It would repair the pages that were written last.
            files.remove("doublewrite");
            let (offset, bit) = (rng.random_range(0..PAGE), rng.random_range(0..8));
            let disk = flipped(&files, file, page * PAGE + offset, bit);
            noticed += usize::from(check_page(&life, disk, file, *page, kind));
        }
        assert!(noticed > 0, "{kind}: no flipped bit was noticed");
    }
}

/// Rows of a transaction that is being rolled back were looked up among the kept old versions when
/// its undo record was gone, so that damage there could hit readers that needed none of them.
#[test]
fn old_versions_are_no_matter_to_rows_being_rolled_back() {
    let life = live(true);
    let disk: Arc<dyn Disk> = Arc::new(disk(&life.files));
    let db = settings(Arc::clone(&disk)).open("test").unwrap();
    let open = db.begin_write().unwrap();
    {
        let wide = open.open_table(&table("wide")).unwrap();
        for key in 0..1_200 {
            wide.upsert(key, &value(key, 1, 100)).unwrap();
        }
    }
    db.clone().close().unwrap();
    drop(open);
    let mut files = files(&*disk);
    files.remove("doublewrite");
    for (file, page) in &kinds(&files)["version tree"] {
        let db = settings(Arc::new(flipped(&files, file, page * PAGE + 2_000, 3))).open("test").unwrap();
        // Until the rollback is through, and a little more.
        for _ in 0..10 {
            assert!(rows(&db, "wide").unwrap() == life.last()["wide"], "version tree page {page}");
        }
    }
}

/// After a power cut the log has records for pages that are damaged: the others get theirs all the
/// same.
#[test]
fn in_pages_that_recovery_needs() {
    let life = live(false);
    let is_torn = is_a_page_torn(&life.files);
    let db = settings(Arc::new(disk(&life.files))).open("test").unwrap();
    assert!(world(&db).unwrap() == *life.last());
    drop(db);
    let mut rng = SmallRng::seed_from_u64(19);
    for (kind, pages) in kinds(&life.files) {
        for _ in 0..samples() / 2 {
            let (file, page) = &pages[rng.random_range(0..pages.len())];
            let mut files = life.files.clone();
            if rng.random_bool(0.5) && !is_torn {
                files.remove("doublewrite");
            }
            let disk = flipped(&files, file, page * PAGE + rng.random_range(0..PAGE), rng.random_range(0..8));
            check_page(&life, disk, file, *page, kind);
        }
    }
}

#[test]
fn in_the_double_write_file() {
    for life in [live(true), live(false)] {
        let mut rng = SmallRng::seed_from_u64(20);
        for _ in 0..samples() {
            let offset = rng.random_range(0..life.files["doublewrite"].len());
            let db = settings(Arc::new(flipped(&life.files, "doublewrite", offset, rng.random_range(0..8))))
                .open("test")
                .unwrap();
            assert!(world(&db).unwrap() == *life.last());
            common::assert_sound(&db);
        }
    }
}

/// Where the log's bytes lie: for each segment file the position of its first byte behind the
/// header. A segment that was being created when the life ended has no header yet.
fn segments(files: &Files) -> BTreeMap<u64, String> {
    let start = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.get(40..48)?.try_into().unwrap()));
    let of_log = files.iter().filter(|(name, _)| name.starts_with("wal."));
    of_log.filter_map(|(name, bytes)| Some((start(bytes)?, name.clone()))).collect()
}

/// With a log of twice what a life writes, the checkpoint has not passed over all records of some
/// kind, wherever the machine let it come.
#[test]
fn in_every_kind_of_log_record() {
    let settings = |disk| settings(disk).log_capacity_bytes(8 << 20);
    let life = live_in(settings, false);
    let segments = segments(&life.files);
    let mut by_kind: BTreeMap<&'static str, Vec<(u64, u64)>> = BTreeMap::new();
    let mut reader = LogReader::open(&disk(&life.files), None).unwrap();
    while let Some(group) = reader.next().unwrap() {
        let (mut from, mut last) = (Reader::new(group.payload), None);
        while let Some((page, op)) = PageOp::decode(&mut from, last) {
            last = Some(page);
            by_kind.entry(op.name()).or_default().push((group.start.0, group.end.0));
        }
    }
    assert_eq!(by_kind.len(), 12, "records of some kinds are missing: {:?}", by_kind.keys());
    let mut rng = SmallRng::seed_from_u64(21);
    for (kind, groups) in by_kind {
        let mut refused = 0;
        for _ in 0..samples() {
            let (start, end) = groups[rng.random_range(0..groups.len())];
            let at = rng.random_range(start..end);
            let (base, name) = segments.range(..=at).next_back().unwrap();
            let disk = flipped(&life.files, name, 4096 + (at - base) as usize, rng.random_range(0..8));
            match settings(Arc::new(disk)).open("test") {
                Err(error) => {
                    says_where(&error, "wal.", &["the log".into(), "checkpoint".into()]);
                    refused += 1;
                }
                // The very last flush cannot be told from one that the power cut off: at most what
                // it acknowledged is missing.
                Ok(db) => {
                    let found = world(&db).unwrap();
                    assert!(life.states.iter().rev().take(2).any(|state| *state == found), "{kind} at {at}: lost");
                    common::assert_sound(&db);
                }
            }
        }
        assert!(refused > 0, "{kind}: no flipped bit was noticed");
    }
}

#[test]
fn in_the_files_that_say_what_is_where() {
    let mut rng = SmallRng::seed_from_u64(22);
    for life in [live(true), live(false)] {
        let names = life.files.keys().filter(|name| !name.ends_with(".hf") && *name != "doublewrite");
        for name in names {
            // The log's bytes are another test's; here it is the segments' headers.
            let len = life.files[name].len().min(if name.starts_with("wal.") { 96 } else { 8192 });
            for _ in 0..samples() {
                let disk = flipped(&life.files, name, rng.random_range(0..len), rng.random_range(0..8));
                match settings(Arc::new(disk)).open("test") {
                    Err(error) => says_where(&error, name, &["the log".into(), "checkpoint".into()]),
                    Ok(db) => {
                        assert!(world(&db).unwrap() == *life.last(), "{name}: something was lost");
                        common::assert_sound(&db);
                    }
                }
            }
        }
    }
}
