//! Which views are the oldest ones is known whatever order they end in. Each end of a view looked
//! at a sixteenth of all that are open to find that out; they are kept in the order of their age.

use holdfast_base::{CommitNo, TxnId};
use holdfast_txn::mvcc::clock::CommitClock;
use holdfast_txn::mvcc::commit_map::CommitMap;
use holdfast_txn::mvcc::view::Views;
use proptest::prelude::*;

proptest! {
    #[test]
    fn views_are_opened_made_long_and_closed(steps in proptest::collection::vec((0..5u8, any::<u8>()), 1..200)) {
        let clock = CommitClock::new(TxnId(1), CommitNo(0));
        let (map, views) = (CommitMap::new(1 << 10, &clock, &[]), Views::new(&clock));
        let mut open = Vec::new();
        for (step, which) in steps {
            let which = usize::from(which);
            match step {
                0 => {
                    let (id, no) = (map.allocate(), clock.take_no());
                    map.set_committed(id, no);
                    clock.publish(no);
                }
                1 | 2 => open.push(views.open(&map, true)),
                3 if !open.is_empty() => drop(views.close(&open.swap_remove(which % open.len()))),
                _ => {
                    let no = CommitNo(which as u64 % (clock.last_commit().0 + 1));
                    let short = open.iter().filter(|view| view.commit_no() < no && !view.is_long()).count();
                    prop_assert_eq!(views.make_long(no, &map), short as u64);
                }
            }
            let oldest = |wants_short: bool| {
                let wanted = open.iter().filter(|view| !wants_short || !view.is_long());
                wanted.map(|view| view.commit_no()).min().unwrap_or(clock.last_commit())
            };
            prop_assert_eq!((views.oldest(), views.short_horizon()), (oldest(false), oldest(true)));
        }
    }
}
