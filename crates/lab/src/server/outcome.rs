//! The results of the experiment on servers, as document and text, and the claims about them.

use serde_json::{Value, json};

use super::contender::Contender;
use super::instance::segments;
use super::probe::Resident;
use crate::bench::{Phase, Sample};
use crate::claims::Claim;
use crate::document::{Run, metrics};
use crate::experiments::sideload::{BIG, HOT, Shares, Start};
use crate::measure::{Figure, human};
use crate::text::table;

/// The way to a resident hot table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmth {
    /// The time it took, or the time of the wait.
    pub seconds: f64,
    /// Reads of the hot table in that time.
    pub reads: Option<u64>,
    /// True if it became resident.
    pub reached: bool,
}

/// One contender, warm or cold.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The contender.
    pub contender: Contender,
    /// The load that started first.
    pub start: Start,
    /// Transactions per second without the dump; not measured cold.
    pub tps_alone: Option<f64>,
    /// Transactions per second beside the dump, turn by turn.
    pub tps_beside: Vec<f64>,
    /// Transactions per second of the pool that holds both tables.
    pub ceiling_tps: Vec<f64>,
    /// Seconds of a dump without OLTP.
    pub dump_s_alone: f64,
    /// Seconds of a dump at the pace of each turn.
    pub dump_s_beside: Vec<f64>,
    /// Seconds of a dump of the pool that holds both tables.
    pub ceiling_dump_s: Vec<f64>,
    /// 95th percentile of the transactions beside the dump, in milliseconds.
    pub p95_ms: Option<f64>,
    /// Reads of the hot table beside the dump, once measured in turns.
    pub hot_reads: Option<u64>,
    /// How often the dump read as many pages as the hot table has, in that time.
    pub turnovers: f64,
    /// The way to a resident hot table.
    pub warmth: Warmth,
    /// Pages made young, and touches that did not make a page young, beside the dump.
    pub young: Option<(u64, u64)>,
    /// The cache before, during and after.
    pub resident: [Vec<Resident>; 3],
    /// Size of the pool, 10^6 bytes.
    pub pool_mb: f64,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The phases.
    pub phases: Vec<Phase>,
}

impl Outcome {
    /// OLTP beside the dump, as a share of the ceiling, turn by turn.
    #[must_use]
    pub fn oltp_ratio(&self) -> Option<Figure> {
        Figure::of(&ratios(&self.tps_beside, &self.ceiling_tps))
    }

    /// The dump's pace beside OLTP, as a share of the ceiling.
    #[must_use]
    pub fn dump_ratio(&self) -> Option<Figure> {
        Figure::of(&ratios(&self.ceiling_dump_s, &self.dump_s_beside))
    }

    pub(super) fn mb(&self, moment: usize, table: &str, index: &str) -> f64 {
        Resident::mb_of(&self.resident[moment], table, index)
    }

    fn warm_text(&self) -> String {
        let reads =
            self.warmth.reads.map_or_else(|| "reads unknown".to_owned(), |n| format!("{} reads", human(n as f64)));
        let after = human(self.warmth.seconds);
        if self.warmth.reached { format!("{after} s, {reads}") } else { format!("not in {after} s, {reads}") }
    }

    /// The outcome as a run of the document.
    #[must_use]
    pub fn run(&self) -> Run {
        let resident = |moment: usize| {
            let row = |s: crate::bench::Segment| json!({"table": s.table, "index": s.index, "mb": self.mb(moment, &s.table, &s.index)});
            Value::Array(segments().into_iter().map(row).collect())
        };
        Run {
            target: "mariadb".to_owned(),
            policy: self.contender.to_string(),
            metrics: metrics(json!({
                "role": "policy",
                "start": self.start.name(),
                "load": "beside the dump",
                "tps_alone": self.tps_alone,
                "tps_beside": Figure::of(&self.tps_beside),
                "ceiling_tps": Figure::of(&self.ceiling_tps),
                "tps_of_ceiling": self.oltp_ratio(),
                "p95_ms": self.p95_ms,
                "dump_s_alone": self.dump_s_alone,
                "dump_s_beside": Figure::of(&self.dump_s_beside),
                "ceiling_dump_s": Figure::of(&self.ceiling_dump_s),
                "dump_of_ceiling": self.dump_ratio(),
                "hot_pages_read": self.hot_reads,
                "hot_set_turnovers": self.turnovers,
                "warm": {"reached": self.warmth.reached, "seconds": self.warmth.seconds, "reads": self.warmth.reads},
                "warm_text": self.warm_text(),
                "made_young": self.young.map(|y| y.0),
                "not_young": self.young.map(|y| y.1),
                "diagnosis": super::diagnosis::of(self),
                "counted": self.contender.how_it_is_counted(),
                "resident_mb": {"before": resident(0), "during": resident(1), "after": resident(2)},
                "segments": segments(),
                "pool_mb": self.pool_mb,
                "samples": self.samples,
                "phases": self.phases,
            })),
        }
    }
}

/// Ratios turn by turn.
pub(super) fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).filter(|(_, to)| **to > 0.0).map(|(of, to)| of / to).collect()
}

/// The claims, on Holdfast. The other engines are only reported.
#[must_use]
pub fn claims(outcomes: &[Outcome]) -> Vec<Claim> {
    let of = |start| {
        let outcome = outcomes.iter().find(|o: &&Outcome| o.contender == Contender::Holdfast && o.start == start);
        let shares = |o: &Outcome| (ratios(&o.tps_beside, &o.ceiling_tps), ratios(&o.ceiling_dump_s, &o.dump_s_beside));
        let (oltp, dump) = outcome.map(shares).unwrap_or_default();
        let (hot_reads, turnovers) = (outcome.and_then(|o| o.hot_reads), outcome.map_or(0.0, |o| o.turnovers));
        Shares { name: format!("holdfast, {}", start.name()), oltp: &oltp, dump: &dump, hot_reads, turnovers }.claims()
    };
    [Start::Warm, Start::Cold].into_iter().flat_map(of).collect()
}

const COLUMNS: [&str; 14] = [
    "engine",
    "start",
    "TPS alone",
    "TPS beside",
    "ceiling",
    "of ceiling",
    "p95 ms",
    "dump s alone",
    "beside",
    "ceiling",
    "of ceiling",
    "hot reads",
    "hot MB",
    "time to get warm",
];

/// The results and the content of the cache as text.
#[must_use]
pub fn text(outcomes: &[Outcome]) -> String {
    let spread = |f: Option<Figure>, unit: &dyn Fn(f64) -> String| match f {
        None => "-".to_owned(),
        Some(f) if f.n == 1 => unit(f.median),
        Some(f) => format!("{} ({}..{})", unit(f.median), unit(f.min), unit(f.max)),
    };
    let percent = |v: f64| format!("{:.1} %", v * 100.0);
    let middle = |v: &[f64]| Figure::of(v).map_or_else(|| "-".to_owned(), |f| human(f.median));
    let known = |o: &Outcome, mb: f64| if o.resident[1].is_empty() { "-".to_owned() } else { format!("{mb:.1}") };
    let row = |o: &Outcome| {
        vec![
            o.contender.to_string(),
            o.start.name().to_owned(),
            o.tps_alone.map_or_else(|| "-".to_owned(), human),
            spread(Figure::of(&o.tps_beside), &human),
            middle(&o.ceiling_tps),
            spread(o.oltp_ratio(), &percent),
            o.p95_ms.map_or_else(|| "-".to_owned(), human),
            human(o.dump_s_alone),
            middle(&o.dump_s_beside),
            middle(&o.ceiling_dump_s),
            spread(o.dump_ratio(), &percent),
            o.hot_reads.map_or_else(|| "-".to_owned(), |n| human(n as f64)),
            known(o, o.mb(1, HOT, "")),
            o.warm_text(),
        ]
    };
    let mut text = table(&COLUMNS, &outcomes.iter().map(row).collect::<Vec<_>>(), 2);
    text.push_str("\nMB of the cache before, beside and after the dump:\n\n");
    let mut rows = Vec::new();
    for o in outcomes.iter().filter(|o| !o.resident[1].is_empty()) {
        for (name, index) in [(HOT, "PRIMARY"), (HOT, "k"), (BIG, "PRIMARY"), (BIG, "k")] {
            let mut row = vec![o.contender.to_string(), o.start.name().to_owned(), name.to_owned(), index.to_owned()];
            row.extend((0..3).map(|moment| format!("{:.2}", o.mb(moment, name, index))));
            rows.push(row);
        }
    }
    text.push_str(&table(&["engine", "start", "table", "index", "before", "beside", "after"], &rows, 4));
    text.push_str("\nHot reads and MB are the servers' own figures.\n");
    let mut said = Vec::new();
    for o in outcomes {
        let how = o.contender.how_it_is_counted();
        if !said.contains(&how) {
            said.push(how);
            text.push_str(&format!("  {how}.\n"));
        }
    }
    text
}
