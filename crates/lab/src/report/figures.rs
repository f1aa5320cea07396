//! The report of an experiment that shows [`Figures`]: its tables, then its charts.

use maud::{Markup, html};

use super::chart::{Band, Line, LineChart, legend};
use crate::figures::{Chart, Figures, Grid};

/// CSS classes of the lines of a chart, in their order.
const TONES: [&str; 8] = [
    "holdfast",
    "midpoint-0",
    "holdfast-plain",
    "midpoint",
    "midpoint-5",
    "holdfast-alone",
    "midpoint-late",
    "ceiling",
];

fn tone(n: usize) -> &'static str {
    TONES[n % TONES.len()]
}

/// The sections of the report.
pub(super) fn body(figures: &Figures) -> Markup {
    html! {
        p class="lead" { (figures.lead) }
        @if !figures.words.is_empty() {
            section {
                h2 { "What happened" }
                ul { @for sentence in &figures.words { li { (sentence) } } }
            }
        }
        @for grid in &figures.grids { (table(grid)) }
        @for (title, charts) in &figures.charts {
            section {
                h2 { (title) }
                div class="charts" { @for chart in charts { (draw(chart)) } }
            }
        }
    }
}

fn table(grid: &Grid) -> Markup {
    let class = |n: usize| if n < grid.words { "w" } else { "n" };
    html! {
        section {
            h2 { (grid.title) }
            div class="scroll" { table {
                thead { tr { @for (n, head) in grid.header.iter().enumerate() { th class=(class(n)) { (head) } } } }
                tbody { @for row in &grid.rows {
                    tr { @for (n, cell) in row.iter().enumerate() { td class=(class(n)) { (cell) } } }
                } }
            } }
            @if !grid.note.is_empty() { p class="note" { (grid.note) } }
        }
    }
}

fn draw(chart: &Chart) -> Markup {
    // Lines that are nothing but zeros take room and say nothing; nor does a chart of references alone.
    let shown = |line: &&crate::figures::Line| line.points.iter().any(|p| p.1 != 0.0);
    let kept: Vec<_> = chart.lines.iter().filter(shown).collect();
    if kept.iter().all(|line| line.dashed) {
        return html! {};
    }
    let dashed = |n: usize| kept[n].dashed;
    let lines: Vec<Line> = kept
        .iter()
        .enumerate()
        .map(|(n, line)| Line {
            name: line.name.clone(),
            class: if line.dashed { "ceiling" } else { tone(n) },
            points: line.points.clone(),
            dashed: line.dashed,
        })
        .collect();
    let names = lines.iter().enumerate().map(|(n, l)| (l.name.clone(), l.class, dashed(n))).collect::<Vec<_>>();
    let bands = chart.spans.iter().map(|s| Band { from: s.from, to: s.to, label: s.label.clone() }).collect();
    let (x_label, y_label) = (chart.x_label.clone(), chart.y_label.clone());
    let drawing = LineChart { title: chart.title.clone(), x_label, y_label, lines, bands }.draw();
    html! {
        @if let Some(drawing) = drawing {
            div { (drawing) (legend(&names)) }
        }
    }
}
