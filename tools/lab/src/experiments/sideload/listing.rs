//! What the experiment prints.

use super::engine::{Ceiling, PolicyOutcome};
use super::options::Start;
use crate::bench::SEGMENTS;
use crate::figures::{Shown, cells};
use crate::measure::{human, median, or_dash};
use crate::target::{FREE, mb_of};
use crate::text::table;

/// The load of a run, in words.
pub fn load_name(rate: Option<f64>) -> String {
    rate.map_or_else(|| "full speed".to_owned(), |rate| format!("{} tps asked", human(rate)))
}

/// The table of results as text.
pub fn results(outcomes: &[PolicyOutcome], ceiling: &Ceiling) -> String {
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    // Where a policy was not measured alone in this run, another run of it was.
    let dump_alone = |o: &PolicyOutcome| {
        let same = |other: &&PolicyOutcome| other.policy == o.policy && other.of.dump_s_alone.is_some();
        o.of.dump_s_alone.or_else(|| outcomes.iter().find(same).and_then(|other| other.of.dump_s_alone))
    };
    let columns: [Shown<'_, PolicyOutcome>; 12] = [
        ("policy", &|o| o.of.subject.clone()),
        ("start", &|o| o.of.start.name().to_owned()),
        ("load", &|o| load_name(o.of.rate)),
        ("TPS alone", &|o| or_dash(o.of.tps_alone, human)),
        ("TPS beside", &|o| or_dash(median(&o.of.tps_beside), human)),
        ("of ceiling", &|o| or_dash(median(&o.of.oltp_ratios()), percent)),
        ("p95 ms", &|o| or_dash(o.of.p95_ms, human)),
        ("dump s alone", &|o| or_dash(dump_alone(o), human)),
        ("dump s beside", &|o| or_dash(median(&o.of.dump_s_beside), human)),
        ("of ceiling", &|o| or_dash(median(&o.of.dump_ratios()), percent)),
        ("hot reads", &|o| or_dash(o.of.hot_reads, |n| human(n as f64))),
        ("time to get warm", &|o| o.of.warm_text()),
    ];
    let (header, mut rows) = cells(outcomes, &columns);
    let of_all = |values: fn(&PolicyOutcome) -> &Vec<f64>| -> String {
        or_dash(median(&outcomes.iter().flat_map(|o| values(o).iter().copied()).collect::<Vec<_>>()), human)
    };
    let (load, tps_alone) = (load_name(None), human(ceiling.tps_alone));
    let (tps, dump) = (of_all(|o| &o.of.ceiling_tps), of_all(|o| &o.of.ceiling_dump_s));
    let of_ceiling = ["pool that holds both", "-", &load, &tps_alone, &tps, "-", "-", "-", &dump, "-", "0", "-"];
    rows.insert(0, of_ceiling.map(str::to_owned).to_vec());
    table(&header, &rows, 3)
}

/// The pool's content by table and index, before, during and after the dump, in the form of the
/// published listing.
pub fn pool_content(outcome: &PolicyOutcome) -> String {
    let mut out = format!("{}, {}, {}\n", outcome.of.subject, outcome.of.start.name(), load_name(outcome.of.rate));
    let header = match outcome.of.start {
        Start::Warm => ["table", "index", "MB before", "MB beside the dump", "MB after"],
        Start::Cold => ["table", "index", "MB of the dump alone", "MB beside the dump", "MB after"],
    };
    let row = |name: &str, index: &str| {
        let mb = outcome.of.resident.iter().map(|list| format!("{:.2}", mb_of(list, name, index)));
        [name.to_owned(), index.to_owned()].into_iter().chain(mb).collect()
    };
    let mut rows: Vec<Vec<String>> = SEGMENTS.iter().map(|s| row(s.table, s.index)).collect();
    rows.push(row(FREE, ""));
    out.push_str(&table(&header, &rows, 2));
    out
}
