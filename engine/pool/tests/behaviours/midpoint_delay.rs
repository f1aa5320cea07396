//! `old_blocks_time` counts from the first touch of a page: a wait for the disk before it is no
//! part of it.
//!
//! A scan may wait for the read-ahead longer than the delay. If that wait counted, its next touch
//! of the page would come after the delay and make the page young.

use std::time::Duration;

use holdfast_base::PageNo;
use holdfast_policy::PolicyKind;

use crate::common::Bed;

#[test]
fn a_wait_for_the_page_is_no_part_of_the_delay() {
    let with_delay = |mut config: holdfast_pool::PoolConfig| {
        config.policy = PolicyKind::MidpointLru { old_blocks_pct: 37, old_blocks_time_ms: 5 };
        config
    };
    let bed = Bed::on(std::sync::Arc::new(holdfast_io::MemoryDisk::new()), with_delay, 256);
    bed.create_many(600);
    let before = bed.pool.stats().policy;
    for no in (300..500).step_by(10).map(PageNo) {
        let acc = bed.access();
        assert!(bed.pool.fix_optimistic(&bed.space, no, &acc).is_none(), "not there yet");
        // The read-ahead brings it in; that takes as long as a seek.
        bed.pool.prefetch(&bed.space, &[no], &bed.access());
        bed.clock.advance(Duration::from_millis(8));
        bed.pool.load(&bed.space, no, &acc).unwrap();
        assert!(bed.pool.fix_optimistic(&bed.space, no, &acc).is_some());
        // The next batch of rows, at once.
        assert!(bed.pool.fix_optimistic(&bed.space, no, &bed.access()).is_some());
    }
    // The first touch of each only starts the clock.
    let after = bed.pool.stats().policy;
    assert_eq!((after.made_young - before.made_young, after.not_young - before.not_young), (0, 20));
}
