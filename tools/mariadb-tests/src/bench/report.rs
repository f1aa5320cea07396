//! The result, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::plan::{Plan, Terms};
use super::sysbench::Slice;
use crate::pairs;
use holdfast_server::statistics::{Summary, geometric_mean, summary};

/// What the ratios must be, at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bars {
    /// The ratio of a cell.
    cell: f64,
    /// The geometric mean of the medians.
    mean: f64,
    /// The ratio of the cell [`CONTENDED`].
    contended: f64,
}

/// Sessions that contend for the ends of an index: what waits there on InnoDB need not here.
const CONTENDED: (&str, usize) = ("oltp_update_index", 64);
/// Cores from which on the bars are those of many cores.
const MANY: usize = 16;
const OF_MANY: Bars = Bars { cell: 1.0, mean: 1.15, contended: 1.2 };
const OF_FEW: Bars = Bars { cell: 0.97, mean: 1.0, contended: 0.97 };

impl Bars {
    /// Those of a server and its clients that divide so many cores.
    pub fn of(cores: usize) -> Bars {
        if cores < MANY { OF_FEW } else { OF_MANY }
    }

    fn of_cell(&self, cell: &Cell) -> f64 {
        if (cell.workload.as_str(), cell.threads) == CONTENDED { self.contended } else { self.cell }
    }

    /// Those of the cells.
    fn says(&self) -> String {
        let Bars { cell, contended, .. } = self;
        let (workload, threads) = CONTENDED;
        let other = if contended > cell { format!(", {contended} of {workload} at {threads}") } else { String::new() };
        format!("bar {cell}{other}")
    }
}

/// One workload at one number of connections.
pub struct Cell {
    workload: String,
    threads: usize,
    /// Of the rates, Holdfast's by InnoDB's.
    rate: Summary,
    /// The server's processor time for a transaction, InnoDB's by Holdfast's: more than 1 means
    /// that Holdfast needs less.
    processor: Summary,
    holdfast_per_second: f64,
    innodb_per_second: f64,
}

impl Cell {
    /// Of pairs of Holdfast and InnoDB.
    pub fn new(workload: &str, threads: usize, pairs: &[(Slice, Slice)]) -> Cell {
        let ratios = |of: &dyn Fn(&(Slice, Slice)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
        Cell {
            workload: workload.into(),
            threads,
            rate: summary(&ratios(&|(h, i)| h.rate / i.rate)),
            processor: summary(&ratios(&|(h, i)| i.server_us / h.server_us)),
            holdfast_per_second: summary(&ratios(&|(h, _)| h.rate)).median,
            innodb_per_second: summary(&ratios(&|(_, i)| i.rate)).median,
        }
    }

    /// Whether its bar is met: surely, surely not, or neither.
    fn verdict(&self, bars: &Bars) -> Verdict {
        match (self.rate, bars.of_cell(self)) {
            (rate, bar) if rate.lower_bound >= bar => Verdict::Holds,
            (rate, bar) if rate.upper_bound < bar => Verdict::Fails,
            _ => Verdict::Open,
        }
    }

    /// As a row of a table.
    pub fn line(&self) -> String {
        let Cell { rate, processor, .. } = self;
        format!(
            "| {} | {} | {:.0} | {:.0} | {:.2} | {:.2} - {:.2} | **{:.2}** | {:.2} | {:.2} |",
            self.workload,
            self.threads,
            self.holdfast_per_second,
            self.innodb_per_second,
            rate.median,
            rate.least,
            rate.greatest,
            rate.lower_bound,
            processor.median,
            processor.lower_bound
        )
    }
}

/// On a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    Fails,
    /// The bar lies between the bounds: more pairs would tell.
    Open,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Fails => "fails",
            Verdict::Open => "open",
        }
    }
}

/// Cells for which the time did not suffice.
pub struct NotMeasured {
    pub terms: Terms,
    pub workload: String,
    pub threads: Vec<usize>,
}

impl NotMeasured {
    fn line(&self) -> String {
        let threads: Vec<String> = self.threads.iter().map(usize::to_string).collect();
        format!("- {}, {}: {} connections", self.workload, self.terms.says(), threads.join(", "))
    }

    fn json(&self) -> Value {
        json!({
            "flush_log_at_trx_commit": self.terms.flush, "binary_log": self.terms.binary_log,
            "workload": self.workload, "threads": self.threads,
        })
    }
}

/// Prints the reports and writes them as JSON: to a file, or to standard output if that is `-`.
pub fn publish(plan: &Plan, reports: &[Report], not_measured: &[NotMeasured], to: Option<&Path>) -> anyhow::Result<()> {
    pairs::publish(&text(plan, reports, not_measured), &document(plan, reports, not_measured), to)
}

fn text(plan: &Plan, reports: &[Report], not_measured: &[NotMeasured]) -> String {
    let table = |report: &Report| match plan.divides_cores {
        true => format!("{}\n\n{}", report.markdown(), report.ratios(plan)),
        false => report.markdown(),
    };
    let mut parts: Vec<String> = reports.iter().map(table).collect();
    if !not_measured.is_empty() {
        let lines: Vec<String> = not_measured.iter().map(NotMeasured::line).collect();
        parts.push(format!("Not measured, for the time was over:\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn document(plan: &Plan, reports: &[Report], not_measured: &[NotMeasured]) -> Value {
    let mut json = match reports {
        [report] if !plan.divides_cores => report.json(),
        reports => json!({
            "server_processors": plan.server_cores, "client_processors": plan.client_cores,
            "files_in_memory": plan.in_memory, "pairs": plan.pairs, "seconds": plan.seconds,
            "reports": reports.iter().map(Report::json).collect::<Vec<_>>(),
            "geometric_mean": geometric_mean(reports.iter().flat_map(|r| &r.cells).map(|cell| cell.rate.median)),
        }),
    };
    json["not_measured"] = not_measured.iter().map(NotMeasured::json).collect();
    json
}

/// All cells of the same terms.
pub struct Report {
    pub version: String,
    pub terms: Terms,
    pub tables: (u32, u32),
    pub bars: Bars,
    pub cells: Vec<Cell>,
}

impl Report {
    fn mean(&self) -> f64 {
        geometric_mean(self.cells.iter().map(|cell| cell.rate.median))
    }

    pub fn markdown(&self) -> String {
        let mut out = format!(
            "MariaDB {}, {} tables of {} rows, {}\n\n",
            self.version,
            self.tables.0,
            self.tables.1,
            self.terms.says()
        );
        out += "| workload | threads | Holdfast/s | InnoDB/s | ratio, median | least - greatest | lower 95 % bound | \
                processor time, InnoDB's by ours | lower 95 % bound |\n";
        out += "|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
        for cell in &self.cells {
            out += &cell.line();
            out.push('\n');
        }
        let below = self.cells.iter().filter(|cell| cell.rate.lower_bound < self.bars.of_cell(cell)).count();
        let (mean, cells) = (self.mean(), self.cells.len());
        let _ = write!(
            out,
            "\ngeometric mean of the medians {mean:.3} (bar {}); {below} of {cells} cells have a lower bound below \
             the {}",
            self.bars.mean,
            self.bars.says()
        );
        out
    }

    /// The cells of these terms for which the time did not suffice.
    pub fn not_measured(&self, plan: &Plan) -> Vec<NotMeasured> {
        let left_out = |workload: &String| {
            let has = |threads| self.cells.iter().any(|cell| cell.workload == *workload && cell.threads == threads);
            let threads: Vec<usize> = plan.threads.iter().copied().filter(|&threads| !has(threads)).collect();
            let missing = NotMeasured { terms: self.terms, workload: workload.clone(), threads };
            Some(missing).filter(|missing| !missing.threads.is_empty())
        };
        plan.workloads.iter().filter_map(left_out).collect()
    }

    /// The medians by workload and connections, each with its verdict.
    fn ratios(&self, plan: &Plan) -> String {
        let mut all = plan.threads.clone();
        all.sort_unstable();
        let counts = all.iter().map(|threads| format!(" {threads} |")).collect::<String>();
        let mut out = format!("| Holdfast's rate by InnoDB's |{counts}\n|---|{}\n", "---:|".repeat(plan.threads.len()));
        for workload in &plan.workloads {
            let cell = |threads: &usize| {
                let cell = self.cells.iter().find(|cell| cell.workload == *workload && cell.threads == *threads);
                cell.map_or(" - |".into(), |cell| {
                    format!(" {:.2} {} |", cell.rate.median, cell.verdict(&self.bars).name())
                })
            };
            let row = all.iter().map(cell).collect::<String>();
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| {workload} |{row}");
        }
        let count = |verdict| self.cells.iter().filter(|cell| cell.verdict(&self.bars) == verdict).count();
        let [holds, open, fails] = [Verdict::Holds, Verdict::Open, Verdict::Fails].map(count);
        let bars = self.bars.says();
        let _ = write!(out, "\n{bars}: {holds} cells hold, {fails} fail, {open} are open (more pairs would tell)");
        out
    }

    fn json(&self) -> Value {
        let of = |s: &Summary| json!({"median": s.median, "lower_bound": s.lower_bound, "least": s.least, "greatest": s.greatest});
        let cells = self.cells.iter().map(|c| {
            json!({
                "workload": c.workload, "threads": c.threads, "rate": of(&c.rate), "processor_time": of(&c.processor),
                "holdfast_per_second": c.holdfast_per_second, "innodb_per_second": c.innodb_per_second,
                "bar": self.bars.of_cell(c), "verdict": c.verdict(&self.bars).name(),
            })
        });
        json!({
            "version": self.version, "flush_log_at_trx_commit": self.terms.flush, "binary_log": self.terms.binary_log,
            "tables": self.tables.0, "rows": self.tables.1, "cells": cells.collect::<Vec<_>>(),
            "geometric_mean": self.mean(), "bar_of_the_mean": self.bars.mean,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::plan;
    use super::*;

    fn cell(ratios: [f64; 3]) -> Cell {
        let slice = |rate: f64| Slice { rate, server_us: 100.0 };
        Cell::new("oltp_insert", 8, &ratios.map(|ratio| (slice(1_000.0 * ratio), slice(1_000.0))))
    }

    #[test]
    fn a_verdict_is_open_where_the_spread_is_wide() {
        let verdict = |ratios| cell(ratios).verdict(&OF_FEW);
        assert_eq!(verdict([1.0, 1.01, 1.0]), Verdict::Holds);
        assert_eq!(verdict([0.7, 1.0, 1.4]), Verdict::Open);
        assert_eq!(verdict([0.7, 0.96, 1.3]), Verdict::Open, "noise does not fail");
        assert_eq!(verdict([0.7, 0.72, 0.71]), Verdict::Fails);
    }

    #[test]
    fn sixteen_cores_have_bars_of_their_own() {
        let verdict = |workload: &str, threads, cores| {
            Cell { workload: workload.into(), threads, ..cell([1.1, 1.1, 1.11]) }.verdict(&Bars::of(cores))
        };
        assert_eq!(verdict(CONTENDED.0, 64, 16), Verdict::Fails);
        assert_eq!(
            [(64, 15), (32, 16)].map(|(threads, cores)| verdict(CONTENDED.0, threads, cores)),
            [Verdict::Holds; 2]
        );
        let slower = cell([0.98, 0.98, 0.981]);
        assert_eq!([2, 16].map(|cores| slower.verdict(&Bars::of(cores))), [Verdict::Holds, Verdict::Fails]);
        assert_eq!([2, 16].map(|cores| Bars::of(cores).mean), [1.0, 1.15]);
    }

    const TERMS: Terms = Terms { flush: 1, binary_log: true };

    fn report() -> Report {
        let cells = vec![cell([0.7, 0.72, 0.71])];
        Report { version: "10.11".into(), terms: TERMS, tables: (1, 10), bars: Bars::of(16), cells }
    }

    #[test]
    fn what_is_missing_is_said() {
        let terms = Terms { flush: 2, binary_log: false };
        let asked = plan("--cores --threads 64,8,1 oltp_insert oltp_delete");
        let report = Report { terms, ..report() };
        let missing: Vec<_> =
            report.not_measured(&asked).iter().map(|m| (m.workload.clone(), m.threads.len())).collect();
        assert_eq!(missing, [("oltp_insert".to_owned(), 2), ("oltp_delete".to_owned(), 3)]);
        assert!(report.ratios(&asked).contains("| 1 | 8 | 64 |"), "{}", report.ratios(&asked));
        assert!(report.not_measured(&plan("--cores --threads 8 oltp_insert")).is_empty());
    }

    #[test]
    fn the_json_has_a_verdict_for_each_cell() {
        let json = report().json();
        let cell = &json["cells"][0];
        assert_eq!((&json["binary_log"], &cell["bar"], &cell["verdict"]), (&json!(true), &json!(1.0), &json!("fails")));
        assert_eq!(json["bar_of_the_mean"], 1.15);
        assert!(report().markdown().contains("with the binary log"));
    }

    /// They were named on standard error only.
    #[test]
    fn what_the_time_did_not_suffice_for_is_named() {
        let skipped = [NotMeasured { terms: TERMS, workload: "oltp_delete".into(), threads: vec![64, 256] }];
        for divides_cores in [false, true] {
            let plan = super::super::plan::tests::plan(if divides_cores { "--cores" } else { "" });
            let json = document(&plan, &[report()], &skipped);
            let expected = json!([{
                "flush_log_at_trx_commit": 1, "binary_log": true, "workload": "oltp_delete", "threads": [64, 256],
            }]);
            assert_eq!(json["not_measured"], expected);
            let text = text(&plan, &[report()], &skipped);
            assert!(text.ends_with("with the binary log: 64, 256 connections"), "{text}");
        }
    }
}
