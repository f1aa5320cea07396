//! What the experiment prints.

use super::options::{BIG, HOT, Start};
use super::scale::Scale;
use super::scenario::{Ceiling, Outcome};
use crate::measure::{Figure, human};
use crate::target::PoolState;
use crate::text::table;
use crate::worker::Speed;

/// A median with its spread.
fn spread(figure: Option<Figure>, unit: impl Fn(f64) -> String) -> String {
    match figure {
        None => "-".to_owned(),
        Some(f) if f.n == 1 => unit(f.median),
        Some(f) => format!("{} ({}..{})", unit(f.median), unit(f.min), unit(f.max)),
    }
}

fn optional(value: Option<f64>, unit: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), unit)
}

/// The load of a run, in words.
#[must_use]
pub fn load_name(speed: Speed) -> String {
    match speed {
        Speed::Full => "full speed".to_owned(),
        Speed::Rate(rate) => format!("{} tps asked", human(rate)),
    }
}

/// Time to get warm, in words.
#[must_use]
pub fn warm_name(outcome: &Outcome) -> String {
    match outcome.warmth {
        None => "-".to_owned(),
        Some(w) if w.reached => format!("{} s, {} pages", human(w.seconds), human(w.pages_read as f64)),
        Some(w) => format!("never ({} s, {} pages)", human(w.seconds), human(w.pages_read as f64)),
    }
}

/// Columns of the table of results.
pub const COLUMNS: [&str; 12] = [
    "policy",
    "start",
    "load",
    "TPS alone",
    "TPS beside",
    "of ceiling",
    "p95 ms",
    "dump s alone",
    "dump s beside",
    "of ceiling",
    "hot reads",
    "time to get warm",
];

/// The table of results, cell by cell.
#[must_use]
pub fn rows(outcomes: &[Outcome], ceiling: &Ceiling, scale: &Scale) -> Vec<Vec<String>> {
    let dump_seconds = |rows_per_s: f64| human(f64::from(scale.big_rows()) / rows_per_s.max(1.0));
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    // Where a policy was not measured alone in this run, another run of it was.
    let dump_alone = |o: &Outcome| {
        let same = |other: &&Outcome| other.policy == o.policy && other.dump_alone.is_some();
        o.dump_alone.or_else(|| outcomes.iter().find(same).and_then(|other| other.dump_alone))
    };
    let mut rows = vec![vec![
        "pool that holds both".to_owned(),
        "-".to_owned(),
        load_name(Speed::Full),
        human(ceiling.tps_alone),
        spread(Figure::of(&all(outcomes, |o| &o.ceiling_tps)), human),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        spread(Figure::of(&all(outcomes, |o| &o.ceiling_dump)), dump_seconds),
        "-".to_owned(),
        "0".to_owned(),
        "-".to_owned(),
    ]];
    for o in outcomes {
        rows.push(vec![
            o.policy.to_string(),
            o.start.name().to_owned(),
            load_name(o.speed),
            optional(o.tps_alone, human),
            spread(o.tps(), human),
            spread(o.oltp_ratio(), percent),
            human(o.p95_ms),
            optional(dump_alone(o), dump_seconds),
            spread(Figure::of(&o.dump_beside), dump_seconds),
            spread(o.dump_ratio(), percent),
            human(o.hot_reads as f64),
            warm_name(o),
        ]);
    }
    rows
}

fn all(outcomes: &[Outcome], values: impl Fn(&Outcome) -> &Vec<f64>) -> Vec<f64> {
    outcomes.iter().flat_map(|o| values(o).iter().copied()).collect()
}

/// The table of results as text.
#[must_use]
pub fn results(outcomes: &[Outcome], ceiling: &Ceiling, scale: &Scale) -> String {
    table(&COLUMNS, &rows(outcomes, ceiling, scale), 3)
}

/// The pool's content by table and index, before, during and after the dump, in the form of the
/// published listing.
#[must_use]
pub fn pool_content(outcome: &Outcome) -> String {
    let mut out = format!("{}, {}, {}\n", outcome.policy, outcome.start.name(), load_name(outcome.speed));
    let header = match outcome.start {
        Start::Warm => ["table", "index", "MB before", "MB beside the dump", "MB after"],
        Start::Cold => ["table", "index", "MB of the dump alone", "MB beside the dump", "MB after"],
    };
    let mb = |pool: &PoolState, table: &str, index: &str| {
        format!("{:.2}", pool.mb(pool.index(table, index).map_or(0, |i| i.resident_pages)))
    };
    let mut rows = Vec::new();
    for (name, index) in [(HOT, "PRIMARY"), (HOT, "k"), (BIG, "PRIMARY"), (BIG, "k")] {
        let mut row = vec![name.to_owned(), index.to_owned()];
        row.extend(outcome.pools.iter().map(|pool| mb(pool, name, index)));
        rows.push(row);
    }
    let mut free = vec!["(free)".to_owned(), String::new()];
    free.extend(outcome.pools.iter().map(|pool| format!("{:.2}", pool.mb(pool.free_pages))));
    rows.push(free);
    out.push_str(&table(&header, &rows, 2));
    out
}
