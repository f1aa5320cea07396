//! How a model is explored.

use std::sync::Arc;

use holdfast_base::loom_atomic::put_fences_behind;
use loom::model::Builder;

/// The orders in which three threads can be started.
pub const ALL_ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
/// Enough if the threads do the same.
pub const ONE_ORDER: [[usize; 3]; 1] = [[0, 1, 2]];
/// Enough if the third thread does nothing.
pub const ORDERS_OF_TWO: [[usize; 3]; 2] = [[0, 1, 2], [1, 0, 2]];

/// Explores what `threads` do to what `make` makes, with so many preemptions of threads that could
/// go on, and what `check` finds then. The first and the third thread are of one group.
///
/// loom looks for another interleaving where an access depends on the last one of the same object.
/// So a thread that loads a value and then changes it is not moved in front of an earlier load by
/// another thread: the last access is its own load. But a load by a thread that comes later in an
/// execution may return the older values, too. Therefore the threads are started in several
/// `orders`.
pub fn explore<M: 'static>(
    preemptions: usize,
    orders: &[[usize; 3]],
    make: fn() -> M,
    threads: [fn(&M); 3],
    check: fn(&M),
) {
    for (&order, fences_behind) in orders.iter().flat_map(|order| [(order, false), (order, true)]) {
        put_fences_behind(fences_behind);
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let model = Arc::new(make());
            let started = order.map(|number| {
                let model = Arc::clone(&model);
                loom::thread::spawn(move || {
                    holdfast_metrics::set_thread_number(number);
                    threads[number](&model);
                })
            });
            started.into_iter().for_each(|thread| thread.join().unwrap());
            check(&model);
        });
    }
}
