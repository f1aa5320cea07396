//! Spaces are closed, with or without their changes, while others use them.

use holdfast_base::{Error, PageNo, SpaceId};

use crate::common::{self, Bed, open_space, read, update};

#[test]
fn a_closed_space_was_written() {
    let bed = Bed::new(64);
    (0..30).for_each(|no| bed.create(no, 5).unwrap());
    bed.pool.close_space(&bed.space, false).unwrap();
    assert_eq!((bed.pool.stats().resident, bed.pool.stats().dirty), (0, 0));
    assert!(matches!(bed.read(1), Err(Error::Closed(_))));
    let again = open_space(&bed.pool, &bed.disk, SpaceId(16));
    (0..30).for_each(|no| assert_eq!(read(&bed.pool, &again, no).unwrap(), 5));
}

#[test]
fn a_discarded_space_leaves_nothing() {
    let bed = Bed::new(64);
    let other = open_space(&bed.pool, &bed.disk, SpaceId(17));
    common::create(&bed.pool, &other, 1, 8).unwrap();
    (0..30).for_each(|no| bed.create(no, 5).unwrap());
    bed.pool.close_space(&bed.space, true).unwrap();
    assert_eq!((bed.pool.stats().resident, bed.pool.stats().dirty), (1, 1));
    assert_eq!(bed.space.file().len().unwrap(), 0, "nothing was written for it");
    assert_eq!(read(&bed.pool, &other, 1).unwrap(), 8);
    assert!(bed.pool.open_space(SpaceId(17), other.file().clone()).is_err());
}

#[test]
fn it_waits_for_guards_and_readers_fail_cleanly() {
    for discard in [true, false] {
        let bed = Bed::with_threads(32);
        bed.create_many(100);
        let acc = bed.access();
        let held = bed.pool.fix_shared(&bed.space, PageNo(0), &acc).unwrap();
        std::thread::scope(|scope| {
            for t in 0..4u32 {
                let bed = &bed;
                scope.spawn(move || {
                    for i in 0u32.. {
                        let no = 1 + (i * 7 + t) % 99;
                        let result = match t {
                            0 => update(&bed.pool, &bed.space, no, u64::from(no)),
                            _ => bed.read(no).map(|v| assert_eq!(v, u64::from(no))),
                        };
                        match result {
                            Ok(()) => {}
                            Err(Error::Closed(_)) => break,
                            Err(e) => panic!("{e}"),
                        }
                    }
                });
            }
            let closer = scope.spawn(|| bed.pool.close_space(&bed.space, discard).unwrap());
            assert_eq!(common::value(&held), 0);
            drop(held);
            closer.join().unwrap();
        });
        assert_eq!(bed.pool.stats().resident, 0);
        assert_eq!(bed.pool.stats().free, 32);
    }
}
