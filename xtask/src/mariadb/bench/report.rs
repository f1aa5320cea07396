//! The result, for people and for programs.

use std::fmt::Write;

use serde_json::json;

use super::sysbench::Slice;
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

/// All cells.
pub struct Report {
    pub version: String,
    pub flush: u8,
    pub tables: (u32, u32),
    pub cells: Vec<Cell>,
}

impl Report {
    fn mean(&self) -> f64 {
        geometric_mean(self.cells.iter().map(|cell| cell.rate.median))
    }

    pub fn markdown(&self) -> String {
        let mut out = format!(
            "MariaDB {}, {} tables of {} rows, flush_log_at_trx_commit={} on both, no binary log\n\n",
            self.version, self.tables.0, self.tables.1, self.flush
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

    pub fn json(&self) -> anyhow::Result<String> {
        let of = |s: &Summary| json!({"median": s.median, "lower_bound": s.lower_bound, "least": s.least, "greatest": s.greatest});
        let cells = self.cells.iter().map(|c| {
            json!({
                "workload": c.workload, "threads": c.threads, "rate": of(&c.rate), "processor_time": of(&c.processor),
                "holdfast_per_second": c.holdfast_per_second, "innodb_per_second": c.innodb_per_second,
            })
        });
        let report = json!({
            "version": self.version, "flush_log_at_trx_commit": self.flush, "tables": self.tables.0, "rows": self.tables.1,
            "cells": cells.collect::<Vec<_>>(), "geometric_mean": self.mean(),
        });
        serde_json::to_string_pretty(&report).map_err(Into::into)
    }
}
