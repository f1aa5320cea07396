//! What a turn of a subject gives: its counts, its latencies, and its seconds; and the turns of a
//! subject so far.

use hdrhistogram::Histogram;

use super::meters::{Meter, Values};
use crate::figures::{Chart, Line, Span};

/// The longest latency that is distinguished, in nanoseconds: ten minutes. At a rate that a subject
/// cannot keep, transactions wait as long as the run lasts.
const LONGEST_NS: u64 = 600_000_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are in order")
}

/// Latencies of transactions, then of each statement class, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Vec<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new(classes: usize) -> Latencies {
        Latencies(vec![histogram(); classes + 1])
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Latencies) {
        // `add` cannot fail, since both have the same bounds.
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.add(theirs).expect("the same bounds"));
    }

    /// Adds `count` transactions (`None`) or statements of a class that took `ns` each.
    pub(crate) fn record(&mut self, class: Option<usize>, ns: u64, count: u64) {
        if let Some(histogram) = self.0.get_mut(class.map_or(0, |c| c + 1)) {
            histogram.saturating_record_n(ns.max(1), count);
        }
    }

    /// The same with every time multiplied by `factor`.
    pub(crate) fn scaled(&self, factor: f64) -> Latencies {
        let mut all = Latencies::new(self.0.len() - 1);
        for (to, from) in all.0.iter_mut().zip(&self.0) {
            for value in from.iter_recorded() {
                let ns = (value.value_iterated_to() as f64 * factor) as u64;
                to.saturating_record_n(ns.max(1), value.count_at_value());
            }
        }
        all
    }

    /// Adds the latencies of `other`, and leaves it empty.
    pub(crate) fn take(&mut self, other: &mut Latencies) {
        self.add(other);
        other.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().filter(|h| !h.is_empty()).for_each(Histogram::reset);
    }

    /// A percentile of whole transactions, in milliseconds; `None` if there were none.
    pub fn transaction_ms(&self, percentile: f64) -> Option<f64> {
        percentile_ms(&self.0[0], percentile)
    }

    /// A percentile of the statements of `class`, in milliseconds; `None` if there were none.
    pub fn class_ms(&self, class: usize, percentile: f64) -> Option<f64> {
        percentile_ms(self.0.get(class + 1)?, percentile)
    }
}

impl Default for Latencies {
    /// Without statements.
    fn default() -> Latencies {
        Latencies::new(0)
    }
}

fn percentile_ms(histogram: &Histogram<u64>, percentile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_percentile(percentile) as f64 / 1e6)
}

/// A second of a turn.
#[derive(Clone, Debug, Default)]
pub struct Second {
    /// The end of the second, in seconds since the turn began; in a series, in seconds of this
    /// subject's turns.
    pub t: f64,
    /// How long it was, in seconds: longer if the thread that looks once a second was late.
    pub length: f64,
    /// Rates and gauges.
    pub values: Values,
    /// Further figures, for charts of this subject alone.
    pub own: Vec<Own>,
}

impl Second {
    /// The whole seconds that it stands for.
    pub fn whole(&self) -> usize {
        self.length.max(1.0) as usize
    }
}

/// A figure of a second that only some subjects report.
#[derive(Clone, Debug)]
pub struct Own {
    /// Title and unit of its chart.
    pub chart: (&'static str, &'static str),
    /// Its line in that chart.
    pub line: String,
    pub value: f64,
    /// True if it is a reference rather than a measurement.
    pub dashed: bool,
}

/// The measurements of a turn.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// How long it was.
    pub seconds: f64,
    pub transactions: f64,
    /// Processor seconds of the engine's process, if the system reports them.
    pub cpu_seconds: Option<f64>,
    /// Rates of the whole turn, gauges at its end.
    pub values: Values,
    /// The times of transactions and statements, if the load reports them.
    pub latencies: Latencies,
    /// sysbench's 95th percentiles of the seconds, in milliseconds.
    pub p95_ms: Vec<f64>,
    /// Microseconds that all sessions together waited, by class, if the engine reports them.
    pub waits_us: Vec<(&'static str, f64)>,
    pub each: Vec<Second>,
}

impl Turn {
    /// Transactions per second.
    pub fn tps(&self) -> f64 {
        self.transactions / self.seconds.max(1e-9)
    }

    /// Processor microseconds of the engine's process per transaction.
    pub fn cpu_us(&self) -> Option<f64> {
        self.cpu_seconds.map(|s| s * 1e6 / self.transactions.max(1.0))
    }

    /// The count of a meter per transaction.
    pub fn per_transaction(&self, meter: Meter) -> Option<f64> {
        self.values[meter as usize].map(|rate| rate / self.tps().max(1e-9))
    }

    /// The same turn of a loop whose transactions are pages, of which this share is written.
    pub fn of_pages(mut self, write_share: f64) -> Turn {
        let pages = self.tps();
        self.values[Meter::Reads as usize] = Some(pages * (1.0 - write_share));
        self.values[Meter::Writes as usize] = Some(pages * write_share);
        self
    }

    /// The values of a meter, second by second.
    pub fn series(&self, meter: Meter) -> Vec<f64> {
        self.each.iter().filter_map(|s| s.values[meter as usize]).collect()
    }
}

/// The turns of a subject so far.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The subject's name in texts.
    pub name: String,
    /// Seconds of all its turns.
    pub ran: f64,
    /// The turns, including warm-ups; each has another seed.
    pub turns: u64,
    /// The seconds of all turns.
    pub seconds: Vec<Second>,
    /// The turns on its time axis; those of a phase that follow one another are one.
    pub spans: Vec<Span>,
}

impl Series {
    /// A subject without turns.
    pub fn new(name: &str) -> Series {
        Series { name: name.to_owned(), ..Series::default() }
    }

    /// The seed of the present turn of a run with seed `seed`; behind the greatest one comes 0.
    pub fn seed_of_turn(&self, seed: u64) -> u64 {
        seed.wrapping_add(self.turns)
    }

    /// Adds a turn at the end.
    pub fn add(&mut self, phase: &str, turn: &Turn) {
        let from = self.ran;
        self.ran += turn.seconds;
        match self.spans.last_mut() {
            Some(last) if last.label == phase => last.to = self.ran,
            _ => self.spans.push(Span { from, to: self.ran, label: phase.to_owned() }),
        }
        self.seconds.extend(turn.each.iter().map(|second| Second { t: from + second.t, ..second.clone() }));
    }

    /// Charts of the figures that only this subject reports: of those that its first second has,
    /// since tables may be created and dropped.
    pub fn own_charts(&self) -> Vec<Chart> {
        let mut charts: Vec<Chart> = Vec::new();
        for own in self.seconds.first().into_iter().flat_map(|second| &second.own) {
            let same = |other: &&Own| other.chart == own.chart && other.line == own.line;
            let value = |second: &Second| second.own.iter().find(same).map_or(0.0, |found| found.value);
            let line = Line::new(&own.line, self.seconds.iter().map(|second| (second.t, value(second))));
            let title = format!("{}: {}", self.name, own.chart.0);
            let at = charts.iter().position(|chart| chart.title == title).unwrap_or(charts.len());
            if at == charts.len() {
                charts.push(Chart::over_time(&title, own.chart.1, Vec::new(), self.spans.clone()));
            }
            charts[at].lines.push(Line { dashed: own.dashed, ..line });
        }
        charts
    }

    /// The values of a meter in a part of the seconds, given as shares of them.
    pub fn part(&self, meter: Meter, from: f64, to: f64) -> Vec<f64> {
        let n = self.seconds.len() as f64;
        let seconds = &self.seconds[(n * from) as usize..(n * to) as usize];
        seconds.iter().filter_map(|s| s.values[meter as usize]).collect()
    }

    /// The greatest value of a meter.
    pub fn most(&self, meter: Meter) -> Option<f64> {
        self.part(meter, 0.0, 1.0).into_iter().reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their sum ended a run with `--seed` near the greatest number, in a build with checks.
    #[test]
    fn the_greatest_seed_has_turns_too() {
        let series = Series { turns: 2, ..Series::default() };
        assert_eq!([1, u64::MAX].map(|seed| series.seed_of_turn(seed)), [3, 1]);
    }

    /// Seconds follow those of the turns before; a table that is there for a while has no line.
    #[test]
    fn a_series_has_its_turns_on_one_axis() {
        let own = |line: &str, value| Own { chart: ("pages", "count"), line: line.to_owned(), value, dashed: false };
        let second = |t, own| Second { t, own, ..Second::default() };
        let turn = |each: Vec<Second>| Turn { seconds: 2.0, each, ..Turn::default() };
        let mut series = Series::new("s");
        series.add("a", &turn(vec![second(1.0, vec![own("t", 5.0)]), second(2.0, vec![own("passing", 1.0)])]));
        series.add("a", &turn(vec![second(1.5, vec![own("t", 7.0)])]));
        let charts = series.own_charts();
        assert_eq!((charts.len(), charts[0].title.as_str(), charts[0].lines.len()), (1, "s: pages", 1));
        assert_eq!(charts[0].lines[0].points, [(1.0, 5.0), (2.0, 0.0), (3.5, 7.0)]);
        assert_eq!(series.spans.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(), [(0.0, 4.0)]);
    }
}
