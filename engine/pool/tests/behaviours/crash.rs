//! Model test: random work against a map, a power cut at any operation, recovery from what the disk
//! kept. Every change whose log survived is there, nothing else is, and everything that was
//! promised survived.
//!
//! Short lives exercise the beginnings. In long ones the same pages are written many times, so that
//! writes rely on older images in the double-write file, and checkpoints pass these. In wide ones
//! there are more pages than the file has slots.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_base::codec::get_u64;
use holdfast_base::{Lsn, PageId, PageNo, Result, SpaceId};
use holdfast_io::{Disk, FileKind, OpenOptions};
use holdfast_metrics::{Counter, Metrics};
use holdfast_pool::{AccessKind, Pool, Space, restore_torn_pages};
use holdfast_testkit::CrashDisk;
use holdfast_wal::Wal;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common::{self, PAGE, UUID, change, config, file_name, open_space, put_value, read, value, wal_config};

/// What was logged: end of the group, page, value.
type Journal = Vec<(Lsn, u32, u64)>;

/// What lives are like.
#[derive(Clone, Copy)]
struct Kind {
    pages: u32,
    steps: u32,
    /// Operations of the disk before the power cut, at most.
    operations: u64,
    /// Of a hundred steps that may sync pages, those that do.
    syncs: u32,
}

const SHORT: Kind = Kind { pages: 60, steps: 400, operations: 400, syncs: 100 };
const LONG: Kind = Kind { steps: 6000, operations: 6000, syncs: 20, ..SHORT };
const WIDE: Kind = Kind { pages: 400, syncs: 2, ..LONG };

struct Life {
    metrics: Arc<Metrics>,
    wal: Arc<Wal>,
    pool: Arc<Pool>,
    space: Arc<Space>,
}

fn work(
    life: &Life,
    kind: Kind,
    rng: &mut SmallRng,
    journal: &mut Journal,
    model: &mut HashMap<u32, u64>,
) -> Result<()> {
    let Life { pool, space, wal, .. } = life;
    for _ in 0..kind.steps {
        let no = rng.random_range(0..kind.pages);
        match rng.random_range(0..100) {
            0..55 => {
                let acc = pool.access(AccessKind::Point);
                let mut guard = match model.contains_key(&no) {
                    true => pool.fix_exclusive(space, PageNo(no), &acc)?,
                    false => pool.fix_new(space, PageNo(no), &acc)?,
                };
                let v = rng.random();
                change(pool, &mut guard, v)?;
                journal.push((wal.next_lsn(), no, v));
                model.insert(no, v);
            }
            55..90 => {
                if let Some(&expected) = model.get(&no) {
                    assert_eq!(read(pool, space, no)?, expected);
                }
            }
            90..94 => wal.flush_to(wal.next_lsn())?,
            94.. if rng.random_range(0..100) >= kind.syncs => {}
            94..97 => drop(pool.checkpoint()?),
            97 => pool.flush_all()?,
            98 => pool.flush_space(space)?,
            _ => pool.resize(rng.random_range(32..56) * PAGE as u64)?,
        }
    }
    Ok(())
}

fn redo(pool: &Pool, space: &Space, payload: &[u8], end: Lsn, start: Lsn) -> Result<()> {
    let id = PageId::from_u64(get_u64(payload, 0).unwrap());
    let acc = pool.access(AccessKind::Recovery);
    let mut guard = pool.fix_exclusive(space, id.no, &acc)?;
    if guard.lsn() < end {
        put_value(guard.bytes_mut(), get_u64(payload, 8).unwrap());
        // A page that was blank does not know its address yet.
        let page = guard.bytes_mut();
        holdfast_base::codec::put_u32(page, holdfast_base::page::OFF_SPACE, id.space.0);
        holdfast_base::codec::put_u32(page, holdfast_base::page::OFF_PAGE_NO, id.no.0);
        guard.mark_dirty(start, end);
    }
    Ok(())
}

/// Opens what the power cut left; returns the end of its log.
fn recover(disk: &Arc<dyn Disk>) -> Result<(Life, Lsn)> {
    let metrics = Metrics::new();
    let (wal, mut recovery) = Wal::open(disk.clone(), UUID, wal_config(), metrics.clone())?;
    let log = recovery.checkpoint_lsn()..recovery.end_lsn();
    let torn = restore_torn_pages(&**disk, PAGE, log, &mut |id| {
        let name = file_name(id);
        if !disk.exists(&name)? {
            return Ok(None);
        }
        disk.open(&name, OpenOptions::new(FileKind::Data)).map(Some)
    })?;
    metrics.add(Counter::DblwrPagesRestored, torn.restored.len() as u64);
    let mut config = config(disk, 32);
    // As small as it can be.
    config.doublewrite_bytes = 0;
    config.max_bytes = 64 * PAGE as u64;
    let pool = Pool::new(config, wal.clone(), metrics.clone())?;
    let space = open_space(&pool, disk, SpaceId(16));
    let end = recovery.end_lsn();
    // First into memory: applying a group may write pages, which needs the log.
    let mut groups = Vec::new();
    while let Some(group) = recovery.next()? {
        groups.push((group.start, group.end, group.payload.to_vec()));
    }
    recovery.finish()?;
    for (start, end, payload) in groups {
        redo(&pool, &space, &payload, end, start)?;
    }
    pool.set_checkpoint_payload(|_| Vec::new());
    Ok((Life { metrics, wal, pool, space }, end))
}

/// Pages that were written to their files without an image in the double-write file, and pages that
/// were torn.
fn one_life_after_another(seed: u64, kind: Kind) -> [u64; 3] {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut disk = CrashDisk::new();
    drop(Wal::create(Arc::new(disk.clone()), UUID, wal_config(), Metrics::new()).unwrap());
    let (mut model, mut journal) = (HashMap::new(), Journal::new());
    let mut counted = [0; 3];
    for _ in 0..3 {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (life, end) = recover(&shared).unwrap();
        journal.retain(|&(lsn, _, _)| lsn <= end);
        model.clear();
        model.extend(journal.iter().map(|&(_, no, v)| (no, v)));
        for (&no, &expected) in &model {
            assert_eq!(read(&life.pool, &life.space, no).unwrap(), expected, "seed {seed}, page {no}");
        }
        disk.crash_after(rng.random_range(1..kind.operations));
        let promised = match work(&life, kind, &mut rng, &mut journal, &mut model) {
            Ok(()) => life.wal.durable_lsn(),
            Err(e) => {
                assert!(disk.is_dead(), "seed {seed}: {e}");
                life.wal.durable_lsn()
            }
        };
        let what = [Counter::PagesWritten, Counter::DblwrPagesSpared, Counter::DblwrPagesRestored];
        counted.iter_mut().zip(what).for_each(|(sum, counter)| *sum += life.metrics.get(counter));
        drop(life);
        let kept = disk.reboot(rng.random());
        let (wal, recovery) = Wal::open(Arc::new(kept.clone()), UUID, wal_config(), Metrics::new()).unwrap();
        assert!(recovery.end_lsn() >= promised, "seed {seed}: durable log was lost");
        drop((wal, recovery));
        disk = kept;
    }
    counted
}

#[test]
fn whatever_was_logged_survives_a_power_cut() {
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        one_life_after_another(seed, SHORT);
    }
}

/// Pages written, those of them that relied on older images, and pages that were torn, of sixty
/// lives of this kind.
fn sixty_lives(kind: Kind) -> [u64; 3] {
    let mut counted = [0; 3];
    for seed in 0..60 {
        let more = one_life_after_another(seed, kind);
        counted.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    counted
}

#[test]
#[cfg_attr(miri, ignore)]
fn pages_that_rely_on_older_images_survive_a_power_cut() {
    let [written, spared, restored] = sixty_lives(LONG);
    assert!(spared > written / 4 && restored > 50, "{written} written, {spared} spared, {restored} restored");
}

#[test]
#[cfg_attr(miri, ignore)]
fn pages_whose_images_made_room_survive_a_power_cut() {
    let [written, spared, restored] = sixty_lives(WIDE);
    assert!(spared > written / 10 && restored > 50, "{written} written, {spared} spared, {restored} restored");
}

#[test]
fn pages_have_one_version() {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::new());
    drop(Wal::create(disk.clone(), UUID, wal_config(), Metrics::new()).unwrap());
    let (life, _) = recover(&disk).unwrap();
    common::create(&life.pool, &life.space, 1, 2).unwrap();
    let acc = life.pool.access(AccessKind::Point);
    assert_eq!(value(&life.pool.fix_shared(&life.space, PageNo(1), &acc).unwrap()), 2);
}
