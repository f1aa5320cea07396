//! The result, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::plan::{Plan, Terms};
use super::sysbench::Slice;
use crate::pairs;
use holdfast_server::statistics::{Summary, geometric_mean, summary};

/// The bars of the comparison.
const CELL_BAR: f64 = 0.97;
const MEAN_BAR: f64 = 1.0;

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

    /// Whether the bar is met: surely, surely not, or neither.
    fn verdict(&self) -> Verdict {
        match self.rate {
            rate if rate.lower_bound >= CELL_BAR => Verdict::Holds,
            rate if rate.upper_bound < CELL_BAR => Verdict::Fails,
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

/// Prints the reports, and what the time did not suffice for, and writes them as JSON: to a file,
/// or to standard output if that is `-`.
pub fn publish(plan: &Plan, reports: &[Report], not_measured: &[String], to: Option<&Path>) -> anyhow::Result<()> {
    let tables =
        |of: fn(&Report, &Plan) -> String| reports.iter().map(|r| of(r, plan)).collect::<Vec<_>>().join("\n\n");
    let mut text = match plan.divides_cores {
        true => tables(|report, plan| format!("{}\n\n{}", report.markdown(), report.ratios(plan))),
        false => tables(|report, _| report.markdown()),
    };
    for cell in not_measured {
        let _ = write!(text, "\nnot measured, for the time was over: {cell}");
    }
    let mut json = match reports {
        [report] if !plan.divides_cores => report.json(),
        reports => json!({
            "server_processors": plan.server_cores, "client_processors": plan.client_cores,
            "files_in_memory": plan.in_memory, "pairs": plan.pairs, "seconds": plan.seconds,
            "reports": reports.iter().map(Report::json).collect::<Vec<_>>(),
            "geometric_mean": geometric_mean(reports.iter().flat_map(|r| &r.cells).map(|cell| cell.rate.median)),
        }),
    };
    if !not_measured.is_empty() {
        json["not_measured"] = json!(not_measured);
    }
    pairs::publish(&text, &json, to)
}

/// All cells of the same terms.
pub struct Report {
    pub version: String,
    pub terms: Terms,
    pub tables: (u32, u32),
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
        let below = self.cells.iter().filter(|cell| cell.rate.lower_bound < CELL_BAR).count();
        let (mean, cells) = (self.mean(), self.cells.len());
        let _ = write!(
            out,
            "\ngeometric mean of the medians {mean:.3} (bar {MEAN_BAR}); {below} of {cells} cells have a lower bound below \
             {CELL_BAR}"
        );
        out
    }

    /// The numbers of connections that the time did not suffice for, a line for each workload.
    pub fn not_measured(&self, plan: &Plan) -> Vec<String> {
        let left_out = |workload: &String| {
            let has = |threads| self.cells.iter().any(|cell| cell.workload == *workload && cell.threads == threads);
            let rest: Vec<_> = plan.threads.iter().filter(|&&threads| !has(threads)).map(usize::to_string).collect();
            let list = rest.join(", ");
            (!rest.is_empty()).then(|| format!("{}: {workload} at {list} connections", self.terms.says()))
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
                cell.map_or(" - |".into(), |cell| format!(" {:.2} {} |", cell.rate.median, cell.verdict().name()))
            };
            let row = all.iter().map(cell).collect::<String>();
            // Writing to a String cannot fail.
            let _ = writeln!(out, "| {workload} |{row}");
        }
        let count = |verdict| self.cells.iter().filter(|cell| cell.verdict() == verdict).count();
        let [holds, open, fails] = [Verdict::Holds, Verdict::Open, Verdict::Fails].map(count);
        let _ =
            write!(out, "\nbar {CELL_BAR}: {holds} cells hold, {fails} fail, {open} are open (more pairs would tell)");
        out
    }

    fn json(&self) -> Value {
        let of = |s: &Summary| json!({"median": s.median, "lower_bound": s.lower_bound, "least": s.least, "greatest": s.greatest});
        let cells = self.cells.iter().map(|c| {
            json!({
                "workload": c.workload, "threads": c.threads, "rate": of(&c.rate), "processor_time": of(&c.processor),
                "holdfast_per_second": c.holdfast_per_second, "innodb_per_second": c.innodb_per_second,
                "verdict": c.verdict().name(),
            })
        });
        json!({
            "version": self.version, "flush_log_at_trx_commit": self.terms.flush, "binary_log": self.terms.binary_log,
            "tables": self.tables.0, "rows": self.tables.1, "cells": cells.collect::<Vec<_>>(),
            "geometric_mean": self.mean(),
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
        assert_eq!(cell([1.0, 1.01, 1.0]).verdict(), Verdict::Holds);
        assert_eq!(cell([0.7, 1.0, 1.4]).verdict(), Verdict::Open);
        assert_eq!(cell([0.7, 0.96, 1.3]).verdict(), Verdict::Open, "noise does not fail");
        assert_eq!(cell([0.7, 0.72, 0.71]).verdict(), Verdict::Fails);
    }

    #[test]
    fn what_is_missing_is_said() {
        let terms = Terms { flush: 2, binary_log: false };
        let asked = plan("--cores --threads 64,8,1 oltp_insert oltp_delete");
        let report = Report { version: "10.11".into(), terms, tables: (1, 10), cells: vec![cell([0.7, 0.72, 0.71])] };
        let said = report.not_measured(&asked);
        assert_eq!(said.len(), 2);
        assert!(said[0].ends_with("no binary log: oltp_insert at 64, 1 connections"), "{said:?}");
        assert!(report.ratios(&asked).contains("| 1 | 8 | 64 |"), "{}", report.ratios(&asked));
        assert!(report.not_measured(&plan("--cores --threads 8 oltp_insert")).is_empty());
    }

    #[test]
    fn the_json_has_a_verdict_for_each_cell() {
        let terms = Terms { flush: 1, binary_log: true };
        let report = Report { version: "10.11".into(), terms, tables: (1, 10), cells: vec![cell([0.7, 0.72, 0.71])] };
        let json = report.json();
        assert_eq!((&json["binary_log"], &json["cells"][0]["verdict"]), (&json!(true), &json!("fails")));
        assert!(report.markdown().contains("with the binary log"));
    }
}
