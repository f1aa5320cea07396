//! The Prometheus text names every metric once, with its type, and its histograms are cumulative.

use std::collections::HashSet;
use std::time::Duration;

use holdfast_metrics::{Counter, Metrics, Timing, WaitClass};

#[test]
fn every_metric_has_a_type_and_a_value() {
    let metrics = Metrics::new();
    metrics.add(Counter::OsLogFsyncs, 3);
    metrics.record_wait(WaitClass::Log, Duration::from_millis(250));
    for micros in [1, 10, 100, 1_000_000_000] {
        metrics.record(Timing::LogSync, Duration::from_micros(micros));
    }
    let text = metrics.snapshot().prometheus();
    assert!(text.contains("\nholdfast_os_log_fsyncs_total 3\n"), "{text}");
    assert!(text.contains("\nholdfast_wait_seconds_total{class=\"log\"} 0.25\n"));

    let mut types = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, _) = rest.split_once(' ').unwrap();
            assert!(types.insert(name.to_string()), "{name} twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap();
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s));
            assert!(types.contains(name) || family.is_some_and(|f| types.contains(f)), "{line}");
        }
    }

    let buckets: Vec<u64> = text
        .lines()
        .filter(|l| l.starts_with("holdfast_log_fsync_time_seconds_bucket"))
        .map(|l| l.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert!(buckets.is_sorted());
    assert_eq!((buckets[0], *buckets.last().unwrap()), (1, 4));
}
