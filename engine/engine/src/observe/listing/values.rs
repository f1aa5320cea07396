//! Everything that is counted.

use std::time::Duration;

use holdfast_metrics::{Description, Timing, WaitClass};

use super::cells::{Cell, Column, EachRow};
use crate::instance::Instance;

pub(super) const METRICS: &[Column] = &[
    Column::text("NAME", 193),
    Column::text("TYPE", 64),
    Column::text("UNIT", 64),
    Column::number("COUNT"),
    // Of waits and durations, in microseconds.
    Column::number("TOTAL_TIME").or_null(),
    Column::number("AVG_TIME").or_null(),
    Column::number("MAX_TIME").or_null(),
    Column::number("P99_TIME").or_null(),
    Column::text("COMMENT", 193),
];

/// The times of an entry, if it has any.
#[derive(Default)]
struct Times {
    total: Option<Duration>,
    average: Option<Duration>,
    max: Option<Duration>,
    p99: Option<Duration>,
}

pub(super) fn metrics(instance: &Instance, each: &mut EachRow<'_>) {
    let snapshot = instance.publish_metrics();
    let mut row = |prefix: &str, of: &Description, count: u64, times: &Times| {
        let micros = |time: Option<Duration>| {
            time.map_or(Cell::Null, |t| Cell::Unsigned(u64::try_from(t.as_micros()).unwrap_or(u64::MAX)))
        };
        each(&[
            Cell::Text(&format!("{prefix}{}", of.name)),
            Cell::Text(of.kind.name()),
            Cell::Text(of.unit.name()),
            Cell::Unsigned(count),
            micros(times.total),
            micros(times.average),
            micros(times.max),
            micros(times.p99),
            Cell::Text(of.help),
        ])
    };
    for (description, value) in snapshot.values() {
        if !row("", description, value, &Times::default()) {
            return;
        }
    }
    for timing in Timing::ALL {
        let d = snapshot.timing(*timing);
        let (total, average) = (Some(d.sum()), Some(d.mean()));
        let times = Times { total, average, max: Some(d.max()), p99: Some(d.quantile(0.99)) };
        if !row("", timing.description(), d.count(), &times) {
            return;
        }
    }
    for class in WaitClass::ALL {
        let waits = snapshot.wait(*class);
        let average = waits.total.checked_div(u32::try_from(waits.count).unwrap_or(u32::MAX));
        let times = Times { total: Some(waits.total), average, max: Some(waits.max), p99: None };
        if !row("wait_", class.description(), waits.count, &times) {
            return;
        }
    }
}
