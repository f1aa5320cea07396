//! The tables of the page, and the ratios of the picture.

use std::collections::BTreeMap;

use anyhow::Context;
use holdfast_lab::measure::{self, human};
use serde_json::Value;

use crate::plan::Form;
use crate::results::Measured;

/// A ratio for the picture: more than 1 is better than what it is compared with.
pub struct Ratio {
    /// The measurement.
    pub group: &'static str,
    pub name: String,
    pub value: f64,
    /// Where it lies: an interval of 95 %, or the least and the greatest of the pairs.
    pub from: f64,
    pub to: f64,
}

/// The table of a result.
///
/// # Errors
/// If the result lacks what the table shows.
pub fn markdown(of: &Measured) -> anyhow::Result<String> {
    match of.measurement.form {
        Form::Lab => claims(&of.result),
        Form::Sessions => sessions(&of.result),
        Form::Sysbench => sysbench(&of.result),
        Form::Load => load(&of.result),
        Form::Compare => compare(&of.result),
        Form::Growth => growth(&of.result),
        Form::Server => Ok(String::new()),
    }
}

/// The ratios of all results.
pub fn ratios(all: &[Measured]) -> Vec<Ratio> {
    all.iter().flat_map(ratios_of).collect()
}

fn ratios_of(of: &Measured) -> Vec<Ratio> {
    let group = of.measurement.name;
    let pairs = |cell: &Value, key: &str, name: String| {
        let value = |which: &str| cell[key][which].as_f64();
        Some(Ratio { group, name, value: value("median")?, from: value("least")?, to: value("greatest")? })
    };
    let empty = Vec::new();
    let list = |key: &str| of.result[key].as_array().unwrap_or(&empty).iter();
    match of.measurement.form {
        Form::Sysbench => list("cells")
            .filter_map(|cell| {
                pairs(cell, "rate", format!("{}, {} clients", cell["workload"].as_str()?, cell["threads"]))
            })
            .collect(),
        Form::Load => list("cells").filter_map(|cell| pairs(cell, "speed", cell["way"].as_str()?.into())).collect(),
        // Claims whose bar is a lower one, near 1, are ratios.
        Form::Lab | Form::Sessions => list("verdicts")
            .filter_map(|verdict| {
                let bar: f64 = verdict["bar"].as_str()?.strip_prefix(">= ")?.parse().ok()?;
                let interval = |end: &str| verdict["interval"][end].as_f64();
                let ratio = Ratio {
                    group,
                    name: verdict["claim"].as_str()?.into(),
                    value: verdict["value"].as_f64()?,
                    from: interval("low")?,
                    to: interval("high")?,
                };
                (0.5..=1.5).contains(&bar).then_some(ratio)
            })
            .collect(),
        Form::Compare | Form::Growth | Form::Server => Vec::new(),
    }
}

pub(crate) fn list<'v>(of: &'v Value, key: &str) -> anyhow::Result<&'v Vec<Value>> {
    of[key].as_array().with_context(|| format!("no `{key}`"))
}

pub(crate) fn number(of: &Value, key: &str) -> anyhow::Result<f64> {
    of[key].as_f64().with_context(|| format!("no `{key}`"))
}

pub(crate) fn text<'v>(of: &'v Value, key: &str) -> anyhow::Result<&'v str> {
    of[key].as_str().with_context(|| format!("no `{key}`"))
}

fn claims(result: &Value) -> anyhow::Result<String> {
    let mut table = String::from("| claim | measured | 95 % interval | bar | answer |\n|---|---:|---:|---|---|\n");
    for verdict in list(result, "verdicts")? {
        let value = verdict["value"].as_f64().map_or("-".into(), human);
        let interval = match ["low", "high"].map(|end| verdict["interval"][end].as_f64()) {
            [Some(low), Some(high)] => format!("{} to {}", human(low), human(high)),
            _ => "-".into(),
        };
        let [claim, bar, answer] = ["claim", "bar", "answer"].map(|key| text(verdict, key));
        table += &format!("| {} | {value} | {interval} | {} | {} |\n", claim?, bar?, answer?);
    }
    Ok(table)
}

/// Modes are rows, numbers of clients columns.
fn sessions(result: &Value) -> anyhow::Result<String> {
    let grid = list(&result["figures"], "grids")?.first().context("no grid")?;
    let place = |name: &str| {
        let place = list(grid, "header")?.iter().position(|head| head == name);
        place.with_context(|| format!("no column `{name}`"))
    };
    let [clients, ratio, bound] = [place("sessions")?, place("of InnoDB")?, place("lower bound")?];
    let (mut heads, mut modes) = (Vec::new(), Vec::<(&str, Vec<String>)>::new());
    for row in list(grid, "rows")? {
        let cell = |at: usize| row[at].as_str().context("a row lacks a column");
        let mode = cell(0)?;
        let shown = format!("{}, {}", cell(ratio)?, cell(bound)?);
        if !heads.contains(&cell(clients)?) {
            heads.push(cell(clients)?);
        }
        match modes.iter_mut().find(|(name, _)| *name == mode) {
            Some((_, cells)) => cells.push(shown),
            None => modes.push((mode, vec![shown])),
        }
    }
    let mut table = format!("| clients | {} |\n|---|{}\n", heads.join(" | "), "---:|".repeat(heads.len()));
    for (mode, cells) in modes {
        table += &format!("| {mode} | {} |\n", cells.join(" | "));
    }
    Ok(table)
}

fn sysbench(result: &Value) -> anyhow::Result<String> {
    let (mut threads, mut rows) = (Vec::new(), Vec::<(&str, BTreeMap<u64, String>)>::new());
    for cell in list(result, "cells")? {
        let count = cell["threads"].as_u64().context("no `threads`")?;
        let rate = &cell["rate"];
        let shown = format!("{:.2}, {:.2}", number(rate, "median")?, number(rate, "lower_bound")?);
        let workload = text(cell, "workload")?;
        if !threads.contains(&count) {
            threads.push(count);
        }
        match rows.iter_mut().find(|(name, _)| *name == workload) {
            Some((_, cells)) => drop(cells.insert(count, shown)),
            None => rows.push((workload, BTreeMap::from([(count, shown)]))),
        }
    }
    let heads: Vec<String> = threads.iter().map(|n| format!("{n} client{}", if *n == 1 { "" } else { "s" })).collect();
    let mut table = format!("| workload | {} |\n|---|{}\n", heads.join(" | "), "---:|".repeat(threads.len()));
    for (workload, cells) in rows {
        let cells: Vec<&str> = threads.iter().map(|n| cells.get(n).map_or("-", String::as_str)).collect();
        table += &format!("| {workload} | {} |\n", cells.join(" | "));
    }
    let mean = format!("{:.2}", number(result, "geometric_mean")?);
    Ok(table + &format!("| geometric mean of all | {mean} |{}\n", " |".repeat(threads.len() - 1)))
}

fn load(result: &Value) -> anyhow::Result<String> {
    let mut table = String::from("| way | speed, by InnoDB's | bound |\n|---|---:|---:|\n");
    for cell in list(result, "cells")? {
        let (way, speed) = (text(cell, "way")?, &cell["speed"]);
        table += &format!("| {way} | {:.2} | {:.2} |\n", number(speed, "median")?, number(speed, "lower_bound")?);
    }
    Ok(table)
}

/// True if the page has room for a workload of the comparison.
fn is_shown(workload: &str) -> bool {
    const LEFT_OUT: [&str; 4] = [
        "per second of processor time",
        "bulk load of 400000 rows",
        "in memory, 2 threads",
        "durable commits, 8 threads",
    ];
    !LEFT_OUT.iter().any(|end| workload.ends_with(end))
}

fn compare(result: &Value) -> anyhow::Result<String> {
    let rows = list(result, "rows")?.iter().filter(|row| row["name"].as_str().is_none_or(is_shown));
    let mut table = String::new();
    for row in rows {
        let cells = list(row, "cells")?;
        if table.is_empty() {
            let engines = cells.iter().map(|cell| text(cell, "engine")).collect::<anyhow::Result<Vec<_>>>()?;
            table = format!("| operations/s | {} |\n|---|{}\n", engines.join(" | "), "---:|".repeat(engines.len()));
        }
        let median = |cell: &Value| {
            let samples: Vec<f64> = cell["per_second"].as_array()?.iter().filter_map(Value::as_f64).collect();
            measure::median(&samples).map(human)
        };
        let shown: Vec<String> = cells.iter().map(|cell| median(cell).unwrap_or_else(|| "-".into())).collect();
        table += &format!("| {} | {} |\n", text(row, "name")?, shown.join(" | "));
    }
    Ok(table)
}

/// Sizes of each engine are rows, steps columns.
fn growth(result: &Value) -> anyhow::Result<String> {
    const STEPS: [&str; 7] = ["load", "dump", "check", "index", "backup", "restore", "recovery"];
    let runs = list(result, "runs")?;
    let first = runs.first().context("no runs")?;
    // On a server there are less.
    let steps: Vec<&str> = STEPS.into_iter().filter(|step| first["metrics"]["steps"][step].is_object()).collect();
    let unit = |step: &str| if step == "recovery" { "s" } else { "s/GB" };
    let names: Vec<String> = steps.iter().map(|step| format!("{step}, {}", unit(step))).collect();
    let mut table = format!(
        "| engine | GB | {} | memory, MB |\n|---|---:|{}\n",
        names.join(" | "),
        "---:|".repeat(steps.len() + 1)
    );
    for run in runs {
        let (metrics, engine) = (&run["metrics"], text(run, "policy")?);
        let mut cells = vec![engine.to_owned(), human(number(metrics, "table_bytes")? / 1e9)];
        let mut most = 0.0f64;
        for &step in &steps {
            let (taken, per) = (&metrics["steps"][step], if step == "recovery" { "seconds" } else { "seconds_per_gb" });
            cells.push(human(number(taken, per)?));
            most = most.max(number(taken, "peak_memory_bytes")?);
        }
        table += &format!("| {} | {} |\n", cells.join(" | "), human(most / 1e6));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workloads_are_rows_and_clients_columns() {
        let rate = |median: f64| json!({"median": median, "lower_bound": median - 0.01});
        let cell = |workload: &str, threads: u64, median: f64| json!({"workload": workload, "threads": threads, "rate": rate(median)});
        let cells = json!([cell("a", 1, 1.0), cell("a", 4, 1.25), cell("b", 1, 0.5)]);
        let table = sysbench(&json!({"cells": cells, "geometric_mean": 0.86})).unwrap();
        assert!(table.contains("| workload | 1 client | 4 clients |\n|---|---:|---:|\n"), "{table}");
        assert!(table.contains("| a | 1.00, 0.99 | 1.25, 1.24 |\n| b | 0.50, 0.49 | - |\n"), "{table}");
    }

    #[test]
    fn claims_show_what_was_measured() {
        let whole = json!({"claim": "c", "value": 0.98765, "interval": {"low": 0.9, "high": 1.05}, "bar": ">= 0.95", "answer": "cannot tell"});
        let counted = json!({"claim": "d", "value": 81900.0, "interval": null, "bar": "= 0", "answer": "fails"});
        let table = claims(&json!({"verdicts": [whole, counted]})).unwrap();
        assert!(table.contains("| c | 0.988 | 0.900 to 1.05 | >= 0.95 | cannot tell |\n"), "{table}");
        assert!(table.contains("| d | 81,900 | - | = 0 | fails |\n"), "{table}");
        assert!(claims(&json!({})).is_err());
    }

    #[test]
    fn modes_are_rows_and_clients_columns() {
        let header = json!(["", "sessions", "TPS", "of InnoDB", "lower bound"]);
        let rows =
            json!([["ro", "1", "9", "1.006", "0.938"], ["ro", "2", "9", "1.1", "1.0"], ["rw", "1", "9", "0.9", "0.8"]]);
        let table = sessions(&json!({"figures": {"grids": [{"header": header, "rows": rows}]}})).unwrap();
        assert_eq!(
            table,
            "| clients | 1 | 2 |\n|---|---:|---:|\n| ro | 1.006, 0.938 | 1.1, 1.0 |\n| rw | 0.9, 0.8 |\n"
        );
        assert!(sessions(&json!({"figures": {"grids": []}})).is_err());
    }

    #[test]
    fn sizes_are_rows_and_steps_columns() {
        let step = |per_gb: f64| json!({"seconds": 2.0 * per_gb, "seconds_per_gb": per_gb, "peak_memory_bytes": 3e8});
        let steps = json!({"load": step(1.0), "dump": step(2.0), "check": step(3.0), "index": step(4.0),
            "backup": step(5.0), "restore": step(6.0), "recovery": step(7.0)});
        let run = json!({"policy": "holdfast", "metrics": {"table_bytes": 2e9, "steps": steps}});
        let table = growth(&json!({"runs": [run]})).unwrap();
        assert!(table.starts_with("| engine | GB | load, s/GB | dump, s/GB |"), "{table}");
        assert!(
            table.ends_with("| holdfast | 2.00 | 1.00 | 2.00 | 3.00 | 4.00 | 5.00 | 6.00 | 14.0 | 300 |\n"),
            "{table}"
        );
        let steps = json!({"load": step(1.0), "recovery": step(7.0)});
        let run = json!({"policy": "InnoDB", "metrics": {"table_bytes": 2e9, "steps": steps}});
        let table = growth(&json!({"runs": [run]})).unwrap();
        assert!(table.starts_with("| engine | GB | load, s/GB | recovery, s | memory, MB |\n"), "{table}");
        assert!(table.ends_with("| InnoDB | 2.00 | 1.00 | 14.0 | 300 |\n"), "{table}");
    }

    #[test]
    fn medians_of_engines_are_columns() {
        let cells =
            json!([{"engine": "holdfast", "per_second": [3.0, 1000.0, 2000.0]}, {"engine": "redb", "error": "x"}]);
        let row = |name: &str| json!({"name": name, "cells": cells});
        let left_out = row("reads, 1 thread, per second of processor time");
        let table = compare(&json!({"rows": [left_out, row("reads")]})).unwrap();
        assert!(
            table.ends_with("| operations/s | holdfast | redb |\n|---|---:|---:|\n| reads | 1,000 | - |\n"),
            "{table}"
        );
    }
}
