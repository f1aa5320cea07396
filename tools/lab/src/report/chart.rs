//! Charts as inline SVG. Colours are CSS classes of the page, so that one drawing serves light and
//! dark.

use maud::{Markup, html};
use serde_json::json;

use super::palette;
use crate::figures::{Chart, Form, Line, Span};
use crate::measure::human;

/// Width of a chart's drawing area and margins, in SVG units.
const WIDTH: f64 = 560.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 34.0;

/// Round numbers from 0 (or below `min`) to at least `max`, about `n` of them.
pub fn ticks(min: f64, max: f64, n: usize) -> Vec<f64> {
    let span = (max - min).max(f64::MIN_POSITIVE);
    let raw = span / n.max(1) as f64;
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * magnitude).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let first = (min / step).ceil() as i64;
    let last = (max / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// A tick's label.
pub(super) fn tick_label(v: f64) -> String {
    let v = if v.abs() < 1e-12 { 0.0 } else { v };
    for (unit, letter) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if v.abs() >= unit {
            return format!("{}{letter}", without_zeros(v / unit));
        }
    }
    without_zeros(v)
}

/// At most three digits behind the point.
fn without_zeros(v: f64) -> String {
    let text = format!("{v:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The part of a band's label that fits into `width`: all of it, else the text after its last
/// comma, else nothing.
fn fitting(label: &str, width: f64) -> &str {
    const CHARACTER: f64 = 5.6;
    let last = label.rsplit_once(", ").map_or(label, |(_, last)| last);
    let fits = |text: &&str| text.len() as f64 * CHARACTER + 8.0 <= width;
    [label, last].into_iter().find(fits).unwrap_or_default()
}

/// Maps values to the drawing.
struct Frame {
    x: (f64, f64),
    y_max: f64,
    height: f64,
}

impl Frame {
    fn x(&self, v: f64) -> f64 {
        let span = (self.x.1 - self.x.0).max(f64::MIN_POSITIVE);
        LEFT + (v - self.x.0) / span * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, v: f64) -> f64 {
        TOP + (1.0 - v / self.y_max) * (self.height - TOP - BOTTOM)
    }

    fn base(&self) -> f64 {
        self.height - BOTTOM
    }

    fn axes(&self, x_label: &str, y_label: &str, bands: &[Span]) -> Markup {
        let (left, right, base) = (LEFT, WIDTH - RIGHT, self.base());
        html! {
            @for (n, band) in bands.iter().enumerate() {
                @let (from, to) = (self.x(band.from.max(self.x.0)), self.x(band.to.min(self.x.1)));
                @if to > from {
                    rect class=(if n % 2 == 0 { "band" } else { "band alt" }) x=(px(from)) y=(px(TOP))
                        width=(px(to - from)) height=(px(base - TOP)) {}
                }
            }
            @for tick in ticks(0.0, self.y_max, 4) {
                line class="grid" x1=(px(left)) x2=(px(right)) y1=(px(self.y(tick))) y2=(px(self.y(tick))) {}
                text class="tick" x=(px(left - 6.0)) y=(px(self.y(tick) + 3.5)) text-anchor="end" { (tick_label(tick)) }
            }
            @for band in bands {
                @let (from, to) = (self.x(band.from.max(self.x.0)), self.x(band.to.min(self.x.1)));
                @let label = fitting(&band.label, to - from);
                @if !label.is_empty() {
                    text class="band-label" x=(px(from + 5.0)) y=(px(TOP + 11.0)) { (label) }
                }
            }
            @for tick in ticks(self.x.0, self.x.1, 6) {
                text class="tick" x=(px(self.x(tick))) y=(px(base + 14.0)) text-anchor="middle" { (tick_label(tick)) }
            }
            line class="axis" x1=(px(left)) x2=(px(right)) y1=(px(base)) y2=(px(base)) {}
            text class="axis-label" x=(px(left)) y=(px(TOP - 8.0)) { (y_label) }
            text class="axis-label" x=(px(right)) y=(px(self.height - 6.0)) text-anchor="end" {
                (x_label)
            }
        }
    }
}

/// A coordinate.
pub(super) fn px(v: f64) -> String {
    format!("{v:.1}")
}

pub(super) fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut d = String::new();
    for (x, y) in points {
        d.push_str(if d.is_empty() { "M" } else { "L" });
        d.push_str(&format!("{x:.1} {y:.1}"));
    }
    d
}

/// The top of an axis that leaves room above `max`.
fn headroom(max: f64) -> f64 {
    if max > 0.0 { max * 1.12 } else { 1.0 }
}

/// Draws a chart, each of its lines in a class; `None` if there is nothing to draw.
pub fn draw(chart: &Chart, classes: &[&'static str]) -> Option<Markup> {
    match chart.form {
        Form::Lines => lines(chart, classes),
        Form::Stack { top, named } => stack(chart, classes, (top, named)),
        Form::Bars => bars(chart, classes),
    }
}

fn lines(chart: &Chart, classes: &[&'static str]) -> Option<Markup> {
    let points = || chart.lines.iter().flat_map(|l| l.points.iter().copied());
    let min_x = points().map(|p| p.0).reduce(f64::min)?;
    let max_x = points().map(|p| p.0).reduce(f64::max)?;
    let max_y = points().map(|p| p.1).reduce(f64::max)?;
    let frame = Frame { x: (min_x, max_x), y_max: headroom(max_y), height: 260.0 };
    let lines = || chart.lines.iter().zip(classes);
    Some(figure(
        &chart.title,
        &frame,
        &lines().map(hover).collect(),
        html! {
            (frame.axes(&chart.x_label, &chart.y_label, &chart.spans))
            @for (line, class) in lines() {
                path class=(line_class(class, line.dashed))
                    d=(path(line.points.iter().map(|p| (frame.x(p.0), frame.y(p.1))))) {}
            }
        },
    ))
}

/// Enough digits for a tooltip.
fn round(v: f64) -> f64 {
    (v * 1000.0).round() / 1000.0
}

fn rounded(values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.map(round).collect()
}

/// What is shown of a line under the pointer.
fn hover((line, class): (&Line, &&'static str)) -> serde_json::Value {
    let [x, y] = [|p: &(f64, f64)| p.0, |p: &(f64, f64)| p.1].map(|of| rounded(line.points.iter().map(of)));
    json!({"name": line.name, "class": class, "x": x, "y": y})
}

fn figure(title: &str, frame: &Frame, hover: &serde_json::Value, drawing: Markup) -> Markup {
    let view = format!("0 0 {WIDTH} {}", frame.height);
    let scale = format!("{} {} {} {}", round(frame.x.0), round(frame.x.1), LEFT, WIDTH - RIGHT);
    html! {
        figure class="chart" {
            figcaption { (title) }
            svg viewBox=(view) role="img" aria-label=(title) data-scale=(scale) data-series=(hover.to_string()) {
                (drawing)
                line class="cross" x1="0" x2="0" y1=(px(TOP)) y2=(px(frame.base())) {}
            }
        }
    }
}

/// Layers on top of each other. All have points at the same x.
fn stack(chart: &Chart, classes: &[&'static str], (top, named): (f64, &str)) -> Option<Markup> {
    let x: Vec<f64> = chart.lines.first()?.points.iter().map(|p| p.0).collect();
    let (first, last) = (*x.first()?, *x.last()?);
    let frame = Frame { x: (first, last), y_max: headroom(top), height: 190.0 };
    let mut below = vec![0.0; x.len()];
    let mut areas = Vec::new();
    for (line, class) in chart.lines.iter().zip(classes) {
        let above: Vec<f64> = below.iter().zip(&line.points).map(|(below, (_, y))| below + y).collect();
        let edge = |heights: &[f64]| x.iter().zip(heights).map(|(&x, &y)| (frame.x(x), frame.y(y))).collect::<Vec<_>>();
        let (upper, lower) = (edge(&above), edge(&below));
        areas.push((class, format!("{}Z", path(upper.into_iter().chain(lower.into_iter().rev())))));
        below = above;
    }
    let (left, right, top) = (px(LEFT), px(WIDTH - RIGHT), frame.y(top));
    Some(figure(
        &chart.title,
        &frame,
        &chart.lines.iter().zip(classes).rev().map(hover).collect(),
        html! {
            (frame.axes(&chart.x_label, &chart.y_label, &[]))
            @for (class, d) in &areas { path class=(format!("area {class}")) d=(d) {} }
            line class="limit" x1=(left) x2=(right) y1=(px(top)) y2=(px(top)) {}
            text class="tick" x=(right) y=(px(top - 4.0)) text-anchor="end" { (named) }
            @for at in chart.spans.iter().map(|span| span.from).filter(|from| *from > first) {
                line class="mark" x1=(px(frame.x(at))) x2=(px(frame.x(at))) y1=(px(TOP)) y2=(px(frame.base())) {}
            }
        },
    ))
}

/// Bars on a common scale.
fn bars(chart: &Chart, classes: &[&'static str]) -> Option<Markup> {
    let bars: Vec<(&str, f64)> =
        chart.lines.iter().filter_map(|line| Some((line.name.as_str(), line.points.last()?.1))).collect();
    let max = bars.iter().map(|bar| bar.1).reduce(f64::max)?;
    let row = 24.0;
    let height = row * bars.len() as f64 + 4.0;
    let (from, to) = (250.0, WIDTH - 70.0);
    let length = |v: f64| if max > 0.0 { (v / max * (to - from)).max(1.5) } else { 1.5 };
    Some(html! {
        figure class="chart" {
            figcaption { (chart.title) }
            svg viewBox=(format!("0 0 {WIDTH} {height}")) role="img" aria-label=(chart.title) {
                @for (n, ((name, value), class)) in bars.iter().zip(classes).enumerate() {
                    @let y = n as f64 * row + 4.0;
                    text class="bar-name" x=(px(from - 8.0)) y=(px(y + 12.0)) text-anchor="end" { (name) }
                    rect class=(format!("bar {class}")) x=(px(from)) y=(px(y)) width=(px(length(*value)))
                        height="16" rx="2" {}
                    text class="bar-value" x=(px(from + length(*value) + 6.0)) y=(px(y + 12.0)) {
                        (human(*value)) " " (chart.y_label)
                    }
                }
            }
        }
    })
}

/// A legend: names with the lines, or the colours of the layers, of their classes.
pub fn legend(entries: &[(String, &'static str, bool)]) -> Markup {
    html! {
        p class="legend" {
            @for (name, class, dashed) in entries {
                span { (key(class, *dashed)) (name) }
            }
        }
    }
}

fn key(class: &str, dashed: bool) -> Markup {
    if palette::is_layer(class) {
        return html! { i class=(format!("key {class}")) {} };
    }
    html! { svg viewBox="0 0 46 10" { path class=(line_class(class, dashed)) d="M2 5H44" {} } }
}

/// The classes of a line; `dashed` for a reference.
fn line_class(class: &str, dashed: bool) -> String {
    format!("line {class}{}", if dashed { " dashed" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_range() {
        assert_eq!(ticks(0.0, 100.0, 4), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(ticks(0.0, 7.0, 4), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(ticks(-0.5, 1.0, 3), [-0.5, 0.0, 0.5, 1.0]);
        assert_eq!(tick_label(2500.0), "2.5k");
        assert_eq!(tick_label(0.25), "0.25");
        assert_eq!([tick_label(60e6), tick_label(-2.5e9)], ["60M", "-2.5G"]);
    }

    #[test]
    fn labels_stay_in_their_bands() {
        assert_eq!(fitting("RW=1, 256", 60.0), "RW=1, 256");
        assert_eq!(fitting("RW=1, 256", 40.0), "256");
        assert_eq!(fitting("RW=1, 256", 20.0), "");
        assert_eq!(fitting("warm-up", 20.0), "");
    }

    #[test]
    fn charts_without_data_are_not_drawn() {
        for form in [Form::Lines, Form::Stack { top: 1.0, named: "n" }, Form::Bars] {
            assert!(draw(&Chart { form, ..Chart::over("t", "x", "y", Vec::new()) }, &[]).is_none());
        }
    }

    #[test]
    fn a_legend_shows_lines_as_they_are_drawn_and_layers_as_areas() {
        let entry = |class, dashed| (String::from("name"), class, dashed);
        let legend = legend(&[entry("midpoint", false), entry("ceiling", true), entry("hot", false)]).into_string();
        assert!(legend.contains("class=\"line midpoint\"") && legend.contains("class=\"line ceiling dashed\""));
        assert!(legend.contains("<i class=\"key hot\">") && legend.matches("<path").count() == 2, "{legend}");
    }

    #[test]
    fn a_line_is_drawn_where_its_points_are() {
        let line = Line::new("a", [(0.0, 0.0), (1.0, 10.0)]);
        let band = Span { from: 0.0, to: 1.0, label: "phase".into() };
        let chart = Chart::over_time("<t>", "y", vec![line], vec![band]);
        let svg = draw(&chart, &["c"]).unwrap().into_string();
        assert!(svg.contains("d=\"M52.0 226.0L548.0 "), "{svg}");
        assert!(svg.contains("&lt;t&gt;") && svg.contains(">phase<"), "{svg}");
        let svg = draw(&Chart { form: Form::Bars, ..chart }, &["c"]).unwrap().into_string();
        assert!(svg.contains("bar c") && svg.contains(">10.0 y<"), "{svg}");
    }

    #[test]
    fn layers_lie_on_top_of_each_other() {
        let layer = |y: f64| Line::new("a", [(0.0, 0.0), (2.0, y)]);
        let begin = Span { from: 1.0, to: 2.0, label: String::new() };
        let form = Form::Stack { top: 100.0, named: "all" };
        let chart = Chart { form, spans: vec![begin], ..Chart::over("t", "x", "y", vec![layer(50.0), layer(25.0)]) };
        let svg = draw(&chart, &["c", "d"]).unwrap().into_string();
        let edges = ["M52.0 156.0L548.0 96.2L548.0 156.0L52.0 156.0Z", "M52.0 156.0L548.0 66.3L548.0 96.2L52.0 156.0Z"];
        assert!(edges.iter().all(|edge| svg.contains(edge)), "{svg}");
        assert!(svg.contains(">all<") && svg.contains("class=\"mark\" x1=\"300.0\""), "{svg}");
    }
}
