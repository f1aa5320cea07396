//! The picture: each ratio as a point on one logarithmic scale, with where it lies, beside the line
//! of equal speed.
//!
//! Every attribute is in the drawing itself, so that programs without CSS show it, too. The point's
//! form, not only its colour, tells which side of the line it is on.

use maud::{Markup, PreEscaped, html};

use crate::tables::Ratio;

const WIDTH: f64 = 900.0;
/// Where the scale begins and ends.
const LEFT: f64 = 430.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 64.0;
const ROW: f64 = 20.0;
/// Between groups.
const GAP: f64 = 14.0;

const LEAST: f64 = 0.25;
const GREATEST: f64 = 4.0;
const TICKS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

pub const INK: &str = "#1d2327";
pub const SOFT: &str = "#5d676e";
pub const GRID: &str = "#e3e1dc";
pub const FASTER: &str = "#1f6fd1";
pub const SLOWER: &str = "#d1541f";
/// Characters of a name that fit beside the scale.
const NAME: usize = 50;

/// The picture as the text of an SVG file.
pub fn svg(ratios: &[Ratio]) -> String {
    let mut y = TOP;
    let mut places = Vec::new();
    for (n, ratio) in ratios.iter().enumerate() {
        let is_first = n == 0 || ratios[n - 1].group != ratio.group;
        y += ROW + if is_first { GAP } else { 0.0 };
        places.push((y, is_first));
    }
    let bottom = y + ROW;
    let body = html! {
        @for tick in TICKS { (tick_line(tick, bottom)) }
        @for (ratio, (y, is_first)) in ratios.iter().zip(&places) { (row(ratio, *y, *is_first)) }
    };
    let words = "Right of the line is faster. The bar is the 95 % interval, or all pairs of the run.";
    frame("Holdfast, by what it is compared with", words, 11, bottom + 30.0, &body)
}

/// A picture with a title and a line below it, as the text of an SVG file.
pub fn frame(title: &str, words: &str, font_size: u32, height: f64, body: &Markup) -> String {
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height)
            font-family="sans-serif" font-size=(font_size) {
            rect x="0" y="0" width=(WIDTH) height=(height) fill="#ffffff" {}
            text x="12" y="24" font-size="15" font-weight="bold" fill=(INK) { (title) }
            text x="12" y="44" fill=(SOFT) { (words) }
            (body)
        }
    };
    format!("{}{}\n", PreEscaped(r#"<?xml version="1.0" encoding="UTF-8"?>"#).0, drawing.into_string())
}

fn tick_line(tick: f64, bottom: f64) -> Markup {
    let (at, colour) = (x(tick), if tick == 1.0 { INK } else { GRID });
    html! {
        line x1=(at) x2=(at) y1=(TOP) y2=(bottom) stroke=(colour) {}
        text x=(at) y=(bottom + 16.0) text-anchor="middle" fill=(SOFT) { (format!("{tick}")) }
    }
}

fn row(ratio: &Ratio, y: f64, is_first: bool) -> Markup {
    let is_faster = ratio.value >= 1.0;
    let colour = if is_faster { FASTER } else { SLOWER };
    let (at, from, to) = (x(ratio.value), x(ratio.from), x(ratio.to));
    html! {
        @if is_first { text x="12" y=(y + 4.0) font-weight="bold" fill=(INK) { (ratio.group) } }
        text x=(LEFT - 10.0) y=(y + 4.0) text-anchor="end" fill=(INK) { (cut(&ratio.name)) }
        line x1=(from) x2=(to) y1=(y) y2=(y) stroke=(colour) stroke-width="3" stroke-opacity="0.45" {}
        @if is_faster {
            circle cx=(at) cy=(y) r="4" fill=(colour) {}
        } @else {
            rect x=(at - 4.0) y=(y - 4.0) width="8" height="8" fill=(colour) {}
        }
    }
}

/// The place of a ratio on the scale, at whose ends what lies beyond them is drawn.
fn x(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, GREATEST) / LEAST).log2() / (GREATEST / LEAST).log2();
    ((LEFT + share * (RIGHT - LEFT)) * 10.0).round() / 10.0
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    name.chars().take(NAME - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_speed_is_the_middle_of_the_scale() {
        assert_eq!(x(1.0), (LEFT + RIGHT) / 2.0);
        assert_eq!((x(0.01), x(100.0)), (LEFT, RIGHT));
    }

    #[test]
    fn each_ratio_is_drawn_once() {
        let ratio = |value: f64| Ratio { group: "g", name: "a < b".into(), value, from: value * 0.9, to: value * 1.1 };
        let drawn = svg(&[ratio(0.8), ratio(1.2), ratio(1.3)]);
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert_eq!(drawn.matches(r#"width="8""#).count(), 1);
        assert!(drawn.contains("a &lt; b") && drawn.matches(">g<").count() == 1, "{drawn}");
    }
}
