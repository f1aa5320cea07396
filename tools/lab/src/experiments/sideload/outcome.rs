//! What a run measured: a policy of the embedded engine, or an engine on a server, warm or cold.

use serde_json::{Value, json};

use super::options::Start;
use crate::bench::{Phase, SEGMENTS, Sample, Segment};
use crate::claims::Evidence;
use crate::document::{Run, merged};
use crate::measure::{Figure, human};
use crate::target::{FREE, Resident, mb_of};

/// The way to a resident hot table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmth {
    /// The time it took since OLTP began, or the time of the wait.
    pub seconds: f64,
    /// Pages of the hot table read in that time, if the subject reports them.
    pub reads: Option<u64>,
    /// True if it got warm (`WARM`).
    pub reached: bool,
    /// True if all of it is in memory: no page of it is left to be read.
    pub whole: bool,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The policy or the engine.
    pub subject: String,
    /// The class of its colour in charts.
    pub tone: &'static str,
    /// The load that started first.
    pub start: Start,
    /// Transactions per second that OLTP was held to; `None` for full speed.
    pub rate: Option<f64>,
    /// TPS without the dump; not measured cold.
    pub tps_alone: Option<f64>,
    /// TPS beside the dump, turn by turn; a single value at a rate.
    pub tps_beside: Vec<f64>,
    /// TPS beside the dump of a cold start: turn by turn, or by parts of the second half of one
    /// that did not get warm.
    pub tps_in_cold: Vec<f64>,
    /// TPS of the pool that holds both tables, in the same turns.
    pub ceiling_tps: Vec<f64>,
    /// Seconds of a dump without OLTP.
    pub dump_s_alone: Option<f64>,
    /// Seconds of a dump at the pace of each turn.
    pub dump_s_beside: Vec<f64>,
    /// The same of the pool that holds both tables.
    pub ceiling_dump_s: Vec<f64>,
    /// 95th percentile of the transactions beside the dump, in milliseconds.
    pub p95_ms: Option<f64>,
    /// Reads of the hot table beside the dump once it was resident, if the subject reports them.
    pub hot_reads: Option<u64>,
    /// Turnovers of the hot set in that time: how often the dump went through as many pages as the
    /// hot table has.
    pub turnovers: f64,
    /// The way to a resident hot table, where it was measured.
    pub warmth: Option<Warmth>,
    /// Pages made young, and touches that did not make a page young.
    pub young: Option<(u64, u64)>,
    /// Rows that the dump went through while they were counted. In a cold run of a policy that is
    /// by the dump alone, once the pool is full; else by OLTP and dump.
    pub dumped_rows: f64,
    /// The pages of these rows, of a policy.
    pub dumped_pages: f64,
    /// The cache before, during and after.
    pub resident: [Vec<Resident>; 3],
    /// Size of the pool, 10^6 bytes.
    pub pool_mb: f64,
    /// For the charts.
    pub samples: Vec<Sample>,
    /// For the charts.
    pub phases: Vec<Phase>,
}

/// The load of a run, in words.
pub fn load_name(rate: Option<f64>) -> String {
    rate.map_or_else(|| "full speed".to_owned(), |rate| format!("{} tps asked", human(rate)))
}

/// Ratios turn by turn.
pub fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).filter(|(_, to)| **to > 0.0).map(|(of, to)| of / to).collect()
}

impl Outcome {
    /// OLTP beside the dump, as a share of the ceiling, turn by turn; without one, of the
    /// rate that it was held to.
    pub fn oltp_ratios(&self) -> Vec<f64> {
        match self.rate {
            Some(rate) if self.ceiling_tps.is_empty() => self.tps_beside.iter().map(|tps| tps / rate).collect(),
            _ => ratios(&self.tps_beside, &self.ceiling_tps),
        }
    }

    /// Reads of the hot table, as evidence for none. How long the table takes to become resident
    /// depends on the machine, so reads of one that was not are no exact count.
    pub fn evidence_of_hot_reads(&self) -> Evidence {
        let reads = self.hot_reads.map(|n| n as f64);
        if self.warmth.is_none_or(|w| w.whole) { Evidence::counted(reads) } else { Evidence::once(reads) }
    }

    /// The dump's pace beside OLTP, as a share of the ceiling, turn by turn.
    pub fn dump_ratios(&self) -> Vec<f64> {
        ratios(&self.ceiling_dump_s, &self.dump_s_beside)
    }

    /// MB of an index in the cache before (0), during (1) or after (2); of the table without one.
    pub fn mb(&self, moment: usize, table: &str, index: &str) -> f64 {
        mb_of(&self.resident[moment], table, index)
    }

    /// True if the subject reports the content of its cache.
    pub fn tells_its_content(&self) -> bool {
        !self.resident[1].is_empty()
    }

    /// Time to get warm, in words.
    pub fn warm_text(&self) -> String {
        let Some(warmth) = self.warmth else { return "-".to_owned() };
        let Some(reads) = warmth.reads else { return "unknown: reads are not reported".to_owned() };
        let reads = format!("{} reads", human(reads as f64));
        let after = human(warmth.seconds);
        if warmth.reached { format!("{after} s, {reads}") } else { format!("not in {after} s, {reads}") }
    }

    /// The outcome as a run of the document, with what only this kind of subject measures.
    pub fn run(&self, target: &str, others: Value) -> Run {
        let resident = |moment: usize| {
            let has_free = self.resident[moment].iter().any(|r| r.table == FREE);
            let free = has_free.then_some(Segment { table: FREE, index: "" });
            let row =
                |Segment { table, index }| json!({"table": table, "index": index, "mb": self.mb(moment, table, index)});
            SEGMENTS.into_iter().chain(free).map(row).collect::<Value>()
        };
        let reached = |w: Warmth| w.reads.map(|_| w.reached);
        let warmth = |w: Warmth| json!({"reached": reached(w), "seconds": w.seconds, "reads": w.reads});
        let measured = json!({
            "role": "policy",
            "start": self.start.name(),
            "load": load_name(self.rate),
            "rate_tps": self.rate,
            "tps_alone": self.tps_alone,
            "tps_beside": Figure::of(&self.tps_beside),
            "ceiling_tps": Figure::of(&self.ceiling_tps),
            "tps_of_ceiling": Figure::of(&self.oltp_ratios()),
            "p95_ms": self.p95_ms,
            "dump_s_alone": self.dump_s_alone,
            "dump_s_beside": Figure::of(&self.dump_s_beside),
            "ceiling_dump_s": Figure::of(&self.ceiling_dump_s),
            "dump_of_ceiling": Figure::of(&self.dump_ratios()),
            "hot_pages_read": self.hot_reads,
            "hot_set_turnovers": self.turnovers,
            "warm": self.warmth.map(warmth),
            "made_young": self.young.map(|y| y.0),
            "not_young": self.young.map(|y| y.1),
            "resident_mb": {"before": resident(0), "during": resident(1), "after": resident(2)},
            "segments": SEGMENTS,
            "pool_mb": self.pool_mb,
            "samples": self.samples,
            "phases": self.phases,
        });
        Run::new(target, &self.subject, merged(measured, others))
    }
}
