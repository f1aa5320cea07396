//! The hot pages come back after a restart, those of a scan do not.

use holdfast_base::{PageNo, SpaceId};
use holdfast_metrics::Metrics;
use holdfast_pool::{AccessKind, Pool};

use crate::common::{self, Bed, config, open_space};

#[test]
fn hot_pages_are_loaded_again() {
    let bed = Bed::new(80);
    bed.create_many(600);
    bed.heat(60);
    let scan = bed.pool.access(AccessKind::Scan);
    for no in 300..600 {
        drop(bed.pool.fix_shared(&bed.space, PageNo(no), &scan).unwrap());
    }
    let saved = bed.pool.save_warmup().unwrap();
    assert!((50..=80).contains(&saved), "{saved}");
    drop(scan);
    let Bed { disk, wal, pool, space, .. } = bed;
    pool.close_space(&space, false).unwrap();
    drop(pool);
    let pool = Pool::new(config(&disk, 200), wal, Metrics::new()).unwrap();
    let space = open_space(&pool, &disk, SpaceId(16));
    let loaded = pool.run_warmup(|id| (id == SpaceId(16)).then(|| space.clone()));
    assert_eq!(loaded, saved as u64);
    let hot = (0..60).filter(|&no| pool.is_resident(&space, PageNo(no))).count();
    assert!(hot >= 50, "{hot}");
    assert!((310..600).all(|no| !pool.is_resident(&space, PageNo(no))));
    assert_eq!(pool.run_warmup(|_| None), 0, "spaces that do not exist any more are passed over");
}

#[test]
fn a_damaged_list_is_none() {
    let bed = Bed::new(64);
    bed.create_many(40);
    assert!(bed.pool.saved_warmup().is_empty());
    bed.pool.save_warmup().unwrap();
    let file = bed.disk.open("warmup", holdfast_io::OpenOptions::default()).unwrap();
    file.write_at(9, &[0xff]).unwrap();
    assert!(bed.pool.saved_warmup().is_empty());
}

/// Memory was taken for the whole file: more than there is, so that the process ended.
#[test]
fn a_file_that_is_longer_than_its_list_is_read_as_far_as_the_list_goes() {
    let bed = Bed::new(64);
    bed.create_many(40);
    bed.heat(40);
    assert!(bed.pool.save_warmup().unwrap() > 0);
    let listed = bed.pool.saved_warmup();
    assert!(!listed.is_empty());
    let file = bed.disk.open("warmup", holdfast_io::OpenOptions::default()).unwrap();
    file.set_len(1 << 62).unwrap();
    assert_eq!(bed.pool.saved_warmup(), listed);
}

#[test]
fn pages_that_were_cut_off_their_file_are_not_listed() {
    let bed = Bed::new(80);
    bed.create_many(40);
    bed.heat(40);
    bed.pool.flush_all().unwrap();
    bed.space.file().set_len(20 * common::PAGE as u64).unwrap();
    bed.pool.save_warmup().unwrap();
    let listed = bed.pool.saved_warmup();
    assert!(!listed.is_empty());
    assert!(listed.iter().all(|id| id.no < PageNo(20)), "{listed:?}");
}

/// A list was replaced by what a restart had loaded of it by the next one.
#[test]
fn a_list_that_is_being_loaded_stays() {
    let bed = Bed::new(80);
    bed.create_many(60);
    bed.heat(60);
    assert!(bed.pool.save_warmup().unwrap() > 50);
    let listed = bed.pool.saved_warmup();
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    bed.pool
        .start_warmup(move |_| {
            let _ = wait.recv();
            None
        })
        .unwrap();
    bed.pool.close_space(&bed.space, false).unwrap();
    assert_eq!(bed.pool.save_warmup().unwrap(), 0);
    assert_eq!(bed.pool.saved_warmup(), listed);
    drop(go_on);
    while bed.pool.saved_warmup() == listed {
        bed.pool.save_warmup().unwrap();
        std::thread::yield_now();
    }
    assert!(bed.pool.saved_warmup().is_empty());
}
