//! A picture of throughput on the terminal while it is measured: a line of bars for each run,
//! against what it would be if nothing disturbed it.

use crate::measure::human;
use crate::text::WIDTH;

/// Bars of a line, if its name leaves room for them.
const COLUMNS: usize = 40;
/// The longest that stands beside name and bars.
const FIGURES: usize = "   100 %  999,999 tps".len();
/// Eighths of the height of a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Below this share of the reference a run counts as collapsed, and is red.
const COLLAPSED: f64 = 0.25;

/// The runs so far.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    title: String,
    lanes: Vec<Lane>,
}

#[derive(Clone, Debug)]
struct Lane {
    name: String,
    /// The throughput of a full bar.
    full: f64,
    values: Vec<f64>,
}

impl Picture {
    /// A picture without runs.
    pub fn new(title: &str) -> Picture {
        Picture { title: title.to_owned(), lanes: Vec::new() }
    }

    /// Begins a run, whose bars are full at `full`.
    pub fn begin(&mut self, name: &str, full: f64) {
        self.lanes.push(Lane { name: name.to_owned(), full, values: Vec::new() });
    }

    /// The next value of the last run.
    pub fn push(&mut self, value: f64) {
        if let Some(lane) = self.lanes.last_mut() {
            lane.values.push(value);
        }
    }

    /// The picture as lines; with colours if `coloured`.
    pub fn lines(&self, coloured: bool) -> Vec<String> {
        let drawn: Vec<&Lane> = self.lanes.iter().filter(|lane| !lane.values.is_empty()).collect();
        let width = drawn.iter().map(|lane| lane.name.chars().count()).max().unwrap_or(0);
        let columns = WIDTH.saturating_sub(width + FIGURES).clamp(1, COLUMNS);
        let line = |lane: &&Lane| {
            let (means, name) = (lane.means(columns), &lane.name);
            let (bars, last) = (lane.bars(&means), means.last().copied().unwrap_or(0.0));
            let paint = match (coloured, last < COLLAPSED * lane.full) {
                (false, _) => ["", ""],
                (true, true) => ["\u{1b}[31m", "\u{1b}[0m"],
                (true, false) => ["\u{1b}[32m", "\u{1b}[0m"],
            };
            let share = last / lane.full.max(1e-9) * 100.0;
            format!("{name:<width$} {}{bars:<columns$}{} {share:>4.0} %  {} tps", paint[0], paint[1], human(last))
        };
        let title = (!drawn.is_empty()).then(|| self.title.clone());
        title.into_iter().chain(drawn.iter().map(line)).collect()
    }
}

impl Lane {
    /// The values as at most that many means.
    fn means(&self, columns: usize) -> Vec<f64> {
        let n = self.values.len();
        let columns = n.min(columns);
        let part = |column: usize| &self.values[column * n / columns..(column + 1) * n / columns];
        (0..columns).map(part).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
    }

    fn bars(&self, means: &[f64]) -> String {
        let bar = |value: &f64| BARS[((value / self.full.max(1e-9) * 8.0) as usize).min(7)];
        means.iter().map(bar).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collapse_is_seen() {
        let mut picture = Picture::new("a title");
        assert!(picture.lines(false).is_empty());
        picture.begin("one", 1000.0);
        (0..60).for_each(|n| picture.push(if n < 30 { 1000.0 } else { 3.0 }));
        picture.begin("another", 1000.0);
        [100.0, 500.0, 990.0].into_iter().for_each(|tps| picture.push(tps));
        let lines = picture.lines(false);
        assert_eq!(lines[0], "a title");
        assert_eq!(lines[1], format!("one     {}{}    0 %  3.00 tps", "█".repeat(20), "▁".repeat(20)));
        assert_eq!(lines[2], format!("another ▁▅█{}   99 %  990 tps", " ".repeat(37)));
        let coloured = picture.lines(true);
        assert!(coloured[1].contains("\u{1b}[31m") && coloured[2].contains("\u{1b}[32m"), "{coloured:?}");
    }

    /// The lines of `lab sideload` had 112 columns.
    #[test]
    fn a_picture_fits_the_terminal() {
        let mut picture = Picture::new("a title");
        for name in ["holdfast, warm", "midpoint_lru (pct 37, time 1000 ms), warm, at the rate"] {
            picture.begin(name, 12_345.0);
            (0..60).for_each(|_| picture.push(12_345.0));
        }
        let lines = picture.lines(false);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines.iter().skip(1).all(|line| line.contains("██████ ") && line.ends_with("12,345 tps")), "{lines:?}");
    }
}
