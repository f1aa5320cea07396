//! The page: prose, and between markers what was measured.
//!
//! ```text
//! <!-- measured: NAME -->
//! replaced
//! <!-- end -->
//! ```
//!
//! NAME is that of a measurement, `machine`, `servers`: the table of `sideload` on each server, or
//! `cold`: the picture of that, with what it shows.

use anyhow::{Context, bail};
use serde_json::Value;

use crate::plan::MEASUREMENTS;
use crate::results::Measured;
use crate::{servers, tables};

const BEGIN: &str = "<!-- measured: ";
const BEGUN: &str = " -->\n";
const END: &str = "<!-- end -->";
const ON_SERVERS: &str = "the results of `sideload` on servers";

/// The page with the tables of `measured`, and the names of those that have no result: what stands
/// there stays.
///
/// # Errors
/// If a marker has no end, or a name that is not measured; if a result lacks something.
pub fn with_tables<'p>(page: &'p str, measured: &[Measured]) -> anyhow::Result<(String, Vec<&'p str>)> {
    let (mut out, mut left) = (String::new(), Vec::new());
    let mut rest = page;
    while let Some((before, marked)) = rest.split_once(BEGIN) {
        let (name, marked) = marked.split_once(BEGUN).with_context(|| format!("a marker has no `{}`", BEGUN.trim()))?;
        let (stands, after) = marked.split_once(END).with_context(|| format!("`{name}` has no `{END}`"))?;
        let table = if name == "machine" {
            measured.first().map(|one| machine(&one.machine, &commits(measured)))
        } else if name == "servers" {
            servers::table(measured).context(ON_SERVERS)?
        } else if name == "cold" {
            servers::picture(measured).context(ON_SERVERS)?
        } else if MEASUREMENTS.iter().any(|one| one.name == name) {
            let found = measured.iter().find(|one| one.measurement.name == name);
            found.map(section).transpose().with_context(|| format!("the result of {name}"))?
        } else {
            bail!("the page asks for `{name}`, which is not measured");
        };
        if table.is_none() {
            left.push(name);
        }
        out += &format!("{before}{BEGIN}{name}{BEGUN}{}{END}", table.as_deref().unwrap_or(stands));
        rest = after;
    }
    Ok((out + rest, left))
}

/// README with what was measured of it: between its markers, and the row of its table about a dump.
///
/// # Errors
/// If a result lacks something, or README has no such row.
pub fn readme(page: &str, measured: &[Measured]) -> anyhow::Result<String> {
    let (page, _) = with_tables(page, measured)?;
    match servers::readme_row(measured).context(ON_SERVERS)? {
        Some(row) => with_row(&page, &row),
        None => Ok(page),
    }
}

/// The page with a row of a table in place of the one that has the same first cell.
fn with_row(page: &str, row: &str) -> anyhow::Result<String> {
    let first = |line: &str| line.split('|').nth(1).map(str::to_owned);
    let old = page.lines().find(|line| line.starts_with('|') && first(line) == first(row));
    let old = old.with_context(|| format!("no row is about {:?}", first(row).unwrap_or_default()))?;
    Ok(page.replacen(old, row, 1))
}

/// The table, which names the command in the heading of its first column.
fn section(of: &Measured) -> anyhow::Result<String> {
    let (command, table) = (of.measurement.command, tables::markdown(of)?);
    Ok(table.replacen(" |", &format!(" of `{command}` |"), 1))
}

/// The commits that the results are of, each once.
fn commits(measured: &[Measured]) -> Vec<&str> {
    let mut commits: Vec<&str> = Vec::new();
    for commit in measured.iter().filter_map(|one| one.machine["commit"].as_str()) {
        if !commits.contains(&commit) {
            commits.push(commit);
        }
    }
    commits
}

fn machine(machine: &Value, commits: &[&str]) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
    let commit = match commits {
        [] => String::new(),
        [one] => format!(", commit {one}"),
        several => format!(", commits {}", several.join(", ")),
    };
    format!(
        "Machine: {} cores, {}; {} GiB of memory; {}.\nHoldfast {}{commit}.\n",
        machine["cores"],
        text("cpu"),
        machine["memory_mib"].as_u64().unwrap_or_default().div_ceil(1024),
        text("kernel"),
        text("holdfast"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Form, Measurement};
    use serde_json::json;

    fn load() -> Measured {
        let measurement = *MEASUREMENTS.iter().find(|one| one.name == "load").unwrap();
        let speed = json!({"median": 2.5, "lower_bound": 2.25, "least": 2.2, "greatest": 2.75});
        let result = json!({"cells": [{"way": "alter", "speed": speed}]});
        Measured { measurement, result, machine: json!({"cpu": "X", "cores": 2, "memory_mib": 2000}) }
    }

    #[test]
    fn what_stands_between_markers_is_replaced() {
        let page = "a\n<!-- measured: machine -->\n<!-- end -->\nb\n<!-- measured: load -->\nstale\n<!-- end -->\nc\n\
                    <!-- measured: purge -->\nkept\n<!-- end -->\n";
        let (new, left) = with_tables(page, &[load()]).unwrap();
        assert_eq!(left, ["purge"]);
        assert!(new.starts_with("a\n<!-- measured: machine -->\nMachine: 2 cores, X; 2 GiB"), "{new}");
        let command = load().measurement.command;
        assert!(new.contains(&format!("load -->\n| way of `{command}` | speed, by InnoDB's | bound |\n")), "{new}");
        assert!(new.contains("| alter | 2.50 | 2.25 |") && !new.contains("stale"), "{new}");
        assert!(new.ends_with("<!-- measured: purge -->\nkept\n<!-- end -->\n"), "{new}");
        assert_eq!(with_tables(&new, &[load()]).unwrap().0, new, "a second time changes nothing");
    }

    #[test]
    fn the_page_names_every_commit_that_results_are_of() {
        let of = |commit: &str| Measured { machine: json!({"cores": 2, "commit": commit}), ..load() };
        let page = "<!-- measured: machine -->\n<!-- end -->";
        let named = |all: &[Measured]| with_tables(page, all).unwrap().0;
        assert!(named(&[of("a1"), of("a1")]).contains(", commit a1."));
        assert!(named(&[of("a1"), of("b2"), of("a1")]).contains(", commits a1, b2."));
        assert!(!named(&[load()]).contains("commit"));
    }

    #[test]
    fn a_marker_that_nothing_is_measured_for_is_an_error() {
        for page in ["<!-- measured: other -->\n<!-- end -->", "<!-- measured: load -->\n"] {
            assert!(with_tables(page, &[]).is_err(), "{page}");
        }
    }

    #[test]
    fn a_row_replaces_the_one_about_the_same() {
        let page = "| what | figure |\n|---|---|\n| a b | 1 |\n| a | 2 |\n";
        assert_eq!(with_row(page, "| a | 3 |").unwrap(), "| what | figure |\n|---|---|\n| a b | 1 |\n| a | 3 |\n");
        assert!(with_row(page, "| c | 3 |").is_err());
    }

    #[test]
    fn the_readme_has_a_place_for_what_was_measured() {
        let readme = include_str!("../../../README.md");
        assert_eq!(super::readme(readme, &[]).unwrap(), readme);
        assert_eq!(with_tables(readme, &[]).unwrap().1, ["cold"]);
        assert!(with_row(readme, &format!("| {} |", servers::WHAT)).is_ok());
    }

    #[test]
    fn the_page_of_the_project_has_a_place_for_each_measurement() {
        let page = include_str!("../../../docs/performance/README.md");
        let (same, left) = with_tables(page, &[]).unwrap();
        assert_eq!(same, page);
        let mut left: Vec<&str> = left.into_iter().filter(|name| *name != "machine" && *name != "servers").collect();
        left.sort_unstable();
        let has_table = |one: &&Measurement| one.form != Form::Server;
        let mut all: Vec<&str> = MEASUREMENTS.iter().filter(has_table).map(|one| one.name).collect();
        all.sort_unstable();
        assert_eq!(left, all);
    }
}
