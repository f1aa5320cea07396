//! The report of an experiment's [`Figures`].

use maud::{Markup, html};

use super::chart::{self, legend};
use super::palette;
use crate::figures::{Chart, Figures, Form, Grid, Line, Listing};
use crate::text::parts;

/// The parts of a report, in the order in which they stand.
pub(super) struct Body {
    /// What was done, in a sentence or two.
    pub lead: Markup,
    /// The pictures that answer the claims.
    pub pictures: Markup,
    /// What a reader unfolds, with titles.
    pub folded: Vec<(String, Markup)>,
}

/// The CSS class of the line with this number.
fn tone(n: usize) -> &'static str {
    palette::of_line(n).classes[0]
}

/// The content of the report.
pub(super) fn body(figures: &Figures) -> Body {
    let lead = html! {
        p class="lead" { (figures.lead) }
        @if !figures.words.is_empty() {
            section {
                h2 { "What happened" }
                ul { @for sentence in &figures.words { li { (sentence) } } }
            }
        }
    };
    let pictures = html! {
        @for (title, charts) in &figures.charts {
            section {
                h2 { (title) }
                (draw_all(charts))
            }
        }
    };
    let grids = figures.grids.iter().map(|grid| (grid.title.clone(), table(grid)));
    let charts = figures.folded.iter().map(|(title, charts)| (title.clone(), draw_all(charts)));
    let listings = figures.listings.iter().map(|listing| (listing.title.clone(), text(listing)));
    Body { lead, pictures, folded: grids.chain(charts).chain(listings).collect() }
}

fn text(listing: &Listing) -> Markup {
    html! { @for part in &listing.parts { pre { (part) } } }
}

fn draw_all(charts: &[Chart]) -> Markup {
    let names = names(charts);
    html! { div class="charts" { @for chart in charts { (draw(chart, &names)) } } }
}

/// Characters of a table that the page has room for.
const PAGE: usize = 140;

/// A table. One that is wider than the page is broken into several, each with the first columns.
fn table(grid: &Grid) -> Markup {
    let class = |n: usize| if n < grid.words { "w" } else { "n" };
    let cell = |row: &[String], n: usize| row.get(n).cloned().unwrap_or_default();
    html! {
            @for part in parts(&widths(grid), grid.words, PAGE) {
                div class="scroll" { table class="many" {
                    thead { tr { @for &n in &part { th class=(class(n)) { (cell(&grid.header, n)) } } } }
                    tbody { @for row in &grid.rows {
                        tr { @for &n in &part { td class=(class(n)) { (cell(row, n)) } } }
                    } }
                } }
            }
            @if !grid.note.is_empty() { p class="note" { (grid.note) } }
    }
}

/// The least width of each column in characters: heads break between words, cells do not.
fn widths(grid: &Grid) -> Vec<usize> {
    let head = |head: &String| head.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    let cells = |n: usize| grid.rows.iter().filter_map(move |row| row.get(n)).map(|cell| cell.chars().count()).max();
    grid.header.iter().enumerate().map(|(n, h)| head(h).max(cells(n).unwrap_or(0))).collect()
}

/// The names of the lines of the chart that has the most.
fn names(charts: &[Chart]) -> Vec<&str> {
    let most = charts.iter().max_by_key(|chart| chart.lines.len());
    most.map(|chart| chart.lines.iter().map(|line| line.name.as_str()).collect()).unwrap_or_default()
}

/// The tones of a chart's lines: their own, or those that they have in the chart with all `names`,
/// if the chart has the same lines.
fn tones(chart: &Chart, names: &[&str]) -> Vec<&'static str> {
    let known = |line: &Line| names.iter().position(|name| *name == line.name);
    let same: Option<Vec<usize>> = chart.lines.iter().map(known).collect();
    let by_place = same.unwrap_or_else(|| (0..chart.lines.len()).collect()).into_iter().map(tone);
    chart.lines.iter().zip(by_place).map(|(line, place)| if line.tone.is_empty() { place } else { line.tone }).collect()
}

fn draw(chart: &Chart, names: &[&str]) -> Markup {
    // A line of zeros takes room and shows nothing; nor does a chart of references alone.
    let shown = |line: &Line| line.points.iter().any(|p| p.1 != 0.0);
    let lines = chart.lines.iter().zip(tones(chart, names)).filter(|(line, _)| shown(line));
    let toned = lines.map(|(line, tone)| (line.clone(), if line.dashed { "ceiling" } else { tone }));
    let (lines, classes): (Vec<Line>, Vec<&'static str>) = toned.unzip();
    if lines.iter().all(|line| line.dashed) {
        return html! {};
    }
    let names: Vec<_> = lines.iter().zip(&classes).map(|(l, class)| (l.name.clone(), *class, l.dashed)).collect();
    let drawing = chart::draw(&Chart { lines, ..chart.clone() }, &classes);
    html! {
        @if let Some(drawing) = drawing {
            // A bar has its name beside it.
            div { (drawing) @if chart.form != Form::Bars { (legend(&names)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_wider_than_the_page_is_broken() {
        let heads: Vec<String> = (0..40).map(|n| format!("figure {n}, server")).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut grid = Grid::new("t", 1, &heads, "");
        grid.rows = vec![(0..40).map(|n| format!("cell {n}")).collect()];
        let page = table(&grid).into_string();
        let tables: Vec<&str> = page.split("</table>").filter(|part| part.contains("<table")).collect();
        assert_eq!(tables.len(), 3, "8 characters and a gap for each of 39, behind the first");
        assert!(tables.iter().all(|table| table.contains("cell 0<")), "each has the first column");
        assert!((1..40).all(|n| page.matches(&format!("cell {n}<")).count() == 1), "the others stand once");
    }

    #[test]
    fn a_server_has_the_same_tone_in_every_chart() {
        let line = |name: &str| Line::new(name, [(0.0, 1.0)]);
        let chart = |names: &[&str]| Chart::over("t", "x", "y", names.iter().map(|name| line(name)).collect());
        let charts = [chart(&["b"]), chart(&["a", "b", "c"]), chart(&["d", "b"])];
        let names = names(&charts);
        assert_eq!(tones(&charts[0], &names), [tone(1)]);
        assert_eq!(tones(&charts[1], &names), [tone(0), tone(1), tone(2)]);
        assert_eq!(tones(&charts[2], &names), [tone(0), tone(1)], "it is about something else");
    }
}
