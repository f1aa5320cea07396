//! The report of the `scan` experiment.

use maud::{Markup, html};

use super::body::Body;
use super::chart::{Bar, bars};
use super::values::{policy_class, text};
use crate::document::{Document, Run};
use crate::measure::human;

fn seconds(run: &Run, query: &str) -> Option<f64> {
    run.metrics["seconds"].as_array()?.iter().find(|e| e["query"] == query)?["seconds"]["median"].as_f64()
}

fn queries(document: &Document) -> Vec<&str> {
    let list = document.runs.first().and_then(|r| r.metrics["seconds"].as_array());
    list.into_iter().flatten().filter_map(|e| e["query"].as_str()).collect()
}

/// The content of the report.
pub(super) fn body(document: &Document) -> Body {
    let bar = |run: &Run, query: &str| {
        let value = seconds(run, query)?;
        let text = format!("{} s", human(value));
        Some(Bar { name: run.policy.clone(), class: policy_class(&run.policy), value, text })
    };
    let lead = html! {
        p class="lead" {
            "A small table is queried twice, then a report goes over a big table that does not fit into the pool, "
            "then the small table is queried again. A cache that resists scans answers that last query from memory."
        }
    };
    let pictures = html! {
        section {
            h2 { "Time of each query" }
            div class="charts" {
                @for query in queries(document) {
                    @let all: Vec<Bar> = document.runs.iter().filter_map(|run| bar(run, query)).collect();
                    @if let Some(chart) = bars(query, &all) { (chart) }
                }
            }
        }
    };
    let read_again = html! {
        div class="scroll" { table {
            thead { tr { th { "policy" } th { "" } th class="n" { "read again" } } }
            tbody { @for run in &document.runs {
                tr {
                    td { i class=(format!("key {}", policy_class(&run.policy))) {} (run.policy) }
                    td { (text(&run.metrics, "about")) }
                    td class="n" {
                        @if let Some(share) = run.metrics["read_again"].as_f64() { (format!("{:.1} %", share * 100.0)) }
                    }
                }
            } }
        } }
    };
    let monitors = html! { @for run in &document.runs { (monitor(run)) } };
    let folded = vec![
        ("Pages of the small table read again after the report".to_owned(), read_again),
        ("The monitor after every query".to_owned(), monitors),
    ];
    Body { lead, pictures, folded }
}

fn monitor(run: &Run) -> Markup {
    let steps = run.metrics["steps"].as_array();
    html! {
        details {
            summary { (run.policy) ": " (text(&run.metrics, "about")) }
            @for step in steps.into_iter().flatten() {
                h4 { (text(step, "query")) ": " (step["seconds"].as_f64().map_or(String::new(), human)) " s" }
                pre { (text(step, "monitor")) }
            }
        }
    }
}
