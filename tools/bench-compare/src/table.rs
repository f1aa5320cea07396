//! The result: a row for each workload, a column for each engine.

use std::fmt::Write;

use holdfast_lab::measure::{Figure, human};

/// One workload's samples for each column (operations per second); `Err` says why a cell is empty.
pub struct Row {
    pub name: String,
    pub cells: Vec<Result<Vec<f64>, String>>,
}

/// The table in Markdown: medians, the spread (half the range, in per cent of the median), the best
/// in bold.
pub fn markdown(columns: &[String], rows: &[Row]) -> String {
    let mut out = format!("| operations/s | {} |\n|---|{}\n", columns.join(" | "), "---:|".repeat(columns.len()));
    for row in rows {
        let figures: Vec<Option<Figure>> =
            row.cells.iter().map(|cell| cell.as_ref().ok().and_then(|samples| Figure::of(samples))).collect();
        let engines = columns.iter().zip(&figures).filter(|(column, _)| *column != "fio");
        let best = engines.filter_map(|(_, figure)| Some(figure.as_ref()?.median)).fold(0.0, f64::max);
        let _ = write!(out, "| {} |", row.name);
        for ((cell, figure), column) in row.cells.iter().zip(&figures).zip(columns) {
            let text = match (cell, figure) {
                (Err(why), _) => why.clone(),
                (Ok(_), None) => "-".to_string(),
                (Ok(_), Some(Figure { median, min, max, .. })) => {
                    let spread = (max - min) / 2.0 / median * 100.0;
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
