//! Panels of lines as one SVG file that needs no page around it: a quantity over a number that
//! doubles, such as threads or connections.
//!
//! Every attribute is in the drawing itself, so that programs without CSS show it, too.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped, html};

use super::chart::{path, px, tick_label, ticks};
use super::palette;

const COLUMNS: usize = 3;
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 220.0;
/// Margins of a panel's drawing area.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 30.0;
/// Height of title and legend above the panels.
const HEAD: f64 = 64.0;
/// Room below the panels.
const FOOT: f64 = 10.0;

const INK: &str = "#1d2327";
const SOFT: &str = "#5d676e";
const GRID: &str = "#e3e1dc";

/// One panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What it shows.
    pub title: String,
    /// For each name of [`Picture::names`] the points (x, y); empty for a line that is left out.
    pub lines: Vec<Vec<(f64, f64)>>,
}

/// Panels with the same lines.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Title.
    pub title: String,
    /// The quantity on the x axes, which are logarithmic: every x is positive.
    pub x_label: String,
    /// The quantity on the y axes, which begin at 0.
    pub y_label: String,
    /// The lines' names.
    pub names: Vec<String>,
    /// The panels; those without points are left out.
    pub panels: Vec<Panel>,
}

impl Picture {
    /// The picture as the text of an SVG file.
    pub fn svg(&self) -> String {
        let panels: Vec<&Panel> = self.panels.iter().filter(|panel| panel.points().next().is_some()).collect();
        let columns = panels.len().clamp(1, COLUMNS);
        let (width, height) = (WIDTH * columns as f64, HEAD + HEIGHT * panels.len().div_ceil(columns) as f64 + FOOT);
        let drawing = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height)
                font-family="sans-serif" {
                rect x="0" y="0" width=(width) height=(height) fill="#ffffff" {}
                text x="12" y="22" font-size="15" font-weight="bold" fill=(INK) { (self.title) }
                (self.legend())
                @for (n, panel) in panels.iter().enumerate() {
                    @let at = (WIDTH * (n % columns) as f64, HEAD + HEIGHT * (n / columns) as f64);
                    g transform=(format!("translate({} {})", px(at.0), px(at.1))) { (self.panel(panel)) }
                }
            }
        };
        format!("{}{}\n", PreEscaped(r#"<?xml version="1.0" encoding="UTF-8"?>"#).0, drawing.into_string())
    }

    fn legend(&self) -> Markup {
        const ENTRY: f64 = 130.0;
        const KEY: f64 = 46.0;
        html! {
            @for (n, name) in self.names.iter().enumerate() {
                @let x = 12.0 + ENTRY * n as f64;
                @let tone = palette::of_line(n);
                line x1=(px(x)) x2=(px(x + KEY)) y1="41" y2="41" stroke=(tone.light) stroke-dasharray=[tone.dashes]
                    stroke-width="2" stroke-linecap="round" {}
                text x=(px(x + KEY + 6.0)) y="45" font-size="12" fill=(INK) { (name) }
            }
        }
    }

    fn panel(&self, panel: &Panel) -> Markup {
        let frame = Frame::around(panel);
        let (right, base) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        html! {
            text x=(px(LEFT)) y="16" font-size="12.5" font-weight="bold" fill=(INK) { (panel.title) }
            text x=(px(LEFT)) y=(px(TOP - 4.0)) font-size="9" fill=(SOFT) { (self.y_label) }
            @for tick in ticks(0.0, frame.y_max, 4) {
                @let y = frame.y(tick);
                line x1=(px(LEFT)) x2=(px(right)) y1=(px(y)) y2=(px(y)) stroke=(GRID) stroke-width="1" {}
                text x=(px(LEFT - 5.0)) y=(px(y + 3.5)) font-size="9.5" text-anchor="end" fill=(SOFT) { (tick_label(tick)) }
            }
            @for &x in &frame.xs {
                text x=(px(frame.x(x))) y=(px(base + 13.0)) font-size="9.5" text-anchor="middle" fill=(SOFT) { (tick_label(x)) }
            }
            text x=(px(right)) y=(px(base + 25.0)) font-size="9" text-anchor="end" fill=(SOFT) { (self.x_label) }
            @for (n, line) in panel.lines.iter().enumerate().rev() {
                @let tone = palette::of_line(n);
                @if !line.is_empty() { path d=(path(line.iter().map(|p| (frame.x(p.0), frame.y(p.1))))) fill="none" stroke=(tone.light)
                    stroke-dasharray=[tone.dashes] stroke-width="2" stroke-linejoin="round" stroke-linecap="round" {} }
                @for point in line {
                    circle cx=(px(frame.x(point.0))) cy=(px(frame.y(point.1))) r="2.5" fill=(tone.light) {}
                }
            }
        }
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flatten().copied()
    }
}

/// Maps values to a panel.
struct Frame {
    /// The x values that occur, ascending.
    xs: Vec<f64>,
    y_max: f64,
}

impl Frame {
    fn around(panel: &Panel) -> Frame {
        // Their bits are in the order of the numbers, as these are positive.
        let xs: BTreeSet<u64> = panel.points().map(|p| p.0.to_bits()).collect();
        let y_max = panel.points().map(|p| p.1).fold(0.0, f64::max);
        Frame { xs: xs.into_iter().map(f64::from_bits).collect(), y_max: if y_max > 0.0 { y_max * 1.08 } else { 1.0 } }
    }

    fn x(&self, v: f64) -> f64 {
        let (first, last) = (self.xs.first().map_or(0.0, |x| x.ln()), self.xs.last().map_or(0.0, |x| x.ln()));
        // One value alone stands in the middle.
        let part = if last > first { (v.ln() - first) / (last - first) } else { 0.5 };
        LEFT + 6.0 + part * (WIDTH - LEFT - RIGHT - 12.0)
    }

    fn y(&self, v: f64) -> f64 {
        TOP + (1.0 - v / self.y_max) * (HEIGHT - TOP - BOTTOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(panels: Vec<Panel>) -> Picture {
        let label = String::from;
        Picture {
            title: label("a & b"),
            x_label: label("threads"),
            y_label: label("a second"),
            names: vec!["one".into(), "two".into()],
            panels,
        }
    }

    #[test]
    fn every_doubling_takes_the_same_room() {
        let panel = Panel { title: "get".into(), lines: vec![vec![(1.0, 10.0), (2.0, 20.0), (4.0, 40.0)], vec![]] };
        let frame = Frame::around(&panel);
        assert!((frame.x(2.0) - frame.x(1.0) - (frame.x(4.0) - frame.x(2.0))).abs() < 1e-9);
        assert!(frame.y(40.0) > TOP && (frame.y(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9);
    }

    #[test]
    fn a_line_is_told_by_its_dashes_too() {
        let line = vec![(1.0, 10.0), (2.0, 20.0)];
        let svg = picture(vec![Panel { title: "get".into(), lines: vec![line.clone(), line] }]).svg();
        // In the legend and in the panel; the first line is solid.
        assert_eq!(
            (svg.matches("stroke-dasharray=\"9 5\"").count(), svg.matches("stroke-dasharray").count()),
            (2, 2),
            "{svg}"
        );
    }

    #[test]
    fn a_panel_without_points_is_left_out_and_text_is_escaped() {
        let empty = Panel { title: "nothing".into(), lines: vec![vec![], vec![]] };
        let full = Panel { title: "put".into(), lines: vec![vec![(8.0, 3.0)], vec![]] };
        let svg = picture(vec![empty, full]).svg();
        assert!(svg.starts_with("<?xml") && svg.contains("a &amp; b") && svg.contains(">put<"), "{svg}");
        assert!(!svg.contains("nothing") && svg.matches("<circle").count() == 1, "{svg}");
        assert!(picture(Vec::new()).svg().contains("two"));
    }
}
