//! The tables for a terminal, and the picture.

use std::fmt::Write;

use holdfast_lab::machine::Machine;
use holdfast_lab::measure::count;
use holdfast_lab::report::picture::{Panel, Picture};
use holdfast_lab::text;

use super::cells::{Cell, Work};
use super::options::Options;
use crate::engines;

/// Columns of the terminal, where there is none.
const WIDTH: usize = 100;

/// Columns of the terminal.
pub fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(WIDTH)
}

/// A table for each operation, no wider than `width`.
pub fn all(cells: &[Cell], options: &Options, width: usize) -> String {
    let mut out = String::new();
    let rows = count(options.rows);
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\n{rows} rows of 100 bytes; medians of {} turns of {:.2} s", options.turns, options.seconds);
    for engine in &options.engines {
        let _ = writeln!(out, "- {engine}: {}", engines::modes(engine));
    }
    out += "\nOperations a second by threads, in brackets the times of one thread, at the end the widest half range\n\
            of a row; below them an operation's processor time, and its context switches, voluntary/involuntary.\n";
    for work in Work::all(&options.operations, &options.modes) {
        out.push('\n');
        out += &table(cells, work, options, width);
    }
    out
}

/// One operation; the numbers of threads are divided into as many tables as the width demands.
fn table(cells: &[Cell], work: Work, options: &Options, width: usize) -> String {
    let mut at_once = options.threads.len();
    loop {
        let tables: Vec<String> =
            options.threads.chunks(at_once.max(1)).map(|threads| part(cells, work, options, threads)).collect();
        let widest = tables.iter().flat_map(|table| table.lines()).map(|line| line.chars().count()).max();
        if at_once <= 1 || widest.unwrap_or(0) <= width {
            return tables.concat();
        }
        at_once -= 1;
    }
}

fn part(cells: &[Cell], work: Work, options: &Options, threads: &[usize]) -> String {
    let title = work.title();
    let counts: Vec<String> = threads.iter().map(usize::to_string).collect();
    let header: Vec<&str> =
        std::iter::once(title.as_str()).chain(counts.iter().map(String::as_str)).chain(["spread"]).collect();
    let mut rows = Vec::new();
    for engine in &options.engines {
        let of = |threads: usize| {
            cells.iter().find(|cell| work.is_of(cell) && cell.engine == *engine && cell.threads == threads)
        };
        let row: Vec<&Cell> = threads.iter().filter_map(|&threads| of(threads)).collect();
        let line = |name: &str, text: fn(&Cell) -> String, last: String| -> Vec<String> {
            std::iter::once(name.to_string()).chain(row.iter().map(|cell| text(cell))).chain([last]).collect()
        };
        let spread = row.iter().map(|cell| cell.spread).fold(0.0, f64::max);
        rows.push(line(engine, rate, format!("{:.0} %", spread * 100.0)));
        rows.push(line("  processor, us", |cell| short(cell.median.processor_us), String::new()));
        rows.push(line("  switches", switches, String::new()));
    }
    text::table(&header, &rows, 1)
}

fn rate(cell: &Cell) -> String {
    let rate = short(cell.median.per_second);
    match cell.times {
        Some(times) if cell.threads > 1 => format!("{rate} ({})", short(times)),
        _ => rate,
    }
}

fn switches(cell: &Cell) -> String {
    format!("{}/{}", few(cell.median.voluntary), few(cell.median.involuntary))
}

/// A small number: two digits behind the point, or that it is less.
fn few(v: f64) -> String {
    match v {
        0.0 => "0".into(),
        v if v < 0.005 => "<.01".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v => format!("{v:.0}"),
    }
}

/// Three significant digits, thousands and millions as K and M.
fn short(v: f64) -> String {
    let (v, unit) = match v {
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "K"),
        v => (v, ""),
    };
    let digits = match v {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{v:.digits$}{unit}")
}

/// Throughput by threads, a panel for each operation.
pub fn picture(cells: &[Cell], options: &Options, machine: &Machine) -> Picture {
    let panel = |work: Work| {
        let line = |engine: &String| {
            let of = cells.iter().filter(|cell| work.is_of(cell) && cell.engine == *engine);
            of.map(|cell| (cell.threads as f64, cell.median.per_second)).collect()
        };
        Panel { title: work.title(), lines: options.engines.iter().map(line).collect() }
    };
    Picture {
        title: format!("{} cores, {}", machine.cores, machine.cpu),
        x_label: "threads".into(),
        y_label: "operations a second".into(),
        names: options.engines.clone(),
        panels: Work::all(&options.operations, &options.modes).into_iter().map(panel).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells::tests::{PUT, sample};
    use super::super::options::tests::parsed;
    use super::*;

    fn measured() -> (Vec<Cell>, Options) {
        let args = "--engines holdfast,lmdb --operations put --modes lazy --threads 1,2,4 --turns 2";
        let options = parsed(args).unwrap();
        let mut cells = Vec::new();
        for (engine, rate) in [("holdfast", 155_123.0), ("lmdb", 9_460_000.0)] {
            for threads in [1, 2, 4] {
                let turns = vec![sample(rate * threads as f64), sample(rate * threads as f64 * 1.1)];
                cells.push(Cell::new(PUT, engine, threads, turns, Some(&[sample(rate), sample(rate * 1.1)])));
            }
        }
        (cells, options)
    }

    #[test]
    fn numbers_have_three_digits() {
        let numbers = [0.0, 2.5, 12.34, 999.6, 155_123.0, 999_499.0, 999_500.0, 9_460_000.0];
        assert_eq!(numbers.map(short), ["0.00", "2.50", "12.3", "1.00K", "155K", "999K", "1.00M", "9.46M"]);
        assert_eq!([0.0, 0.001, 0.5, 12.4].map(few), ["0", "<.01", "0.50", "12"]);
    }

    #[test]
    fn a_table_has_three_lines_for_each_engine() {
        let (cells, options) = measured();
        let table = table(&cells, PUT, &options, 100);
        let lines: Vec<&str> = table.lines().map(str::trim_end).collect();
        let expected = [
            "put, lazy                1             2             4  spread",
            "---------------  ---------  ------------  ------------  ------",
            "holdfast              163K   326K (2.00)   652K (4.00)     5 %",
            "  processor, us       2.50          2.50          2.50",
            "  switches       0.50/<.01     0.50/<.01     0.50/<.01",
            "lmdb                 9.93M  19.9M (2.00)  39.7M (4.00)     5 %",
            "  processor, us       2.50          2.50          2.50",
            "  switches       0.50/<.01     0.50/<.01     0.50/<.01",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_narrow_terminal_gets_several_tables() {
        let (cells, options) = measured();
        let table = table(&cells, PUT, &options, 60);
        assert!(table.lines().all(|line| line.chars().count() <= 60), "{table}");
        assert_eq!(table.matches("put, lazy").count(), 2, "{table}");
    }

    #[test]
    fn the_picture_has_a_line_for_each_engine() {
        let (cells, options) = measured();
        let picture = picture(&cells, &options, &Machine::this(None));
        assert_eq!(picture.panels.len(), 1);
        assert_eq!(picture.panels[0].lines[0].len(), 3);
        assert_eq!(picture.names, ["holdfast", "lmdb"]);
    }
}
