//! The result: a row for each workload, a column for each engine.

use std::fmt::Write;

use holdfast_lab::measure::human;

/// One workload's samples for each column (operations per second); `Err` says why a cell is empty.
pub struct Row {
    pub name: String,
    pub cells: Vec<Result<Vec<f64>, String>>,
}

/// Median of `samples`, which is not empty.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The table in Markdown: medians, the spread (half the range, in per cent of the median), the best
/// in bold.
pub fn markdown(columns: &[String], rows: &[Row]) -> String {
    let mut out = format!("| operations/s | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
    for row in rows {
        let medians: Vec<Option<f64>> =
            row.cells.iter().map(|cell| cell.as_ref().ok().filter(|s| !s.is_empty()).map(|s| median(s))).collect();
        let engines = columns.iter().zip(&medians).filter(|(column, _)| *column != "fio");
        let best = engines.filter_map(|(_, median)| *median).fold(0.0, f64::max);
        let _ = write!(out, "| {} |", row.name);
        for ((cell, median), column) in row.cells.iter().zip(&medians).zip(columns) {
            let text = match (cell, median) {
                (Err(why), _) => why.clone(),
                (Ok(_), None) => "-".to_string(),
                (Ok(samples), Some(median)) => {
                    let (low, high) = samples.iter().fold((f64::MAX, 0f64), |(l, h), &s| (l.min(s), h.max(s)));
                    let spread = (high - low) / 2.0 / median * 100.0;
                    let shown = human(*median);
                    let shown = if *median == best && column != "fio" { format!("**{shown}**") } else { shown };
                    format!("{shown} ±{spread:.0}%")
                }
            };
            let _ = write!(out, " {text} |");
        }
        out.push('\n');
    }
    out
}

/// The slices of each cell, as JSON.
pub fn cells(columns: &[String], rows: &[Row]) -> serde_json::Value {
    let cell = |(column, cell): (&String, &Result<Vec<f64>, String>)| match cell {
        Ok(samples) => serde_json::json!({ "engine": column, "per_second": samples }),
        Err(why) => serde_json::json!({ "engine": column, "error": why }),
    };
    let row = |row: &Row| {
        let cells: Vec<_> = columns.iter().zip(&row.cells).map(cell).collect();
        serde_json::json!({ "name": row.name, "cells": cells })
    };
    rows.iter().map(row).collect()
}
