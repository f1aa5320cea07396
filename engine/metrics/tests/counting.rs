//! Counts from many threads add up; a delta is what happened between two snapshots.

use std::time::Duration;

use holdfast_metrics::{Counter, Derived, Gauge, Metrics, Timing, WaitClass};

#[test]
fn counts_from_many_threads_add_up() {
    let metrics = Metrics::new();
    std::thread::scope(|s| {
        for _ in 0..40 {
            s.spawn(|| (0..500).for_each(|_| metrics.add(Counter::RowsRead, 2)));
        }
    });
    assert_eq!(metrics.get(Counter::RowsRead), 40_000);
    assert_eq!(metrics.snapshot().get(Counter::RowsRead), 40_000);
    assert_eq!(metrics.snapshot().get(Counter::RowsInserted), 0);
}

#[test]
fn a_delta_is_what_happened_in_between() {
    let metrics = Metrics::new();
    metrics.add(Counter::PagesRead, 10);
    metrics.record(Timing::Commit, Duration::from_millis(5));
    metrics.record_wait(WaitClass::Lock, Duration::from_secs(1));
    let before = metrics.snapshot();
    metrics.add(Counter::PagesRead, 7);
    metrics.set(Gauge::PagesFree, 3);
    metrics.record(Timing::Commit, Duration::from_micros(8));
    metrics.record_wait(WaitClass::Lock, Duration::from_millis(1));
    let delta = metrics.snapshot().delta(&before);
    assert_eq!(delta.get(Counter::PagesRead), 7);
    assert_eq!(delta.by_name("pages_read"), Some(7));
    assert_eq!(delta.gauge(Gauge::PagesFree), 3);
    assert_eq!(delta.timing(Timing::Commit).count(), 1);
    assert_eq!(delta.timing(Timing::Commit).sum(), Duration::from_micros(8));
    let waits = delta.wait(WaitClass::Lock);
    assert_eq!((waits.count, waits.total, waits.max), (1, Duration::from_millis(1), Duration::from_secs(1)));
}

#[test]
fn a_wait_is_counted_when_its_guard_is_dropped() {
    let metrics = Metrics::new();
    let wait = metrics.wait(WaitClass::Latch);
    assert_eq!(metrics.snapshot().wait(WaitClass::Latch).count, 0);
    drop(wait);
    assert_eq!(metrics.snapshot().wait(WaitClass::Latch).count, 1);
}

#[test]
fn a_gauge_goes_up_and_down() {
    let metrics = Metrics::new();
    metrics.adjust(Gauge::TrxActive, 3);
    metrics.adjust(Gauge::TrxActive, -1);
    assert_eq!(metrics.gauge(Gauge::TrxActive), 2);
    metrics.adjust(Gauge::TrxActive, -5);
    assert_eq!(metrics.gauge(Gauge::TrxActive), 0, "never a huge number");
}

/// InnoDB shows these times in milliseconds, and so does Holdfast. Shorter waits add up all the
/// same.
#[test]
fn lock_waits_are_shown_in_milliseconds() {
    let metrics = Metrics::new();
    assert_eq!(metrics.snapshot().derived(Derived::RowLockTimeAverage), 0);
    for _ in 0..10 {
        metrics.record_wait(WaitClass::Lock, Duration::from_micros(700));
    }
    metrics.record_wait(WaitClass::Lock, Duration::from_millis(20));
    metrics.add(Counter::PagesWritten, 4);
    let shown = metrics.snapshot();
    let value = |name| shown.by_name(name).unwrap();
    assert_eq!((value("row_lock_time"), value("row_lock_time_avg"), value("row_lock_time_max")), (27, 2, 20));
    assert_eq!(value("buffer_pool_pages_flushed"), 4);
}
