//! The report of the `sideload` experiment.

use maud::{Markup, html};
use serde_json::Value;

use super::body::Body;
use super::chart::{self, Layer, SIDE_LOAD, StackChart, legend};
use super::values::{policy_class, text};
use crate::document::{Document, Run};
use crate::figures::{Chart, Line, Span};
use crate::measure::human;

/// The parts of a run in which the side load is under way.
const BESIDE: [&str; 2] = ["OLTP beside the dump", "cold start beside the dump"];

/// One run with its often used values.
struct View<'a> {
    run: &'a Run,
    /// The time at which the side load began.
    zero: f64,
}

impl<'a> View<'a> {
    fn new(run: &'a Run) -> View<'a> {
        let begins = phases(run).into_iter().find(|b| BESIDE.contains(&b.label.as_str()));
        View { run, zero: begins.map_or(0.0, |b| b.from) }
    }

    fn metrics(&self) -> &'a Value {
        &self.run.metrics
    }

    fn samples(&self) -> &'a [Value] {
        self.metrics()["samples"].as_array().map_or(&[], Vec::as_slice)
    }

    fn series(&self, field: &str) -> Vec<(f64, f64)> {
        let point = |s: &Value| Some((s["t"].as_f64()? - self.zero, s[field].as_f64()?));
        self.samples().iter().filter_map(point).collect()
    }

    fn bands(&self) -> Vec<Span> {
        let shift = |b: Span| Span { from: b.from - self.zero, to: b.to - self.zero, ..b };
        phases(self.run).into_iter().map(shift).collect()
    }

    fn is(&self, start: &str, full: bool) -> bool {
        text(self.metrics(), "start") == start && self.metrics()["rate_tps"].is_null() == full
    }
}

fn phases(run: &Run) -> Vec<Span> {
    let band = |p: &Value| {
        Some(Span { from: p["from"].as_f64()?, to: p["to"].as_f64()?, label: p["name"].as_str()?.to_owned() })
    };
    run.metrics["phases"].as_array().into_iter().flatten().filter_map(band).collect()
}

const SCENARIOS: [(&str, bool, &str, &str); 4] = [
    ("warm", true, "Warm, full speed", "OLTP has the table in the pool; then the dump starts."),
    ("warm", false, "Warm, at the request rate", "As above, with OLTP held to the rate of the published machine."),
    ("cold", true, "Cold, full speed", "The dump is under way; then OLTP starts."),
    ("cold", false, "Cold, at the request rate", "As above, with OLTP held to the rate."),
];

/// True if there are runs of a scenario.
fn ran(views: &[&View<'_>], (start, full, ..): &(&str, bool, &str, &str)) -> bool {
    views.iter().any(|v| v.is(start, *full))
}

/// The content of the report.
pub(super) fn body(document: &Document) -> Body {
    let views: Vec<View<'_>> = document.runs.iter().map(View::new).collect();
    let ceiling = views.iter().find(|v| text(v.metrics(), "role") == "ceiling");
    let policies: Vec<&View<'_>> = views.iter().filter(|v| text(v.metrics(), "role") == "policy").collect();
    let lead = html! {
        p class="lead" {
            "OLTP runs on a small table that fits into the pool, a dump of a big table that does not runs in a loop "
            "beside it. The ceiling is a pool that holds both tables, measured in turns with every " (compared(document)) "."
        }
    };
    let pictures = html! {
        section {
            h2 { "Throughput beside the dump" }
            (legend(&legend_entries(&views)))
            div class="charts" {
                @for (start, full, title, about) in SCENARIOS {
                    @let chosen: Vec<&View<'_>> = policies.iter().filter(|v| v.is(start, full)).copied().collect();
                    @if let Some(chart) = throughput(title, &chosen, ceiling.filter(|_| full)) {
                        div { (chart) p class="note" { (about) } }
                    }
                }
            }
        }
    };
    let pools = html! {
        (legend(&pool_legend(policies.first().copied())))
        @for (start, full, title, _) in SCENARIOS.iter().filter(|s| ran(&policies, s)) {
            h3 { (title) }
            div class="charts" {
                @for view in policies.iter().filter(|v| v.is(start, *full) && tells_its_content(v)) {
                    @if let Some(chart) = pool(view) { (chart) }
                }
            }
        }
    };
    let contents = html! { @for view in policies.iter().filter(|v| tells_its_content(v)) { (content(view)) } };
    let folded = vec![
        ("All figures".to_owned(), results(&policies, ceiling, document)),
        ("What is in the pool".to_owned(), pools),
        ("Content of the pool by table and index".to_owned(), contents),
    ];
    Body { lead, pictures, folded }
}

/// The name for the rows of the report: one pool under several policies, or the engines of a
/// server.
fn compared(document: &Document) -> &'static str {
    if document.experiment == "sideload" { "policy" } else { "engine" }
}

fn legend_entries(views: &[View<'_>]) -> Vec<(String, &'static str, bool)> {
    let mut entries: Vec<(String, &'static str, bool)> = Vec::new();
    for view in views {
        let policy = &view.run.policy;
        if entries.iter().all(|(name, _, _)| name != policy) {
            entries.push((policy.clone(), policy_class(policy), policy_class(policy) == "ceiling"));
        }
    }
    entries
}

/// TPS of all policies in one scenario, with the ceiling as a line across.
fn throughput(title: &str, views: &[&View<'_>], ceiling: Option<&View<'_>>) -> Option<Markup> {
    // The time until the table is resident differs by policy; a short part of it is enough.
    let lead = |v: &&View<'_>| {
        let from = v.bands().first().map_or(0.0, |b| b.from);
        from.max(-1.5 * v.bands().iter().filter(|b| b.from >= 0.0).map(|b| b.to - b.from).fold(0.1, f64::max))
    };
    let from = views.iter().map(lead).fold(0.0, f64::min);
    let line = |v: &&View<'_>| Line::new(&v.run.policy, v.series("tps").into_iter().filter(|p| p.0 >= from));
    let mut lines: Vec<Line> = views.iter().map(line).collect();
    let mut classes: Vec<&str> = views.iter().map(|v| policy_class(&v.run.policy)).collect();
    let end = lines.iter().flat_map(|l| l.points.last()).map(|p| p.0).reduce(f64::max)?;
    if let Some(view) = ceiling {
        let tps: Vec<f64> = view.series("tps").into_iter().filter(|p| p.0 >= 0.0).map(|p| p.1).collect();
        if let Some(figure) = crate::measure::Figure::of(&tps) {
            let points = vec![(from, figure.median), (end, figure.median)];
            lines.push(Line { name: view.run.policy.clone(), points, dashed: true });
            classes.push("ceiling");
        }
    }
    let before = views.first().and_then(|v| v.bands().into_iter().rev().find(|b| b.from < 0.0));
    let mut bands = Vec::new();
    bands.extend(before.map(|b| Span { from, to: 0.0, label: b.label }));
    bands.push(Span { from: 0.0, to: end, label: "OLTP and dump".to_owned() });
    let chart = Chart { spans: bands, ..Chart::over(title, SIDE_LOAD, "transactions per second", lines) };
    chart::lines(&chart, &classes)
}

/// Classes of the pool's layers, in the order of the run's segments.
const LAYERS: [&str; 4] = ["hot", "hot-index", "big", "big-index"];

fn segment_names(view: &View<'_>) -> Vec<String> {
    let name = |s: &Value| Some(format!("{} {}", s["table"].as_str()?, s["index"].as_str()?));
    view.metrics()["segments"].as_array().into_iter().flatten().filter_map(name).collect()
}

fn pool_legend(view: Option<&View<'_>>) -> Vec<(String, &'static str, bool)> {
    let names = view.map(segment_names).unwrap_or_default();
    names.into_iter().zip(LAYERS).map(|(name, class)| (name, class, false)).collect()
}

/// True if the pool reports its content. MyRocks' block cache does not.
fn tells_its_content(view: &View<'_>) -> bool {
    let resident = |s: &Value| s["resident_mb"].as_array().into_iter().flatten().any(|mb| mb.as_f64() > Some(0.0));
    view.samples().iter().any(resident)
}

fn pool(view: &View<'_>) -> Option<Markup> {
    let samples = view.samples();
    let at = |s: &Value, n: usize| s["resident_mb"][n].as_f64().unwrap_or(0.0);
    let layers = segment_names(view).into_iter().zip(LAYERS).enumerate().map(|(n, (name, class))| Layer {
        name,
        class,
        values: samples.iter().map(|s| at(s, n)).collect(),
    });
    let chart = StackChart {
        title: view.run.policy.clone(),
        y_label: "MB resident",
        x: view.series("t").iter().map(|p| p.0).collect(),
        layers: layers.collect(),
        max: view.metrics()["pool_mb"].as_f64().unwrap_or(0.0),
        bands: view.bands().into_iter().filter(|b| BESIDE.contains(&b.label.as_str())).take(1).collect(),
    };
    chart.draw()
}

/// A figure with its spread: the median, and the rest in a title.
fn figure(value: &Value, unit: &dyn Fn(f64) -> String) -> Markup {
    if let Some(plain) = value.as_f64() {
        return html! { (unit(plain)) };
    }
    match ["median", "min", "max"].map(|field| value[field].as_f64()) {
        [Some(median), Some(min), Some(max)] if min < max => html! {
            (unit(median)) small { " " (unit(min)) "\u{2013}" (unit(max)) }
        },
        [Some(median), ..] => html! { (unit(median)) },
        _ => html! { "-" },
    }
}

fn results(policies: &[&View<'_>], ceiling: Option<&View<'_>>, document: &Document) -> Markup {
    let ceiling_tps = ceiling.and_then(|v| v.metrics()["tps_alone"].as_f64());
    html! {
            div class="scroll" { table class="many" {
                thead { tr {
                    th { (compared(document)) } th class="n" { "TPS alone" } th class="n" { "TPS beside" }
                    th class="n" { "of the ceiling" } th class="n" { "p95 ms" } th class="n" { "dump s beside" }
                    th class="n" { "of the ceiling" } th class="n" { "hot pages read" } th class="n" { "turnovers" }
                    th { "time to get warm" } th class="n" { "made young" } th class="n" { "not young" }
                } }
                tbody { @for (start, full, title, _) in SCENARIOS.iter().filter(|s| ran(policies, s)) {
                    tr class="group" { th colspan="12" { (title) } }
                    @for view in policies.iter().filter(|v| v.is(start, *full)) { (result_row(view)) }
                } }
            } }
            p class="note" {
                @if let Some(tps) = ceiling_tps { "The ceiling without the dump: " (human(tps)) " TPS. " }
                "Medians of turns, with the smallest and largest. At a request rate, \u{201c}of the ceiling\u{201d} is of that rate."
                " " (text(&document.settings, "scale"))
            }
            @for view in policies {
                @let diagnosis = text(view.metrics(), "diagnosis");
                @if !diagnosis.is_empty() {
                    p class="note" { (view.run.policy) ", " (text(view.metrics(), "start")) ": " (diagnosis) }
                }
            }
    }
}

fn result_row(view: &View<'_>) -> Markup {
    let m = view.metrics();
    let percent = |v: f64| format!("{:.1} %", v * 100.0);
    html! {
        tr {
            td class="name" { i class=(format!("key {}", policy_class(&view.run.policy))) {} (view.run.policy) }
            td class="n" { (figure(&m["tps_alone"], &human)) }
            td class="n" { (figure(&m["tps_beside"], &human)) }
            td class="n" { (figure(&m["tps_of_ceiling"], &percent)) }
            td class="n" { (figure(&m["p95_ms"], &human)) }
            td class="n" { (figure(&m["dump_s_beside"], &human)) }
            td class="n" { (figure(&m["dump_of_ceiling"], &percent)) }
            td class="n" { (figure(&m["hot_pages_read"], &human)) }
            td class="n" { (figure(&m["hot_set_turnovers"], &human)) }
            td { (text(m, "warm_text")) }
            td class="n" { (figure(&m["made_young"], &human)) }
            td class="n" { (figure(&m["not_young"], &human)) }
        }
    }
}

fn content(view: &View<'_>) -> Markup {
    let moments = &view.metrics()["resident_mb"];
    let mb = |moment: &str, n: usize| moments[moment][n]["mb"].as_f64().unwrap_or(0.0);
    let during = moments["during"].as_array().map_or(&[][..], Vec::as_slice);
    html! {
        details {
            summary { (view.run.policy) ", " (text(view.metrics(), "start")) ", " (text(view.metrics(), "load")) }
            div class="scroll" { table {
                thead { tr {
                    th { "table" } th { "index" } th class="n" { "MB before" } th class="n" { "MB beside" }
                    th class="n" { "MB after" }
                } }
                tbody {
                    @for (n, row) in during.iter().enumerate().filter(|(_, row)| row["mb"].is_number()) {
                        tr {
                            td { (text(row, "table")) }
                            td { (text(row, "index")) }
                            @for moment in ["before", "during", "after"] {
                                td class="n" { (format!("{:.2}", mb(moment, n))) }
                            }
                        }
                    }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::machine::Machine;

    /// A pool such as that of MyRocks gets no charts without lines, and no tables of zeros.
    #[test]
    fn a_pool_that_does_not_say_what_is_in_it_has_no_chart_of_that() {
        let run = |policy: &str, resident: f64| {
            let metrics = json!({
                "role": "policy", "start": "warm", "load": "full speed", "pool_mb": 2,
                "segments": [{"table": "sbtest1", "index": "PRIMARY"}],
                "samples": [{"t": 0, "tps": 1, "resident_mb": [0]}, {"t": 1, "tps": 1, "resident_mb": [resident]}],
                "resident_mb": {"during": [{"table": "sbtest1", "index": "PRIMARY", "mb": resident}]},
            });
            Run::new("mariadb", policy, metrics)
        };
        let mut document = Document::new("sideload-mariadb", json!({}), Machine::this(None));
        document.runs = vec![run("holdfast", 1.0), run("MyRocks", 0.0)];
        let body = body(&document);
        let html = html! { (body.pictures) @for (_, part) in &body.folded { (part) } }.into_string();
        assert_eq!(html.matches("MB resident").count(), 1);
        assert_eq!(html.matches("<details>").count(), 1);
        assert_eq!(html.matches(">MyRocks</td>").count(), 1, "it is among the results");
        assert!(html.contains("<th>engine</th>"));
    }
}
