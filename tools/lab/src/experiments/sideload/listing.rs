//! What the experiment prints.

use super::options::Start;
use super::outcome::{FREE, mb_of, median, segments};
use super::scenario::{Ceiling, PolicyOutcome};
use crate::measure::human;
use crate::text::table;
use crate::worker::Speed;

fn optional(value: Option<f64>, unit: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), unit)
}

/// The load of a run, in words.
pub fn load_name(speed: Speed) -> String {
    match speed {
        Speed::Full => "full speed".to_owned(),
        Speed::Rate(rate) => format!("{} tps asked", human(rate)),
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
pub fn rows(outcomes: &[PolicyOutcome], ceiling: &Ceiling) -> Vec<Vec<String>> {
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    // Where a policy was not measured alone in this run, another run of it was.
    let dump_alone = |o: &PolicyOutcome| {
        let same = |other: &&PolicyOutcome| other.policy == o.policy && other.of.dump_s_alone.is_some();
        o.of.dump_s_alone.or_else(|| outcomes.iter().find(same).and_then(|other| other.of.dump_s_alone))
    };
    let mut rows = vec![vec![
        "pool that holds both".to_owned(),
        "-".to_owned(),
        load_name(Speed::Full),
        human(ceiling.tps_alone),
        median(&all(outcomes, |o| &o.of.ceiling_tps), &human),
        "-".to_owned(),
        "-".to_owned(),
        "-".to_owned(),
        median(&all(outcomes, |o| &o.of.ceiling_dump_s), &human),
        "-".to_owned(),
        "0".to_owned(),
        "-".to_owned(),
    ]];
    for o in outcomes {
        rows.push(vec![
            o.of.subject.clone(),
            o.of.start.name().to_owned(),
            load_name(o.speed),
            optional(o.of.tps_alone, human),
            median(&o.of.tps_beside, &human),
            median(&o.of.oltp_ratios(), &percent),
            optional(o.of.p95_ms, human),
            optional(dump_alone(o), human),
            median(&o.of.dump_s_beside, &human),
            median(&o.of.dump_ratios(), &percent),
            optional(o.of.hot_reads.map(|n| n as f64), human),
            o.of.warm_text(),
        ]);
    }
    rows
}

fn all(outcomes: &[PolicyOutcome], values: impl Fn(&PolicyOutcome) -> &Vec<f64>) -> Vec<f64> {
    outcomes.iter().flat_map(|o| values(o).iter().copied()).collect()
}

/// The table of results as text.
pub fn results(outcomes: &[PolicyOutcome], ceiling: &Ceiling) -> String {
    table(&COLUMNS, &rows(outcomes, ceiling), 3)
}

/// The pool's content by table and index, before, during and after the dump, in the form of the
/// published listing.
pub fn pool_content(outcome: &PolicyOutcome) -> String {
    let mut out = format!("{}, {}, {}\n", outcome.of.subject, outcome.of.start.name(), load_name(outcome.speed));
    let header = match outcome.of.start {
        Start::Warm => ["table", "index", "MB before", "MB beside the dump", "MB after"],
        Start::Cold => ["table", "index", "MB of the dump alone", "MB beside the dump", "MB after"],
    };
    let row = |name: &str, index: &str| {
        let mb = outcome.of.resident.iter().map(|list| format!("{:.2}", mb_of(list, name, index)));
        [name.to_owned(), index.to_owned()].into_iter().chain(mb).collect()
    };
    let mut rows: Vec<Vec<String>> = segments().iter().map(|s| row(&s.table, &s.index)).collect();
    rows.push(row(FREE, ""));
    out.push_str(&table(&header, &rows, 2));
    out
}
