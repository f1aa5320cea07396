//! The result, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

/// What a load took.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Until it was done.
    pub seconds: f64,
    /// Of the server's processor time, with what it had deferred.
    pub server_seconds: f64,
}
use holdfast_server::statistics::{Summary, summary};

/// The bar of the comparison.
const BAR: f64 = 0.97;
const MIB: f64 = (1 << 20) as f64;

/// One way of filling a table.
pub struct Cell {
    way: &'static str,
    /// Of the speeds, Holdfast's by InnoDB's.
    speed: Summary,
    /// Of the server's processor time, InnoDB's by Holdfast's: more than 1 is less time.
    processor: Summary,
    /// Medians, in MiB a second.
    holdfast: f64,
    innodb: f64,
}

impl Cell {
    /// Of pairs of Holdfast and InnoDB that have loaded so many bytes each.
    pub fn new(way: &'static str, bytes: u64, pairs: &[(Slice, Slice)]) -> Cell {
        let each = |of: &dyn Fn(&(Slice, Slice)) -> f64| summary(&pairs.iter().map(of).collect::<Vec<f64>>());
        let mib = bytes as f64 / MIB;
        Cell {
            way,
            speed: each(&|(h, i)| i.seconds / h.seconds),
            processor: each(&|(h, i)| i.server_seconds / h.server_seconds),
            holdfast: each(&|(h, _)| mib / h.seconds).median,
            innodb: each(&|(_, i)| mib / i.seconds).median,
        }
    }

    fn line(&self) -> String {
        let Cell { speed, processor, .. } = self;
        format!(
            "| {} | {:.1} | {:.1} | {:.2} | {:.2} - {:.2} | **{:.2}** | {:.2} | {:.2} |",
            self.way,
            self.holdfast,
            self.innodb,
            speed.median,
            speed.least,
            speed.greatest,
            speed.lower_bound,
            processor.median,
            processor.lower_bound
        )
    }
}

/// All cells.
pub struct Report {
    pub version: String,
    pub rows: u64,
    pub bytes: u64,
    pub pool: String,
    pub log: String,
    pub flush: u8,
    pub cells: Vec<Cell>,
}

impl Report {
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "MariaDB {}, {} rows of {:.0} MiB, on both engines: pool {}, log {}, O_DIRECT, flush_log_at_trx_commit={}; no binary log\n\n",
            self.version,
            self.rows,
            self.bytes as f64 / MIB,
            self.pool,
            self.log,
            self.flush
        );
        out += "| way | Holdfast MiB/s | InnoDB MiB/s | ratio, median | least - greatest | lower 95 % bound | \
                processor time, InnoDB's by ours | lower 95 % bound |\n";
        out += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
        for cell in &self.cells {
            out += &cell.line();
            out.push('\n');
        }
        let below = self.cells.iter().filter(|cell| cell.speed.lower_bound < BAR).count();
        let _ = write!(out, "\n{below} of {} ways have a lower bound below {BAR}", self.cells.len());
        out
    }

    pub fn json(&self) -> Value {
        let of = |s: &Summary| json!({"median": s.median, "lower_bound": s.lower_bound, "least": s.least, "greatest": s.greatest});
        let cells = self.cells.iter().map(|c| {
            json!({
                "way": c.way, "speed": of(&c.speed), "processor_time": of(&c.processor),
                "holdfast_mib_per_second": c.holdfast, "innodb_mib_per_second": c.innodb,
            })
        });
        json!({
            "version": self.version, "rows": self.rows, "bytes": self.bytes, "pool": self.pool, "log": self.log,
            "flush_log_at_trx_commit": self.flush, "cells": cells.collect::<Vec<_>>(),
        })
    }
}
