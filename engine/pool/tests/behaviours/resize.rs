//! The pool changes its size while it is used.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use holdfast_base::{Error, PageNo};
use holdfast_io::MemoryDisk;
use holdfast_pool::{Pool, Space};
use holdfast_testkit::{Fault, FaultDisk, FaultOp, HookedDisk};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::common::{Bed, PAGE, update};

fn frames(bed: &Bed, n: u64) -> Result<(), Error> {
    bed.pool.resize(n * PAGE as u64)
}

#[test]
fn it_shrinks_and_grows() {
    let bed = Bed::new(64);
    (0..60).for_each(|no| bed.create(no, u64::from(no)).unwrap());
    frames(&bed, 32).unwrap();
    assert_eq!((bed.pool.stats().frames, bed.pool.stats().dirty <= 32), (32, true));
    (0..60).for_each(|no| assert_eq!(bed.read(no).unwrap(), u64::from(no)));
    frames(&bed, 128).unwrap();
    (0..60).for_each(|no| assert_eq!(bed.read(no).unwrap(), u64::from(no)));
    assert_eq!((bed.pool.stats().frames, bed.pool.stats().resident), (128, 60));
    assert!(matches!(frames(&bed, 31), Err(Error::InvalidArgument(_))));
    assert!(matches!(frames(&bed, 64 * 4 + 1), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_pool_that_cannot_write_keeps_its_size() {
    let faults = FaultDisk::new(Arc::new(MemoryDisk::new()));
    let bed = Bed::on(Arc::new(faults.clone()), |c| c, 64);
    (0..60).for_each(|no| bed.create(no, 1).unwrap());
    faults.schedule(Fault::nth(FaultOp::Write, 1).on("t16.hf").sticky());
    assert!(frames(&bed, 32).is_err());
    faults.clear();
    assert_eq!(bed.pool.stats().frames, 64);
    frames(&bed, 32).unwrap();
    (0..60).for_each(|no| assert_eq!(bed.read(no).unwrap(), 1));
    assert_eq!(bed.pool.stats().resident + bed.pool.stats().free, 32);
}

#[test]
fn it_changes_under_load() {
    let bed = Bed::with_threads(64);
    bed.create_many(200);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (bed, stop) = (&bed, &stop);
            scope.spawn(move || {
                let mut rng = SmallRng::seed_from_u64(t);
                while !stop.load(Ordering::Relaxed) {
                    let no = rng.random_range(0..200);
                    if t == 0 {
                        bed.update(no, u64::from(no)).unwrap();
                    } else {
                        assert_eq!(bed.read(no).unwrap(), u64::from(no));
                    }
                }
            });
        }
        for n in [32, 200, 40, 33, 256, 32, 64] {
            frames(&bed, n).unwrap();
            assert_eq!(bed.pool.stats().frames, n as usize);
        }
        stop.store(true, Ordering::Relaxed);
    });
    bed.pool.flush_all().unwrap();
    let stats = bed.pool.stats();
    assert_eq!(stats.resident + stats.free, 64);
    let resident: usize = bed.pool.residency().values().map(|r| r.pages).sum();
    assert_eq!(resident, stats.resident);
}

/// A page that is changed more often than it can be written is dirty after each write of it. The
/// pool wrote it over and over, and did not become smaller before the load ended.
#[test]
fn a_page_that_is_always_dirty_moves_to_a_frame_that_stays() {
    let disk = HookedDisk::default();
    let bed = Bed::on(Arc::new(disk.clone()), |c| c, 128);
    bed.create_many(100);
    // Frames are used in their order, so this page lies in one that goes.
    let hot = 99;
    bed.update(hot, 1).unwrap();
    let (pool, space, value) = (Arc::downgrade(&bed.pool), Arc::downgrade(&bed.space), Arc::new(AtomicU64::new(1)));
    let changes = Arc::clone(&value);
    disk.on_write(move |name| {
        let there: Option<(Arc<Pool>, Arc<Space>)> = Weak::upgrade(&pool).zip(Weak::upgrade(&space));
        if let Some((pool, space)) = there.filter(|_| name == "t16.hf") {
            update(&pool, &space, hot, changes.fetch_add(1, Ordering::Relaxed) + 1).unwrap();
        }
    });
    frames(&bed, 64).unwrap();
    disk.on_write(|_| ());
    assert_eq!((bed.pool.stats().frames, bed.pool.stats().dirty), (64, 1));
    assert!(bed.pool.is_resident(&bed.space, PageNo(hot)));
    assert_eq!(bed.read(hot).unwrap(), value.load(Ordering::Relaxed));
    bed.pool.flush_space(&bed.space).unwrap();
    assert_eq!(bed.pool.checkpoint().unwrap(), bed.wal.next_lsn());
    bed.pool.close_space(&bed.space, false).unwrap();
    assert_eq!((bed.pool.stats().resident, bed.pool.stats().idle), (0, 64));
}
