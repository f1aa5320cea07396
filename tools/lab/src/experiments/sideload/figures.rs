//! What the experiment shows of its outcomes, on the engine and on servers.

use super::options::Start;
use super::outcome::{Outcome, load_name};
use super::scenario::{BESIDE, COLD};
use super::warming::RULE;
use crate::bench::{Phase, SEGMENTS, Sample, Segment};
use crate::figures::{Chart, Figures, Form, Grid, Line, Shown, Span};
use crate::measure::{Figure, human, median, or_dash};
use crate::target::FREE;

/// The ceiling without the dump, and beside it.
pub struct Reference {
    pub name: &'static str,
    pub tps_alone: f64,
    pub tps_beside: Option<f64>,
}

impl Reference {
    /// A ceiling that was measured in `samples`.
    pub fn new(name: &'static str, tps_alone: f64, (samples, phases): (&[Sample], &[Phase])) -> Reference {
        let begin = side_load_begins(phases);
        let beside: Vec<f64> = samples.iter().filter(|s| s.t >= begin).map(|s| s.tps).collect();
        Reference { name, tps_alone, tps_beside: median(&beside) }
    }
}

/// The title of the report.
pub const TITLE: &str = "A dump beside OLTP";
const LEAD: &str =
    "OLTP runs on a small table that fits into the pool, a dump of a big table that does not runs in a loop beside it.";
const CEILING: &str = "The ceiling is the same with a pool that holds both tables, measured in turns.";
const SPREAD: &str = "Figures are medians of turns. Of a rate that was asked for, the share is of that rate: above 100 % requests that \
     had waited are made up for.";
const TIME: &str = "seconds since the side load began";

/// The charts of throughput: the start, whether OLTP is at full speed, and the title.
const SCENARIOS: [(Start, bool, &str); 4] = [
    (Start::Warm, true, "Warm, full speed: the dump starts beside OLTP"),
    (Start::Warm, false, "Warm, OLTP held to a rate: the dump starts"),
    (Start::Cold, true, "Cold, full speed: OLTP starts beside the dump"),
    (Start::Cold, false, "Cold, OLTP held to a rate: it starts beside the dump"),
];

/// Tables and charts of the outcomes, with `words` about what was run and `findings`. `counted`
/// says how reads and content are counted.
pub fn figures(
    words: &str,
    findings: Vec<String>,
    outcomes: &[&Outcome],
    reference: Option<&Reference>,
    counted: &str,
) -> Figures {
    let has_ceiling = outcomes.iter().any(|o| !o.ceiling_tps.is_empty());
    let telling: Vec<&Outcome> = outcomes.iter().copied().filter(|o| o.tells_its_content()).collect();
    let of = |(start, full, _): &(Start, bool, &str)| {
        let (start, full) = (*start, *full);
        move |o: &&&Outcome| o.start == start && o.rate.is_none() == full
    };
    let throughput = |scenario| {
        let chosen: Vec<&Outcome> = outcomes.iter().filter(of(scenario)).copied().collect();
        throughput(scenario.2, &chosen, reference.filter(|_| scenario.1))
    };
    let pools = |scenario: &(Start, bool, &str)| {
        let charts: Vec<Chart> = telling.iter().filter(of(scenario)).map(|o| pool(o)).collect();
        (!charts.is_empty()).then(|| (format!("What is in the pool. {}", scenario.2), charts))
    };
    let mut grids = vec![results(outcomes, reference), hot_table(outcomes, counted), spread(outcomes)];
    grids.extend((!telling.is_empty()).then(|| contents(&telling)));
    Figures {
        lead: [LEAD, if has_ceiling { CEILING } else { "" }, words].join(" ").replace("  ", " "),
        words: findings,
        grids,
        charts: vec![("Throughput beside the dump".to_owned(), SCENARIOS.iter().filter_map(throughput).collect())],
        folded: SCENARIOS.iter().filter_map(pools).collect(),
        ..Figures::default()
    }
}

/// A table whose first columns say which run it is.
fn grid<'o>(title: &str, outcomes: &[&'o Outcome], columns: &[Shown<'_, &'o Outcome>], note: &str) -> Grid {
    let first: [Shown<'_, &'o Outcome>; 3] =
        [("", &|o| o.subject.clone()), ("start", &|o| o.start.name().to_owned()), ("load", &|o| load_name(o.rate))];
    Grid::of(title, first.len(), outcomes, &[&first, columns].concat(), note)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn results(outcomes: &[&Outcome], reference: Option<&Reference>) -> Grid {
    // Where a subject was not measured alone in this run, another run of it was.
    let dump_alone = |o: &Outcome| {
        let same = outcomes.iter().filter(|other| other.subject == o.subject);
        o.dump_s_alone.or_else(|| same.filter_map(|other| other.dump_s_alone).next())
    };
    let of_reference =
        reference.map_or_else(String::new, |r| format!(" The ceiling without the dump: {} TPS.", human(r.tps_alone)));
    let columns: [Shown<'_, &Outcome>; 9] = [
        ("TPS alone", &|o| or_dash(o.tps_alone, human)),
        ("TPS beside", &|o| or_dash(median(&o.tps_beside), human)),
        ("ceiling TPS", &|o| or_dash(median(&o.ceiling_tps), human)),
        ("of ceiling", &|o| or_dash(median(&o.oltp_ratios()), percent)),
        ("p95 ms", &|o| or_dash(o.p95_ms, human)),
        ("dump s alone", &|o| or_dash(dump_alone(o), human)),
        ("dump s beside", &|o| or_dash(median(&o.dump_s_beside), human)),
        ("ceiling dump s", &|o| or_dash(median(&o.ceiling_dump_s), human)),
        ("of ceiling", &|o| or_dash(median(&o.dump_ratios()), percent)),
    ];
    grid("OLTP and dump beside each other", outcomes, &columns, &format!("{SPREAD}{of_reference}"))
}

fn hot_table(outcomes: &[&Outcome], counted: &str) -> Grid {
    let hot_mb = |o: &Outcome| o.tells_its_content().then(|| o.mb(1, SEGMENTS[0].table, ""));
    let columns: [Shown<'_, &Outcome>; 6] = [
        ("reads beside", &|o| or_dash(o.hot_reads, |n| human(n as f64))),
        ("turnovers by the dump", &|o| human(o.turnovers)),
        ("MB beside", &|o| or_dash(hot_mb(o), |mb| format!("{mb:.1}"))),
        ("made young", &|o| or_dash(o.young, |y| human(y.0 as f64))),
        ("not young", &|o| or_dash(o.young, |y| human(y.1 as f64))),
        ("time to get warm", &|o| o.warm_text()),
    ];
    grid("The hot table", outcomes, &columns, format!("{RULE} {counted}").trim_end())
}

/// How far the turns differ.
fn spread(outcomes: &[&Outcome]) -> Grid {
    let ends = |values: &[f64], shown: &dyn Fn(f64) -> String| {
        or_dash(Figure::of(values), |f| format!("{} to {}", shown(f.min), shown(f.max)))
    };
    let columns: [Shown<'_, &Outcome>; 5] = [
        ("turns", &|o| o.tps_beside.len().to_string()),
        ("TPS beside", &|o| ends(&o.tps_beside, &human)),
        ("of ceiling", &|o| ends(&o.oltp_ratios(), &percent)),
        ("dump s beside", &|o| ends(&o.dump_s_beside, &human)),
        ("of ceiling", &|o| ends(&o.dump_ratios(), &percent)),
    ];
    grid("The least and the greatest of the turns", outcomes, &columns, "")
}

/// The content of the pool by table and index.
fn contents(outcomes: &[&Outcome]) -> Grid {
    let header = ["", "start", "load", "table", "index", "MB before", "MB beside", "MB after"];
    let note = "Before: OLTP alone of a warm start, the dump alone of a cold one.";
    let mut grid = Grid::new("Content of the pool by table and index", 5, &header, note);
    for o in outcomes {
        let free = o.resident[1].iter().any(|r| r.table == FREE).then_some((FREE, ""));
        for (table, index) in SEGMENTS.iter().map(|s| (s.table, s.index)).chain(free) {
            let mb = (0..3).map(|moment| format!("{:.2}", o.mb(moment, table, index)));
            let names = [o.subject.clone(), o.start.name().to_owned(), load_name(o.rate)];
            grid.rows.push(names.into_iter().chain([table.to_owned(), index.to_owned()]).chain(mb).collect());
        }
    }
    grid
}

/// When the side load of a run began.
fn side_load_begins(phases: &[Phase]) -> f64 {
    phases.iter().find(|p| p.name == BESIDE || p.name == COLD).map_or(0.0, |p| p.from)
}

/// The phases of a run in seconds since its side load began.
fn spans(o: &Outcome) -> Vec<Span> {
    let zero = side_load_begins(&o.phases);
    let span = |p: &Phase| Span { from: p.from - zero, to: p.to - zero, label: p.name.clone() };
    o.phases.iter().map(span).collect()
}

/// Values of the samples of a run, by seconds since its side load began.
fn series(o: &Outcome, value: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let zero = side_load_begins(&o.phases);
    o.samples.iter().map(|s| (s.t - zero, value(s))).collect()
}

/// TPS of all subjects in one scenario, with the ceiling as a line across.
fn throughput(title: &str, outcomes: &[&Outcome], reference: Option<&Reference>) -> Option<Chart> {
    // The time until the table is warm differs by subject; a short part of it is enough.
    let lead = |o: &&Outcome| {
        let spans = spans(o);
        let longest = spans.iter().filter(|s| s.from >= 0.0).map(|s| s.to - s.from).fold(0.1, f64::max);
        spans.first().map_or(0.0, |s| s.from).max(-1.5 * longest)
    };
    let from = outcomes.iter().map(lead).fold(0.0, f64::min);
    let line = |o: &&Outcome| {
        let points = series(o, |s| s.tps).into_iter().filter(|p| p.0 >= from);
        Line::new(&o.subject, points).toned(o.tone)
    };
    let mut lines: Vec<Line> = outcomes.iter().map(line).collect();
    let end = lines.iter().filter_map(|l| l.points.last()).map(|p| p.0).reduce(f64::max)?;
    if let Some((name, tps)) = reference.and_then(|r| Some((r.name, r.tps_beside?))) {
        lines.push(Line { dashed: true, ..Line::new(name, [(from, tps), (end, tps)]) });
    }
    let before = outcomes.first().and_then(|o| spans(o).into_iter().rev().find(|s| s.from < 0.0));
    let both = Span { from: 0.0, to: end, label: "OLTP and dump".to_owned() };
    let spans = before.map(|s| Span { from, to: 0.0, label: s.label }).into_iter().chain([both]).collect();
    Some(Chart { spans, ..Chart::over(title, TIME, "transactions per second", lines) })
}

/// The tones of the pool's layers, in the order of the segments.
const LAYERS: [&str; 4] = ["hot", "hot-index", "big", "big-index"];

/// The content of a pool over time.
fn pool(o: &Outcome) -> Chart {
    let layer = |(n, (segment, tone)): (usize, (&Segment, &'static str))| {
        let name = format!("{} {}", segment.table, segment.index);
        Line::new(&name, series(o, |s| s.resident_mb[n])).toned(tone)
    };
    let lines = SEGMENTS.iter().zip(LAYERS).enumerate().map(layer).collect();
    let begin = spans(o).into_iter().filter(|s| s.from == 0.0).take(1).collect();
    let form = Form::Stack { top: o.pool_mb, named: "size of the pool" };
    Chart { form, spans: begin, ..Chart::over(&o.subject, TIME, "MB resident", lines) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::sideload::HOT;
    use crate::target::Resident;

    fn outcome(subject: &str, resident: f64) -> Outcome {
        let sample = |t: f64, mb: f64| Sample {
            t,
            tps: 1.0,
            dump_rows_per_s: 1.0,
            hot_reads_per_s: None,
            resident_mb: vec![mb, 0.0, 0.0, 0.0],
        };
        let content = Resident { table: HOT.to_owned(), index: "PRIMARY".to_owned(), pages: 1, mb: resident };
        let content: Vec<Resident> = (resident > 0.0).then_some(content).into_iter().collect();
        Outcome {
            subject: subject.to_owned(),
            tone: "myrocks",
            resident: [content.clone(), content.clone(), content],
            pool_mb: 2.0,
            samples: vec![sample(3.0, 0.0), sample(4.0, resident)],
            phases: vec![
                Phase { name: "OLTP alone".to_owned(), from: 1.0, to: 3.5 },
                Phase { name: BESIDE.to_owned(), from: 3.5, to: 4.0 },
            ],
            ..Outcome::default()
        }
    }

    /// A pool such as that of MyRocks gets no charts without lines, and no tables of zeros.
    #[test]
    fn a_pool_that_does_not_say_what_is_in_it_has_no_chart_of_that() {
        let outcomes = [outcome("holdfast", 1.0), outcome("MyRocks", 0.0)];
        let shown = |outcomes: &[&Outcome]| figures("", Vec::new(), outcomes, None, "");
        let both = shown(&[&outcomes[0], &outcomes[1]]);
        let pools = |of: &Figures| of.folded.iter().map(|(_, charts)| charts.len()).sum::<usize>();
        assert_eq!((pools(&both), both.grids.len(), both.grids[3].rows.len()), (1, 4, 4));
        assert!(both.grids[..3].iter().all(|grid| grid.rows.len() == 2), "it is among the results");
        let alone = shown(&[&outcomes[1]]);
        assert_eq!((pools(&alone), alone.grids.len()), (0, 3));
    }

    #[test]
    fn time_begins_with_the_side_load() {
        let o = outcome("holdfast", 1.0);
        let tps = [7.0, 9.0, 11.0].map(|tps| Sample { tps, ..o.samples[1].clone() });
        let reference = Reference::new("both", 10.0, (&tps, &o.phases));
        let shown = figures("", Vec::new(), &[&o], Some(&reference), "");
        let (_, charts) = &shown.charts[0];
        assert_eq!(charts.len(), 1, "one scenario was run");
        let points: Vec<_> = charts[0].lines.iter().map(|l| l.points.clone()).collect();
        assert_eq!(points, [vec![(-0.5, 1.0), (0.5, 1.0)], vec![(-0.75, 9.0), (0.5, 9.0)]]);
        let spans: Vec<_> = charts[0].spans.iter().map(|s| (s.from, s.to, s.label.as_str())).collect();
        assert_eq!(spans, [(-0.75, 0.0, "OLTP alone"), (0.0, 0.5, "OLTP and dump")]);
    }
}
