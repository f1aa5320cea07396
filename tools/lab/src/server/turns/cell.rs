//! A cell: all sides under one load, in turns ([`crate::turns`]). A ratio is that within a round.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::plan::Plan;
use crate::claims::{self, Bar, Evidence};
use crate::document::{Run, merged};
use crate::figures::Grid;
use crate::measure::{Figure, human, median, or_dash};
use crate::progress::Progress;
use crate::stats::Estimate;
use crate::subject::meters::Meter;
use crate::subject::{Subject, Turn};
use crate::turns::{Rounds, in_turns};

/// The turns of all sides under one load.
pub struct Cell {
    /// Its name, as the words of its row.
    pub name: Vec<String>,
    /// The turns, by side.
    pub turns: Vec<Vec<Turn>>,
    /// Megabytes of memory of the servers at the end, by side.
    pub memory_mb: Vec<Option<f64>>,
    /// Further counts in the turns, by side, for the document.
    pub counted: Vec<Value>,
}

impl Cell {
    /// Runs `work` on all sides in `plan.rounds`, until all of `judged` is decided. Each round has
    /// random numbers of its own, the same for all sides.
    pub fn measure<S: Subject>(
        asked: Asked<'_>,
        sides: &mut [S],
        work: &S::Work,
        plan: &Plan,
        progress: &mut Progress,
    ) -> Result<Cell> {
        let phase = asked.name.join(", ");
        progress.step(&phase);
        let cell = Cell::of_turns(asked, sides, plan.rounds, |_, side| side.turn(work, &phase, plan.turn, progress));
        progress.did(plan.cell(sides.len()));
        cell
    }

    /// Gives the sides turns, which `turn` makes from the side's number and the side.
    pub fn of_turns<S: Subject>(
        asked: Asked<'_>,
        sides: &mut [S],
        rounds: Rounds,
        turn: impl FnMut(usize, &mut S) -> Result<Turn>,
    ) -> Result<Cell> {
        let Asked { name, judged } = asked;
        Cell::until(name, sides, rounds, turn, |turns| judged.iter().all(|judged| judged.decided(turns)))
    }

    /// As [`Cell::of_turns`], until `decided` says that more turns would change nothing.
    pub fn until<S: Subject>(
        name: &[&str],
        sides: &mut [S],
        rounds: Rounds,
        mut turn: impl FnMut(usize, &mut S) -> Result<Turn>,
        decided: impl FnMut(&[Vec<Turn>]) -> bool,
    ) -> Result<Cell> {
        let turns = in_turns(sides.len(), rounds, |side| turn(side, &mut sides[side]), decided)?;
        let memory_mb = sides.iter().map(S::memory_mb).collect();
        let counted = vec![Value::Null; sides.len()];
        Ok(Cell { name: name.iter().map(|w| (*w).to_owned()).collect(), turns, memory_mb, counted })
    }

    /// Runs `work` on all sides without counting.
    pub fn warm_up<S: Subject>(
        sides: &mut [S],
        work: &S::Work,
        duration: Duration,
        progress: &mut Progress,
    ) -> Result<()> {
        for side in sides {
            side.warm_up(work, duration, progress)?;
            progress.did(duration);
        }
        Ok(())
    }

    /// A figure of the turns of a side.
    pub fn figure(&self, side: usize, of: impl Fn(&Turn) -> Option<f64>) -> Option<Figure> {
        Figure::of(&self.turns.get(side)?.iter().filter_map(of).collect::<Vec<_>>())
    }

    /// The median of a figure of the rounds.
    pub fn of_rounds(&self, of: impl Fn(&[&Turn]) -> Option<f64>) -> Option<f64> {
        median(&by_round(&self.turns, of))
    }

    /// The ratios of side `of` to side `to`, round by round, where both have the figure.
    pub fn ratios(&self, of: usize, to: usize, figure: impl Fn(&Turn) -> Option<f64>) -> Vec<f64> {
        ratios(&self.turns, of, to, figure)
    }

    /// The middle of [`Cell::ratios`].
    pub fn ratio(&self, of: usize, to: usize, figure: impl Fn(&Turn) -> Option<f64>) -> Option<Estimate> {
        Estimate::of(&self.ratios(of, to, figure))
    }

    /// A run per side, for the document.
    pub fn runs<S: Subject>(&self, target: &str, sides: &[S]) -> Vec<Run> {
        let run = |(n, side): (usize, &S)| {
            let measured = json!({
                "cell": self.name.join(", "),
                "tps": self.figure(n, |t| Some(t.tps())),
                "p99_ms": self.figure(n, p99),
                "p95_ms": self.figure(n, p95),
                "server_cpu_us_per_transaction": self.figure(n, Turn::cpu_us),
                "pages_read_per_transaction": self.figure(n, |t| t.per_transaction(Meter::Reads)),
                "log_bytes_per_transaction": self.figure(n, |t| t.per_transaction(Meter::Log)),
                "memory_mb": self.memory_mb.get(n).copied().flatten(),
            });
            Run::new(target, side.name(), merged(measured, self.counted[n].clone()))
        };
        sides.iter().enumerate().take(self.turns.len()).map(run).collect()
    }
}

/// A figure of every round that has it, from the turns of all sides in that round.
pub fn by_round(turns: &[Vec<Turn>], of: impl Fn(&[&Turn]) -> Option<f64>) -> Vec<f64> {
    let rounds = turns.iter().map(Vec::len).min().unwrap_or(0);
    let figures = (0..rounds).filter_map(|n| of(&turns.iter().map(|side| &side[n]).collect::<Vec<_>>()));
    // A round in which the judged side stood still counts: its ratio is 0.
    figures.filter(|figure| figure.is_finite()).collect()
}

fn ratios(turns: &[Vec<Turn>], of: usize, to: usize, figure: impl Fn(&Turn) -> Option<f64>) -> Vec<f64> {
    by_round(turns, |round| Some(figure(round.get(of)?)? / figure(round.get(to)?)?))
}

/// A cell as it is asked for.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The words of its row.
    pub name: &'a [&'a str],
    /// The figures that are judged: there are more turns until all of them are decided.
    pub judged: &'a [Judged],
}

/// A figure of one side as a share of that of another, and its bar.
#[derive(Clone, Copy)]
pub struct Judged {
    /// The side that is judged, and the one that it is compared with.
    pub of: usize,
    /// See `of`.
    pub to: usize,
    pub figure: fn(&Turn) -> Option<f64>,
    pub bar: Bar,
}

impl Judged {
    /// The figure of side 0 against each of the others.
    pub fn against_others<S>(sides: &[S], figure: fn(&Turn) -> Option<f64>, bar: Bar) -> Vec<Judged> {
        (1..sides.len()).map(|to| Judged { of: 0, to, figure, bar }).collect()
    }

    fn decided(&self, turns: &[Vec<Turn>]) -> bool {
        claims::decided(&ratios(turns, self.of, self.to, self.figure), self.bar)
    }

    /// What a cell says of it.
    pub fn evidence(&self, cell: &Cell) -> Evidence {
        Evidence::turns(&cell.ratios(self.of, self.to, self.figure))
    }
}

/// Transactions per second.
pub fn tps(turn: &Turn) -> Option<f64> {
    Some(turn.tps())
}

/// The 99th percentile of a turn's transactions, in milliseconds.
pub fn p99(turn: &Turn) -> Option<f64> {
    turn.latencies.transaction_ms(99.0)
}

/// The median of the 95th percentiles of a turn's seconds, in milliseconds.
pub fn p95(turn: &Turn) -> Option<f64> {
    median(&turn.p95_ms)
}

/// A figure of a turn.
pub type Of<'a> = &'a dyn Fn(&Turn) -> Option<f64>;

/// A column for each side.
pub type Column<'a> = (&'a str, Of<'a>);

/// The cells as a table: the words of their names under `words`, medians of turns by side for each
/// of `columns`, and the ratios of the first column between side 0 and the others.
pub fn grid(title: &str, words: &[&str], sides: &[impl Subject], columns: &[Column<'_>], cells: &[Cell]) -> Grid {
    let mut header: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    for (n, (what, _)) in columns.iter().enumerate() {
        header.extend(sides.iter().map(|side| format!("{what}, {}", side.name())));
        if n == 0 {
            for other in sides.iter().skip(1) {
                header.extend([format!("of {}", other.name()), "lower bound".to_owned()]);
            }
        }
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let note =
        "Medians of turns. A ratio is that within a round; its middle, and the lower bound of its 95 % interval.";
    let mut grid = Grid::new(title, words.len(), &header, note);
    for cell in cells {
        let mut row = cell.name.clone();
        for (n, (_, of)) in columns.iter().enumerate() {
            row.extend((0..sides.len()).map(|side| or_dash(cell.figure(side, of), |f| human(f.median))));
            if n == 0 {
                for other in 1..sides.len() {
                    let ratio = cell.ratio(0, other, of);
                    let shown = |of: fn(Estimate) -> f64| or_dash(ratio, |ratio| format!("{:.3}", of(ratio)));
                    row.extend([shown(|r| r.value), shown(|r| r.likely.low)]);
                }
            }
        }
        grid.rows.push(row);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(transactions: f64) -> Turn {
        Turn { seconds: 1.0, transactions, ..Turn::default() }
    }

    #[test]
    fn only_rounds_with_both_sides_make_a_ratio() {
        let ratio = |ours: &[f64], theirs: &[f64]| {
            let turns = [ours, theirs].map(|side| side.iter().map(|&tps| turn(tps)).collect()).to_vec();
            let cell = Cell { name: Vec::new(), turns, memory_mb: Vec::new(), counted: Vec::new() };
            cell.ratio(0, 1, |t| Some(t.tps()))
        };
        assert!(ratio(&[1.0], &[1.0]).is_none(), "one round has no spread");
        assert!(ratio(&[1.0, 2.0], &[0.0, 2.0]).is_none());
        let stood_still = ratio(&[0.0, 0.0, 0.0, 3.0], &[1.0, 2.0, 1.5, 3.0]).unwrap();
        assert!(stood_still.turns == 4 && stood_still.value < 0.1, "{stood_still:?}");
        let sure = ratio(&[2.0, 4.0, 3.0], &[1.0, 2.0, 1.5]).unwrap();
        assert!((sure.likely.low - 2.0).abs() < 1e-9);
    }
}
